// How run.reward writes what scores: a verifier ("math", or with an argument
// "python:rewards.py:accuracy"), or a sum of several with weights: "math + 0.2 * format - 0.5 *
// overlong". Signs and * stand between spaces, a weight is a number, a part without one has weight
// 1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

// What lib/verify's table has, in its order; here, so that every program can refuse what no worker
// knows.
inline constexpr std::string_view kVerifierNames[] = {
    "exact",       "number",       "math",   "arithmetic", "countdown",
    "normalized",  "choice",       "format", "length",     "overlong",
    "json_schema", "instructions", "code",   "python",     "http"};

struct SumTerm {
  double weight = 1;
  std::string name;  // with its argument
};

// One term for a name alone. kInvalidArgument: a weight that is no finite number or 0, a name that
// is empty or holds a space, a name twice.
Result<std::vector<SumTerm>> ParseSum(std::string_view text);

// `name` without its argument. kInvalidArgument lists the known ones.
Status CheckVerifierName(std::string_view name);

// That `text` is a sum of verifiers that are known. What their arguments say is not looked at.
Status CheckRewardText(std::string_view text);

}  // namespace buttress
