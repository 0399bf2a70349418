// Verdicts of batches from standard input, one JSON object a line, for compare.py:
//   {"verifier": "python:F:f", "step": 3, "steps": 10,
//    "items": [{"prompt", "response", "answer", "source", "row", "token_ids"}]}
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using nlohmann::json;

// An item whose texts a VerifyRequest points to.
struct Item {
  std::string prompt, response, answer, source, row;
  std::vector<std::int32_t> token_ids;
};

std::vector<Item> Items(const json& batch) {
  std::vector<Item> items;
  for (const json& item : batch["items"])
    items.push_back({item["prompt"], item["response"], item["answer"], item["source"],
                     item["row"].dump(), item["token_ids"]});
  return items;
}

Result<json> Judge(const json& batch) {
  RewardConfig config;
  config.timeout_ms = 60000;
  BUTTRESS_ASSIGN_OR_RETURN(const auto verifier,
                            MakeVerifier(batch["verifier"].get<std::string>(), config));
  const std::vector<Item> items = Items(batch);
  std::vector<VerifyRequest> requests;
  for (const Item& item : items) {
    requests.push_back({item.prompt, item.response, item.answer, item.row});
    requests.back().source = item.source;
    requests.back().token_ids = item.token_ids;
    requests.back().step = batch["step"];
    requests.back().steps = batch["steps"];
  }
  json answers = json::array();
  for (const Verdict& verdict : verifier->VerifyGroup(requests)) {
    const bool scored = verdict.outcome != Outcome::kUnscorable;
    answers.push_back({{"reward", scored ? json(verdict.raw_reward) : json()},
                       {"not_applicable", verdict.not_applicable},
                       {"reason", verdict.unscorable_reason}});
  }
  return answers;
}

}  // namespace
}  // namespace buttress

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto answer = buttress::Judge(nlohmann::json::parse(line));
    if (!answer.ok()) {
      std::fprintf(stderr, "%s\n", answer.status().ToString().c_str());
      return 1;
    }
    std::puts(answer->dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}
