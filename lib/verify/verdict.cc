#include <utility>

#include "lib/verify/verifier.h"

namespace buttress {

Verdict Correct(std::string given, std::string gold) {
  return {.outcome = Outcome::kCorrect,
          .raw_reward = 1,
          .unscorable_reason = {},
          .given = std::move(given),
          .gold = std::move(gold),
          .anchor = {},
          .parts = {},
          .not_applicable = false};
}

Verdict Wrong(std::string given, std::string gold) {
  return {.outcome = Outcome::kWrong,
          .raw_reward = 0,
          .unscorable_reason = {},
          .given = std::move(given),
          .gold = std::move(gold),
          .anchor = {},
          .parts = {},
          .not_applicable = false};
}

Verdict Unscorable(std::string reason) {
  return {.outcome = Outcome::kUnscorable,
          .raw_reward = 0,
          .unscorable_reason = std::move(reason),
          .given = {},
          .gold = {},
          .anchor = {},
          .parts = {},
          .not_applicable = false};
}

Verdict NotApplicable(std::string reason) {
  Verdict verdict = Unscorable(std::move(reason));
  verdict.not_applicable = true;
  return verdict;
}

double ShapedReward(const Verdict& verdict) {
  if (verdict.parts.empty()) return verdict.raw_reward;
  double total = 0;
  for (const VerdictPart& part : verdict.parts) total += part.weight * part.raw_reward;
  return total;
}

std::vector<Verdict> Verifier::VerifyBatch(std::span<const VerifyRequest> requests) const {
  std::vector<Verdict> verdicts;
  verdicts.reserve(requests.size());
  for (const VerifyRequest& request : requests) verdicts.push_back(Verify(request));
  return verdicts;
}

}  // namespace buttress
