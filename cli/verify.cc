// `buttress verify FILE`: scores rows {"id", "answer", "response"}, as the workers do.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "lib/rl/types.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

struct VerifyFlags {
  std::string path;
  std::string verifier = "number";
  bool use_all = false;
  bool json = false;
  bool list = false;
};

struct Row {
  std::string id;
  std::string prompt;
  std::string answer;
  std::string response;
};

struct Counts {
  std::int64_t correct = 0;
  std::int64_t wrong = 0;
  std::int64_t unscorable = 0;

  void Add(Outcome outcome) {
    ++(outcome == Outcome::kCorrect ? correct : outcome == Outcome::kWrong ? wrong : unscorable);
  }

  std::int64_t responses() const { return correct + wrong + unscorable; }
};

void PrintTable() {
  for (const VerifierEntry& entry : VerifierTable()) {
    std::printf("%-12s %s\n", std::string(entry.name).c_str(), std::string(entry.meaning).c_str());
  }
}

Result<Row> ParseRow(const std::string& line, std::int64_t number) {
  const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) return DataLoss("line " + std::to_string(number) + ": no JSON object");
  Row parsed{.id = std::to_string(number), .prompt = {}, .answer = {}, .response = {}};
  const auto read = [&](const char* name, std::string& value, bool required) {
    if (!row.contains(name)) {
      return required ? DataLoss("line " + std::to_string(number) + ": no field '" + name + "'")
                      : OkStatus();
    }
    value = row[name].is_string() ? row[name].get<std::string>() : row[name].dump();
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(read("id", parsed.id, false));
  BUTTRESS_RETURN_IF_ERROR(read("prompt", parsed.prompt, false));
  BUTTRESS_RETURN_IF_ERROR(read("answer", parsed.answer, true));
  BUTTRESS_RETURN_IF_ERROR(read("response", parsed.response, true));
  return parsed;
}

void PrintVerdict(const Row& row, const Verdict& verdict, bool as_json) {
  const std::string outcome(OutcomeName(verdict.outcome));
  if (as_json) {
    const ordered_json object{{"id", row.id},
                              {"index", 0},
                              {"outcome", outcome},
                              {"reason", verdict.unscorable_reason},
                              {"gold", verdict.gold},
                              {"given", verdict.given}};
    // A response may hold half a character; JSON may not.
    std::printf("%s\n",
                object.dump(-1, ' ', false, ordered_json::error_handler_t::replace).c_str());
  } else if (verdict.outcome == Outcome::kUnscorable) {
    std::printf("%s\t%s\t%s\n", row.id.c_str(), outcome.c_str(), verdict.unscorable_reason.c_str());
  } else {
    std::printf("%s\t%s\tgiven %s\tgold %s\n",
                row.id.c_str(),
                outcome.c_str(),
                verdict.given.c_str(),
                verdict.gold.c_str());
  }
}

void PrintSummary(const Counts& counts, bool as_json) {
  if (as_json) {
    const ordered_json summary{{"responses", counts.responses()},
                               {"correct", counts.correct},
                               {"wrong", counts.wrong},
                               {"unscorable", counts.unscorable}};
    std::printf("%s\n", ordered_json{{"summary", summary}}.dump().c_str());
  } else {
    std::printf("%lld responses: %lld correct, %lld wrong, %lld unscorable\n",
                static_cast<long long>(counts.responses()),
                static_cast<long long>(counts.correct),
                static_cast<long long>(counts.wrong),
                static_cast<long long>(counts.unscorable));
  }
}

Status ScoreFile(const VerifyFlags& flags) {
  if (flags.path.empty()) return InvalidArgument("verify: name a JSONL file, or --list");
  RewardConfig config;
  config.use_all = flags.use_all;
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Verifier> verifier,
                            MakeVerifier(flags.verifier, config));
  std::ifstream file(flags.path);
  if (!file) return NotFound("cannot read " + flags.path);
  Counts counts;
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    const Result<Row> row = ParseRow(line, number);
    if (!row.ok()) return row.status().Annotate(flags.path);
    const Verdict verdict = verifier->Verify({.prompt = row->prompt,
                                              .response = row->response,
                                              .answer = row->answer,
                                              .extra_json = line,
                                              .truncated = false});
    PrintVerdict(*row, verdict, flags.json);
    counts.Add(verdict.outcome);
  }
  if (file.bad())
    return DataLoss("cannot read on in " + flags.path + " behind line " + std::to_string(number));
  PrintSummary(counts, flags.json);
  return OkStatus();
}

}  // namespace

std::function<Status()> AddVerify(CLI::App& app) {
  const auto flags = std::make_shared<VerifyFlags>();
  app.add_option("file", flags->path, "JSONL of {\"id\", \"answer\", \"response\"}");
  app.add_option("--verifier", flags->verifier, "what scores: --list names them")
      ->capture_default_str();
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
