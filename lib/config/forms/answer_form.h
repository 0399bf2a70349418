// The form of the answers of a dataset, which follows from the verifiers that read them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lib/config/reward_config.h"

namespace buttress {

// From the strictest to the loosest.
enum class AnswerForm : std::uint8_t {
  kText,        // a text, a number, true or false
  kTextOrList,  // or a list of texts, each of which is right
  kAny,         // any JSON, or none
};

// Returns the strictest form that a verifier, or a part of a sum, reads. Names that are not those
// of verifiers read any: validation refuses them.
AnswerForm AnswerFormOf(std::string_view reward_text);

// The form of each data source.
struct AnswerForms {
  AnswerForm otherwise = AnswerForm::kAny;
  std::map<std::string, AnswerForm, std::less<>> by_source;

  AnswerForm For(std::string_view source) const;
};

// Those that the rewards of a run read, its second verifier included.
AnswerForms AnswerFormsOf(const RewardConfig& config);

}  // namespace buttress
