// The syntax of verifiers in run.reward: a name ("math"), a name with an argument
// ("python:rewards.py:accuracy"), or a weighted sum of several ("math + 0.2 * format - 0.5 *
// overlong"), and the form of the answers that they read. Signs and * are between spaces; a term
// without a weight has weight 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/choice.h"
#include "lib/config/sections/reward_config.h"

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

// The name of a verifier in Python is this, FILE, a colon and FUNCTION.
inline constexpr std::string_view kPythonPrefix = "python:";

// Returns the length of the name python:FILE:FUNCTION at the begin of `text`, in which FILE may
// contain spaces and signs: up to the first function name that a sign or the end of `text` follows.
// 0 if there is none.
std::size_t PythonNameBytes(std::string_view text);

struct SumTerm {
  double weight = 1;
  std::string name;  // with its argument
};

// The terms of `text`; one for a name alone. kInvalidArgument for a weight that is 0 or not a
// finite number, a name that is empty or contains a space outside of the FILE of python:, and a
// name that appears twice.
Result<std::vector<SumTerm>> ParseSum(std::string_view text);

// Returns the files of the functions in Python that `config` names, the second verifier's included,
// each once.
std::vector<std::string> PythonFilesOf(const RewardConfig& config);

// Checks a name without its argument. kInvalidArgument lists the known names.
Status CheckVerifierName(std::string_view name);

// Checks that `text` is a sum of known verifiers. Their arguments are not checked.
Status CheckRewardText(std::string_view text);

// From the strictest to the loosest.
enum class AnswerForm : std::uint8_t {
  kText,        // a text, a number, true or false
  kTextOrList,  // or a list of texts, each of which is right
  kAny,         // any JSON, or none
};

// Returns the strictest form that a verifier, or a part of a sum, reads. Names that are not those
// of verifiers read any: validation refuses them.
AnswerForm AnswerFormOf(std::string_view reward_text);

// The form of the answers of each data source.
struct AnswerForms {
  AnswerForm otherwise = AnswerForm::kAny;
  std::map<std::string, AnswerForm, std::less<>> by_source;

  AnswerForm For(std::string_view source) const;
};

// Those that the rewards of a run read, its second verifier included.
AnswerForms AnswerFormsOf(const RewardConfig& config);

}  // namespace buttress
