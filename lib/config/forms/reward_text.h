// The syntax of verifiers in run.reward: a name ("math"), a name with an argument
// ("python:rewards.py:accuracy"), or a weighted sum of several ("math + 0.2 * format - 0.5 *
// overlong"). Signs and * stand between spaces; a term without a weight has weight 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/choice.h"

namespace buttress {

// The verifiers, in the order of lib/verify's table. They stand here so that every program can
// refuse a name that no worker knows.
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
template <>
inline constexpr ChoiceRow<VerifierId> kChoices<VerifierId>[] = {
    {VerifierId::kExact, "exact"},
    {VerifierId::kNumber, "number"},
    {VerifierId::kMath, "math"},
    {VerifierId::kArithmetic, "arithmetic"},
    {VerifierId::kCountdown, "countdown"},
    {VerifierId::kNormalized, "normalized"},
    {VerifierId::kChoice, "choice"},
    {VerifierId::kFormat, "format"},
    {VerifierId::kLength, "length"},
    {VerifierId::kOverlong, "overlong"},
    {VerifierId::kJsonSchema, "json_schema"},
    {VerifierId::kInstructions, "instructions"},
    {VerifierId::kCode, "code"},
    {VerifierId::kPython, "python"},
    {VerifierId::kHttp, "http"},
};

struct SumTerm {
  double weight = 1;
  std::string name;  // with its argument
};

// The terms of `text`; one for a name alone. kInvalidArgument for a weight that is 0 or not a
// finite number, a name that is empty or contains a space, and a name that appears twice.
Result<std::vector<SumTerm>> ParseSum(std::string_view text);

// Checks a name without its argument. kInvalidArgument lists the known names.
Status CheckVerifierName(std::string_view name);

// Checks that `text` is a sum of known verifiers. Their arguments are not checked.
Status CheckRewardText(std::string_view text);

}  // namespace buttress
