#include "lib/checks/data_checks.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/text/bounded_json.h"
#include "lib/checks/prompt_repeats.h"
#include "lib/config/choice.h"
#include "lib/config/sources.h"
#include "lib/data/dataset.h"
#include "lib/data/prompt_file.h"
#include "lib/data/row_faults.h"
#include "lib/verify/sandbox/sandbox.h"

namespace buttress {
namespace {

// What the rows that were read have in common.
struct Rows {
  std::size_t read = 0;
  std::size_t dropped = 0;  // too long, where run.data.over_long is drop
  bool all_usable = true;
  std::size_t no_answer = 0;
  std::size_t longest = 0;  // tokens of a prompt
};

Rows ReadRows(const PromptFile& file, std::size_t most) {
  Rows rows;
  for (; rows.read < std::min(most, file.size()); ++rows.read) {
    const Result<Prompt> prompt = file.Read(rows.read);
    if (prompt.status().code() == StatusCode::kOutOfRange) {
      ++rows.dropped;
      continue;
    }
    if (!prompt.ok()) {
      rows.all_usable = false;
      continue;
    }
    rows.no_answer += prompt->answer.empty() || prompt->answer == "null" ? 1 : 0;
    rows.longest = std::max(rows.longest, prompt->token_ids.size());
  }
  return rows;
}

void Judge(const std::string& key, const PromptDataset& dataset, const Rows& rows,
           Findings& findings) {
  if (rows.no_answer > 0) {
    findings.Warn(key, fmt::format("{} of the first {} rows have an empty answer in '{}'",
                                   rows.no_answer, rows.read, dataset.data.answer_field));
    return;
  }
  const std::string dropped =
      rows.dropped == 0 ? "" : fmt::format(" ({} too long, which are dropped)", rows.dropped);
  findings.Ok(key, fmt::format("{} rows read{}, prompts of {} tokens at most", rows.read, dropped,
                               rows.longest));
}

// Returns the hashes of the prompts (PromptFile::SortedHashes); none of a file with errors.
std::vector<std::uint64_t> CheckFile(const std::string& key, const PromptDataset& dataset,
                                     const std::string& bad_rows, const ModelFacts& model,
                                     std::size_t most, Findings& findings) {
  const auto refuse = [&](const std::string& why) {
    findings.Error(key, why);
    return std::vector<std::uint64_t>();
  };
  if (const auto files = FindDatasetFiles(dataset.data.prompts); !files.ok())
    return refuse(files.status().message());
  if (!model.tokenizer) return {};  // an error of the model says why
  const auto file = PromptFile::Open(dataset, *model.tokenizer);
  if (!file.ok()) return refuse(file.status().message());
  const Rows rows = ReadRows(**file, most);
  if (rows.dropped == (*file)->size())
    return refuse(fmt::format("all {} rows are too long", rows.read));
  if (!rows.all_usable) {
    std::string all = (*file)->CheckRows(/*stop=*/false, bad_rows).status().message();
    return refuse(all.insert(std::min(all.find('\n'), all.size()), FieldAdvice(dataset)));
  }
  Judge(key, dataset, rows, findings);
  auto hashes = (*file)->SortedHashes();
  return hashes.ok() ? *std::move(hashes) : refuse(hashes.status().message());
}

// One process of each function is enough to try it.
RewardConfig TriedReward(RewardConfig config) {
  config.python.workers = 1;
  return config;
}

Result<TriedRow> Try(const Prompt& prompt, const Tokenizer& tokenizer, const VerifierSet& set,
                     const ResponseReader& read) {
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
  if (!read) return row;
  BUTTRESS_ASSIGN_OR_RETURN(row.responses, read(prompt.extra_json));
  std::vector<VerifyRequest> group(row.responses.size(), request);
  for (std::size_t i = 0; i < group.size(); ++i) group[i].response = row.responses[i];
  row.given = verifier.VerifyGroup(group);
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

std::string FieldAdvice(const PromptDataset& dataset) {
  const DataConfig& data = dataset.data;
  std::ifstream file(data.prompts);
  std::string line;
  if (!std::getline(file, line) || NestedDeeper(line)) return "";
  const auto row = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object() || row.empty()) return "";
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) names.push_back(name);
  const std::vector<std::string_view> known(names.begin(), names.end());
  std::string advice;
  for (const auto& [key, field] :
       {std::pair("prompt_field", data.prompt_field), {"answer_field", data.answer_field}}) {
    if (row.contains(field) || field.find('.') != std::string::npos) continue;
    advice += fmt::format("\n    the first row has no '{}' for {}.{}{}", field, dataset.section,
                          key, SuggestNames(field, known));
  }
  return advice;
}

void CheckPrompts(const RunSettings& run, const ModelFacts& model, std::size_t rows,
                  const std::string& out, Findings& findings) {
  std::vector<HashedPrompts> trained;
  const auto check = [&](const std::string& name, PromptDataset dataset) {
    // Where a completion alone is too long, the check of the model says so.
    const std::int64_t positions = model.config ? model.config->max_positions : 0;
    if (dataset.max_tokens < positions) dataset.positions = positions;
    const std::string log = out.empty() ? "" : BadRowsPath(out, name, dataset.name);
    const std::string key = dataset.section + "." + name;
    return HashedPrompts{key, CheckFile(key, dataset, log, model, rows, findings)};
  };
  for (const PromptDataset& dataset : DatasetsOf(run)) {
    trained.push_back(check("prompts", dataset));
    // The task of an episode is its whole row: games of one prompt differ.
    if (!run.env.on()) CheckTrained(trained.back(), findings);
  }
  if (run.data.held_out.empty()) return;
  PromptDataset held_out{.name = {}, .section = "run.data", .data = run.data};
  held_out.data.prompts = run.data.held_out;
  held_out.max_tokens = run.sampling.max_tokens;
  CheckHeldOut(check("held_out", held_out), trained, findings);
}

Result<std::vector<TriedRow>> TryRows(const RunSettings& run, const Tokenizer& tokenizer,
                                      const ResponseReader& read) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto set, VerifierSet::Make(TriedReward(run.reward)));
  std::vector<TriedRow> rows;
  for (const PromptDataset& dataset : DatasetsOf(run)) {
    BUTTRESS_ASSIGN_OR_RETURN(const auto file, PromptFile::Open(dataset, tokenizer));
    std::size_t tried = 0;
    for (std::size_t i = 0; i < file->size() && tried < kTriedRows; ++i) {
      const Result<Prompt> prompt = file->Read(i);
      if (prompt.status().code() == StatusCode::kOutOfRange) continue;  // it is dropped
      BUTTRESS_RETURN_IF_ERROR(prompt.status());
      BUTTRESS_ASSIGN_OR_RETURN(TriedRow row, Try(*prompt, tokenizer, *set, read));
      rows.push_back(std::move(row));
      ++tried;
    }
  }
  return rows;
}

void CheckVerifiers(const RunSettings& run, Findings& findings) {
  const RewardConfig config = TriedReward(run.reward);
  const auto set = VerifierSet::Make(config);
  if (!set.ok()) return findings.Error("run.reward", set.status().message());
  if (config.second.share > 0) {
    if (const auto second = MakeVerifier(config.second.verifier, config); !second.ok())
      return findings.Error("run.reward.second.verifier", second.status().message());
  }
  findings.Ok("run.reward", run.reward.verifier + " is there");
  if (const std::string memory = OpenedSandboxText(); !memory.empty())
    findings.Ok("run.reward.code", memory);
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
