#include "lib/config/reward_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "lib/base/text/reward_bounds.h"

namespace buttress {
namespace {

constexpr char kSpace[] = " \t\n\r\f\v";

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

Result<SumTerm> ParseTerm(std::string_view text, bool negative) {
  SumTerm term;
  const std::size_t star = text.substr(0, text.find(kPythonPrefix)).find('*');
  if (star != std::string_view::npos) {
    const std::string_view number = Trim(text.substr(0, star));
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), term.weight);
    if (error != std::errc() || end != number.data() + number.size() || !IsReward(term.weight) ||
        term.weight == 0)
      return InvalidArgument(
          "'" + std::string(number) +
          "' is not a weight; expected a number from -1e6 to 1e6 that is not 0, as in math + 0.2 * "
          "format");
    text.remove_prefix(star + 1);
  }
  if (negative) term.weight = -term.weight;
  term.name = Trim(text);
  if (term.name.empty() || (term.name.find_first_of(kSpace) != std::string::npos &&
                            PythonNameBytes(term.name) != term.name.size()))
    return InvalidArgument(
        "'" + term.name +
        "' is not the name of a verifier; expected a sum as in math + 0.2 * format");
  if (term.name.size() > kMaxTermBytes)
    return InvalidArgument("the name of a verifier has " + std::to_string(term.name.size()) +
                           " bytes; expected at most " + std::to_string(kMaxTermBytes));
  return term;
}

// Position of the next " + " or " - " from `begin` on.
std::size_t FindSign(std::string_view text, std::size_t begin = 0) {
  return std::min(text.find(" + ", begin), text.find(" - ", begin));
}

// Position of the sign behind the first term of `text`.
std::size_t FindTermEnd(std::string_view text) {
  const std::size_t sign = FindSign(text);
  const std::size_t python = text.find(kPythonPrefix);
  if (python >= sign) return sign;
  return FindSign(text, python + PythonNameBytes(text.substr(python)));
}

bool IsOfName(unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c >= 0x80; }

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
    default:
      return AnswerForm::kAny;
  }
}

void AddPythonFiles(std::string_view reward_text, std::vector<std::string>& files) {
  const auto terms = ParseSum(reward_text);
  if (!terms.ok()) return;
  for (const SumTerm& term : *terms) {
    if (PythonNameBytes(term.name) == 0) continue;
    const std::size_t begin = kPythonPrefix.size();
    const std::string file = term.name.substr(begin, term.name.rfind(':') - begin);
    if (std::ranges::find(files, file) == files.end()) files.push_back(file);
  }
}

}  // namespace

std::size_t PythonNameBytes(std::string_view text) {
  if (!text.starts_with(kPythonPrefix)) return 0;
  std::size_t colon = text.find(':', kPythonPrefix.size() + 1);
  for (; colon != std::string_view::npos; colon = text.find(':', colon + 1)) {
    std::size_t end = colon + 1;
    while (end < text.size() && IsOfName(static_cast<unsigned char>(text[end]))) ++end;
    const std::string_view rest = text.substr(end);
    const std::string_view next = Trim(rest);
    const bool ends = next.empty() || (next.size() < rest.size() && FindSign(rest) != rest.npos &&
                                       (next.starts_with("+ ") || next.starts_with("- ")));
    if (end > colon + 1 && ends) return end;
  }
  return 0;
}

Result<std::vector<SumTerm>> ParseSum(std::string_view text) {
  std::vector<SumTerm> terms;
  std::string_view rest = Trim(text);
  bool negative = rest.starts_with("- ");
  if (negative) rest.remove_prefix(2);
  while (true) {
    const std::size_t sign = FindTermEnd(rest);
    BUTTRESS_ASSIGN_OR_RETURN(SumTerm term, ParseTerm(rest.substr(0, sign), negative));
    if (std::any_of(terms.begin(), terms.end(),
                    [&](const SumTerm& other) { return other.name == term.name; }))
      return InvalidArgument("'" + term.name + "' appears twice in '" + std::string(text) +
                             "'; add the weights");
    if (terms.size() == kMaxRewardTerms)
      return InvalidArgument("more than " + std::to_string(kMaxRewardTerms) +
                             " verifiers in a sum");
    terms.push_back(std::move(term));
    if (sign == std::string_view::npos) return terms;
    negative = rest[sign + 1] == '-';
    rest.remove_prefix(sign + 3);
  }
}

std::vector<std::string> PythonFilesOf(const RewardConfig& config) {
  std::vector<std::string> files;
  AddPythonFiles(config.verifier, files);
  for (const auto& [source, verifier] : config.by_source) AddPythonFiles(verifier, files);
  AddPythonFiles(config.second.verifier, files);
  return files;
}

Status CheckVerifierName(std::string_view name) {
  const Result<VerifierId> id = FindChoice<VerifierId>(name);
  return id.ok() ? OkStatus() : InvalidArgument("verifier " + id.status().message());
}

Status CheckRewardText(std::string_view text) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<SumTerm> terms, ParseSum(text));
  for (const SumTerm& term : terms) {
    BUTTRESS_RETURN_IF_ERROR(
        CheckVerifierName(std::string_view(term.name).substr(0, term.name.find(':'))));
  }
  return OkStatus();
}

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
