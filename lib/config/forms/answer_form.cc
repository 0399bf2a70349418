#include "lib/config/forms/answer_form.h"

#include <algorithm>

#include "lib/config/forms/reward_text.h"

namespace buttress {
namespace {

AnswerForm FormOf(VerifierId id) {
  switch (id) {
    case VerifierId::kExact:
    case VerifierId::kNumber:
    case VerifierId::kMath:
    case VerifierId::kArithmetic:
    case VerifierId::kChoice:
      return AnswerForm::kText;
    case VerifierId::kNormalized:
      return AnswerForm::kTextOrList;
    case VerifierId::kCountdown:
    case VerifierId::kFormat:
    case VerifierId::kLength:
    case VerifierId::kOverlong:
    case VerifierId::kJsonSchema:
    case VerifierId::kInstructions:
    case VerifierId::kCode:
    case VerifierId::kPython:
    case VerifierId::kHttp:
      return AnswerForm::kAny;
  }
  return AnswerForm::kAny;
}

}  // namespace

AnswerForm AnswerFormOf(std::string_view reward_text) {
  AnswerForm form = AnswerForm::kAny;
  const auto terms = ParseSum(reward_text);
  if (!terms.ok()) return form;
  for (const SumTerm& term : *terms) {
    const auto id = FindChoice<VerifierId>(term.name.substr(0, term.name.find(':')));
    if (id.ok()) form = std::min(form, FormOf(*id));
  }
  return form;
}

AnswerForm AnswerForms::For(std::string_view source) const {
  const auto found = by_source.find(source);
  return found == by_source.end() ? otherwise : found->second;
}

AnswerForms AnswerFormsOf(const RewardConfig& config) {
  const AnswerForm second =
      config.second.share > 0 ? AnswerFormOf(config.second.verifier) : AnswerForm::kAny;
  AnswerForms forms;
  forms.otherwise = std::min(second, AnswerFormOf(config.verifier));
  for (const auto& [source, verifier] : config.by_source)
    forms.by_source[source] = std::min(second, AnswerFormOf(verifier));
  return forms;
}

}  // namespace buttress
