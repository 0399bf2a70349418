#include "lib/checks/reward_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "lib/config/sources.h"
#include "lib/data/prompt_file.h"

namespace buttress {
namespace {

Result<TriedRow> Try(const Prompt& prompt, const Tokenizer& tokenizer, const VerifierSet& set) {
  TriedRow row;
  row.id = prompt.id;
  row.source = prompt.source;
  row.answer = prompt.answer;
  BUTTRESS_ASSIGN_OR_RETURN(row.prompt, tokenizer.Decode(prompt.token_ids, SpecialTokens::kKeep));
  const Verifier& verifier = set.For(prompt.source);
  VerifyRequest request{.prompt = row.prompt,
                        .response = prompt.answer,
                        .answer = prompt.answer,
                        .extra_json = prompt.extra_json,
                        .source = prompt.source};
  row.gold = verifier.Verify(request);
  request.response = kWrongResponse;
  row.wrong = verifier.Verify(request);
  return row;
}

// Those of the datasets, each once.
std::string Verifiers(const RunSettings& run) {
  std::vector<std::string> names;
  for (const PromptDataset& dataset : DatasetsOf(run)) {
    const auto own = run.reward.by_source.find(dataset.name);
    const std::string& name = own == run.reward.by_source.end() ? run.reward.verifier : own->second;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<std::vector<TriedRow>> TryRows(const RunSettings& run, const Tokenizer& tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto set, VerifierSet::Make(run.reward));
  std::vector<TriedRow> rows;
  for (const PromptDataset& dataset : DatasetsOf(run)) {
    BUTTRESS_ASSIGN_OR_RETURN(const auto file, PromptFile::Open(dataset, tokenizer));
    for (std::size_t i = 0; i < std::min(kTriedRows, file->size()); ++i) {
      BUTTRESS_ASSIGN_OR_RETURN(const Prompt prompt, file->Read(i));
      BUTTRESS_ASSIGN_OR_RETURN(TriedRow row, Try(prompt, tokenizer, *set));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

void CheckVerifiers(const RunSettings& run, Findings& findings) {
  const auto set = VerifierSet::Make(run.reward);
  if (!set.ok()) return findings.Error("run.reward", set.status().message());
  findings.Ok("run.reward", run.reward.verifier + " is there");
}

void CheckReward(const RunSettings& run, const Tokenizer& tokenizer, Findings& findings) {
  const std::string key = "run.reward";
  const auto rows = TryRows(run, tokenizer);
  if (!rows.ok()) return findings.Error(key, rows.status().message());
  const auto count = [&](Outcome outcome) {
    return std::ranges::count_if(*rows,
                                 [&](const TriedRow& row) { return row.gold.outcome == outcome; });
  };
  const auto tried = static_cast<std::int64_t>(rows->size());
  if (tried > 0 && count(Outcome::kUnscorable) == tried) {
    return findings.Error(key,
                          fmt::format("{} could score none of the first {} rows; the first "
                                      "because: {}",
                                      Verifiers(run), tried, rows->front().gold.unscorable_reason));
  }
  findings.Ok(key, fmt::format("{}: {} of {} reference answers are correct as responses, {} cannot "
                               "be scored",
                               Verifiers(run), count(Outcome::kCorrect), tried,
                               count(Outcome::kUnscorable)));
}

}  // namespace buttress
