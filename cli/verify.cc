// `buttress verify FILE`: scores rows of responses or of groups, as the workers do, and says what
// share of the groups teaches nothing.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/verify_rows.h"
#include "lib/config/load.h"
#include "lib/rl/acr.h"
#include "lib/rl/types.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kRowsBetweenProgress = 10000;

struct VerifyFlags {
  std::string path;
  std::string verifier = "number";
  bool use_all = false;
  bool json = false;
  bool list = false;
  std::vector<std::string> overrides;
};

struct Counts {
  std::int64_t correct = 0;
  std::int64_t wrong = 0;
  std::int64_t unscorable = 0;
  std::int64_t labelled = 0;
  std::int64_t agreeing = 0;
  CollapseCounts groups;  // of rows with several responses

  std::int64_t responses() const { return correct + wrong + unscorable; }
};

void PrintTable() {
  for (const VerifierEntry& entry : VerifierTable()) {
    std::printf("%-12s %s\n", std::string(entry.name).c_str(), std::string(entry.meaning).c_str());
  }
}

void PrintVerdict(const std::string& id, std::size_t index, const Verdict& verdict, bool as_json) {
  const std::string outcome(OutcomeName(verdict.outcome));
  if (as_json) {
    const ordered_json object{{"id", id},
                              {"index", index},
                              {"outcome", outcome},
                              {"reason", verdict.unscorable_reason},
                              {"anchor", verdict.anchor},
                              {"gold", verdict.gold},
                              {"given", verdict.given}};
    // A response may hold half a character; JSON may not.
    std::printf("%s\n",
                object.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
  } else if (verdict.outcome == Outcome::kUnscorable) {
    std::printf(
        "%s\t%zu\t%s\t%s\n", id.c_str(), index, outcome.c_str(), verdict.unscorable_reason.c_str());
  } else {
    std::printf("%s\t%zu\t%s\tgiven %s\tgold %s\n",
                id.c_str(),
                index,
                outcome.c_str(),
                verdict.given.c_str(),
                verdict.gold.c_str());
  }
}

// To stderr, so that stdout stays one object a line.
void PrintDisagreement(const VerifyRow& row, std::size_t index, const Verdict& verdict) {
  std::fprintf(stderr,
               "label disagrees: %s response %zu is %s, labelled %s: given '%s', gold '%s'\n%s\n",
               row.id.c_str(),
               index,
               std::string(OutcomeName(verdict.outcome)).c_str(),
               row.labels[index] ? "correct" : "wrong",
               verdict.given.c_str(),
               verdict.gold.c_str(),
               row.responses[index].c_str());
}

void PrintSummary(const Counts& counts, bool as_json) {
  ordered_json summary{{"responses", counts.responses()},
                       {"correct", counts.correct},
                       {"wrong", counts.wrong},
                       {"unscorable", counts.unscorable},
                       {"groups", counts.groups.groups},
                       {"collapsed", counts.groups.constant()},
                       {"all_correct", counts.groups.all_correct},
                       {"all_wrong", counts.groups.all_wrong},
                       {"acr", counts.groups.acr()},
                       {"labelled", counts.labelled},
                       {"label_agreement", nullptr}};
  if (counts.labelled > 0) {
    summary["label_agreement"] =
        static_cast<double>(counts.agreeing) / static_cast<double>(counts.labelled);
  }
  if (as_json) {
    std::printf("%s\n", ordered_json{{"summary", summary}}.dump().c_str());
    return;
  }
  for (const auto& [name, value] : summary.items()) {
    std::printf("%-16s %s\n", name.c_str(), value.is_null() ? "-" : value.dump().c_str());
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
                                             .truncated = false});
    PrintVerdict(row.id, i, verdict, as_json);
    rewards.push_back(verdict.raw_reward);
    outcomes.push_back(verdict.outcome);
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
  if (flags.path.empty()) return InvalidArgument("verify: name a JSONL file, or --list");
  BUTTRESS_ASSIGN_OR_RETURN(RewardConfig config, ParseReward(flags.overrides));
  config.use_all |= flags.use_all;
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Verifier> verifier,
                            MakeVerifier(flags.verifier, config));
  std::ifstream file(flags.path);
  if (!file) return NotFound("cannot read " + flags.path);
  Counts counts;
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    const Result<VerifyRow> row = ParseVerifyRow(line, number);
    if (!row.ok()) return row.status().Annotate(flags.path);
    ScoreRow(*row, *verifier, flags.json, counts);
    if (number % kRowsBetweenProgress == 0) {
      std::fprintf(stderr,
                   "%lld rows, %lld responses\n",
                   static_cast<long long>(number),
                   static_cast<long long>(counts.responses()));
    }
  }
  if (file.bad())
    return DataLoss("cannot read on in " + flags.path + " behind line " + std::to_string(number));
  PrintSummary(counts, flags.json);
  return OkStatus();
}

}  // namespace

std::function<Status()> AddVerify(CLI::App& app) {
  const auto flags = std::make_shared<VerifyFlags>();
  app.add_option("file",
                 flags->path,
                 "JSONL of {\"id\", \"answer\", \"response\", \"label\"} or of groups: {\"id\", "
                 "\"answer\", \"responses\": [...], \"labels\": [...]}; labels are optional");
  app.add_option("--verifier", flags->verifier, "what scores, alone or as a sum (math + 0.2 * format): --list names them")
      ->capture_default_str();
  app.add_option("--set", flags->overrides, "a setting of run.reward: run.reward.code.language=cpp (may stand several times)");
  app.add_flag("--use-all", flags->use_all, "countdown: every number exactly once");
  app.add_flag("--json", flags->json, "one JSON object a response, and a summary object");
  app.add_flag("--list", flags->list, "list the verifiers");
  return [flags]() -> Status {
    if (!flags->list) return ScoreFile(*flags);
    PrintTable();
    return OkStatus();
  };
}

}  // namespace buttress
