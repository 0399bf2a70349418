// The syntax of verifiers in run.reward: a name ("math"), a name with an argument
// ("python:rewards.py:accuracy"), or a weighted sum of several ("math + 0.2 * format - 0.5 *
// overlong"). Signs and * stand between spaces; a term without a weight has weight 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

// The names of lib/verify's table, in its order. They stand here so that every program can refuse a
// name that no worker knows.
inline constexpr std::string_view kVerifierNames[] = {
    "exact",       "number",       "math",   "arithmetic", "countdown",
    "normalized",  "choice",       "format", "length",     "overlong",
    "json_schema", "instructions", "code",   "python",     "http"};

// The verifiers, in the order of kVerifierNames.
enum class VerifierId : std::uint8_t {
  kExact,
  kNumber,
  kMath,
  kArithmetic,
  kCountdown,
  kNormalized,
  kChoice,
  kFormat,
  kLength,
  kOverlong,
  kJsonSchema,
  kInstructions,
  kCode,
  kPython,
  kHttp,
};

constexpr std::string_view VerifierName(VerifierId id) {
  return kVerifierNames[static_cast<std::size_t>(id)];
}

struct SumTerm {
  double weight = 1;
  std::string name;  // with its argument
};

// The terms of `text`; one for a name alone. kInvalidArgument for a weight that is 0 or not a
// finite number, a name that is empty or contains a space, and a name that stands twice.
Result<std::vector<SumTerm>> ParseSum(std::string_view text);

// Checks a name without its argument. kInvalidArgument lists the known names.
Status CheckVerifierName(std::string_view name);

// Checks that `text` is a sum of known verifiers. Their arguments are not checked.
Status CheckRewardText(std::string_view text);

}  // namespace buttress
