// `buttress verify FILE`: scores rows of responses or groups with the workers' own code and reports
// the share of groups that give no gradient.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/prepare/verifier_flags.h"
#include "lib/base/report/status.h"
#include "lib/experience/types.h"
#include "lib/rl/collapse/acr.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct VerifyFlags {
  VerifierFlags verifier;
  bool json = false;
  bool list = false;
};

struct Counts {
  std::int64_t correct = 0;
  std::int64_t wrong = 0;
  std::int64_t unscorable = 0;
  std::int64_t labelled = 0;
  std::int64_t agreeing = 0;
  std::string first_reason;  // of a response that could not be scored
  CollapseCounts groups;     // over the rows with several responses

  std::int64_t responses() const { return correct + wrong + unscorable; }

  double unscorable_share() const {
    return responses() == 0 ? 0
                            : static_cast<double>(unscorable) / static_cast<double>(responses());
  }
};

void PrintTable() {
  for (const VerifierEntry& entry : VerifierTable()) {
    std::string line(entry.meaning);
    if (!entry.settings.empty()) line.append("; settings: ").append(entry.settings);
    if (!entry.source.empty()) line.append("; source: ").append(entry.source);
    fmt::print("{:<12} {}\n", entry.name, line);
  }
}

void PrintVerdict(const VerifyRow& row, std::size_t index, const Verdict& verdict, bool as_json) {
  const std::string outcome(OutcomeName(verdict.outcome));
  if (as_json) {
    const ordered_json object{{"id", row.json_id},        {"index", index},
                              {"outcome", outcome},       {"reason", verdict.unscorable_reason},
                              {"anchor", verdict.anchor}, {"gold", verdict.gold},
                              {"given", verdict.given}};
    // A response may end inside a UTF-8 character, which JSON does not allow.
    fmt::print("{}\n", object.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  } else if (verdict.outcome == Outcome::kUnscorable) {
    fmt::print("{}\t{}\t{}\t{}\n", row.id, index, outcome, verdict.unscorable_reason);
  } else {
    fmt::print("{}\t{}\t{}\tgiven {}\tgold {}\n", row.id, index, outcome, verdict.given,
               verdict.gold);
  }
}

// Prints to stderr, so that stdout holds one object per line.
void PrintDisagreement(const VerifyRow& row, std::size_t index, const Verdict& verdict) {
  fmt::print(stderr,
             "label disagrees: {} response {} is {}, labelled {}: given '{}', gold '{}'\n{}\n",
             row.id, index, OutcomeName(verdict.outcome), row.labels[index] ? "correct" : "wrong",
             verdict.given, verdict.gold, row.responses[index]);
}

void PrintSummary(const Counts& counts, bool as_json) {
  ordered_json summary{{"responses", counts.responses()},
                       {"correct", counts.correct},
                       {"wrong", counts.wrong},
                       {"unscorable", counts.unscorable},
                       {"unscorable_share", counts.unscorable_share()},
                       {"groups", counts.groups.groups},
                       {"collapsed", counts.groups.constant()},
                       {"all_correct", counts.groups.all_correct},
                       {"all_wrong", counts.groups.all_wrong},
                       {"acr", nullptr},
                       {"labelled", counts.labelled},
                       {"label_agreement", nullptr}};
  if (counts.groups.constant() + counts.groups.mixed > 0) summary["acr"] = counts.groups.acr();
  if (counts.labelled > 0) {
    summary["label_agreement"] =
        static_cast<double>(counts.agreeing) / static_cast<double>(counts.labelled);
  }
  if (as_json) {
    fmt::print("{}\n", ordered_json{{"summary", summary}}.dump());
    return;
  }
  for (const auto& [name, value] : summary.items()) {
    fmt::print("{:<16} {}\n", name, value.is_null() ? "-" : value.dump());
  }
}

void ScoreRow(const VerifyRow& row, const Verifier& verifier, bool as_json, Counts& counts) {
  std::vector<double> rewards;
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < row.responses.size(); ++i) {
    const Verdict verdict = verifier.Verify({.prompt = row.prompt,
                                             .response = row.responses[i],
                                             .answer = row.answer,
                                             .extra_json = row.json,
                                             .truncated = false,
                                             .source = row.source});
    PrintVerdict(row, i, verdict, as_json);
    rewards.push_back(verdict.raw_reward);
    outcomes.push_back(verdict.outcome);
    if (counts.unscorable == 0) counts.first_reason = verdict.unscorable_reason;
    ++(verdict.outcome == Outcome::kCorrect ? counts.correct
       : verdict.outcome == Outcome::kWrong ? counts.wrong
                                            : counts.unscorable);
    if (row.labels.empty()) continue;
    ++counts.labelled;
    const Outcome label = row.labels[i] ? Outcome::kCorrect : Outcome::kWrong;
    if (verdict.outcome == label) {
      ++counts.agreeing;
    } else {
      PrintDisagreement(row, i, verdict);
    }
  }
  if (row.is_group) counts.groups.Add(ClassifyGroup(rewards, outcomes));
}

Status ScoreFile(const VerifyFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<VerifierSet> verifiers, flags.verifier.Make());
  Counts counts;
  BUTTRESS_RETURN_IF_ERROR(flags.verifier.ForEachRow([&](const VerifyRow& row) {
    ScoreRow(row, verifiers->For(row.source), flags.json, counts);
  }));
  PrintSummary(counts, flags.json);
  if (counts.responses() == 0 || counts.unscorable < counts.responses()) return OkStatus();
  std::fflush(stdout);
  return NothingToLearn(fmt::format("none of {} responses could be scored; the first because: {}",
                                    counts.responses(), counts.first_reason));
}

}  // namespace

std::function<Status()> AddVerify(CLI::App& app) {
  const auto flags = std::make_shared<VerifyFlags>();
  flags->verifier.AddTo(app);
  app.add_flag("--json", flags->json, "print one JSON object per response, then a summary object");
  app.add_flag("--list", flags->list, "list the verifiers");
  return [flags]() -> Status {
    if (!flags->list) return ScoreFile(*flags);
    PrintTable();
    return OkStatus();
  };
}

}  // namespace buttress
