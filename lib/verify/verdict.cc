#include <utility>

#include "lib/verify/verifier.h"

namespace buttress {

Verdict Correct(std::string given, std::string gold) {
  return {.outcome = Outcome::kCorrect,
          .raw_reward = 1,
          .unscorable_reason = {},
          .given = std::move(given),
          .gold = std::move(gold),
          .anchor = {}};
}

Verdict Wrong(std::string given, std::string gold) {
  return {.outcome = Outcome::kWrong,
          .raw_reward = 0,
          .unscorable_reason = {},
          .given = std::move(given),
          .gold = std::move(gold),
          .anchor = {}};
}

Verdict Unscorable(std::string reason) {
  return {.outcome = Outcome::kUnscorable,
          .raw_reward = 0,
          .unscorable_reason = std::move(reason),
          .given = {},
          .gold = {},
          .anchor = {}};
}

}  // namespace buttress
