// Verifier choice: a letter of multiple choice, A to J, written as "B", "(B)", "B.", "**B**",
// "\text{B}" or "B) because ...".
//
// The letter is read from the final answer (FindFinalAnswer). In a response without an anchor it
// counts only if the response or its last line contains nothing else. "A or B" names two letters
// and is wrong.
#include <optional>

#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

bool IsChoice(char c) { return c >= 'A' && c <= 'J'; }

bool IsWord(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string_view SkipMarks(std::string_view text) {
  constexpr std::string_view kMarks = " \t*$({[\"'`:";
  while (true) {
    const std::size_t begin = text.find_first_not_of(kMarks);
    if (begin == std::string_view::npos) return {};
    text.remove_prefix(begin);
    bool command = false;
    for (const std::string_view name : {"\\text", "\\mathrm", "\\mathbf", "\\textbf", "\\("}) {
      if (!text.starts_with(name)) continue;
      text.remove_prefix(name.size());
      command = true;
    }
    if (!command) return text;
  }
}

std::string_view SkipWord(std::string_view text, std::string_view lower) {
  if (text.size() <= lower.size()) return text;
  for (std::size_t i = 0; i < lower.size(); ++i) {
    if ((text[i] | 0x20) != lower[i]) return text;
  }
  return IsWord(text[lower.size()]) ? text : SkipMarks(text.substr(lower.size()));
}

// Returns the letter with which `text` begins if it is alone, and the text after it in `rest`.
std::optional<char> LeadingChoice(std::string_view text, std::string_view& rest) {
  text = SkipMarks(text);
  for (const std::string_view word : {"the", "correct", "option", "choice", "answer", "is"})
    text = SkipWord(text, word);
  if (text.empty() || !IsChoice(text[0])) return std::nullopt;
  rest = text.substr(1);
  const bool alone = rest.empty() || !(IsWord(rest[0]) || rest[0] == '\'' || rest[0] == '-' ||
                                       rest[0] == '+' || rest[0] == '=');
  return alone ? std::optional(text[0]) : std::nullopt;
}

// Returns whether a second letter follows: ", C", "/C", "and C", "or C".
bool NamesAnother(std::string_view rest, char first) {
  const std::size_t begin = rest.find_first_not_of(" \t*$)}]\"'`.,/&;");
  if (begin == std::string_view::npos) return false;
  const std::string_view before = rest.substr(0, begin);
  std::string_view next = rest.substr(begin);
  const std::string_view after_and = SkipWord(SkipWord(next, "and"), "or");
  const bool joined =
      after_and.size() != next.size() || before.find_first_of(",/&;") != std::string_view::npos;
  const auto letter = joined ? LeadingChoice(after_and, next) : std::nullopt;
  // In "B, A is wrong because", the second letter begins a sentence and is not an answer.
  return letter && *letter != first &&
         next.find_first_not_of(" \t*$)}]\"'`.") == std::string_view::npos;
}

std::string_view LastLine(std::string_view text) {
  text = Trim(text);
  const std::size_t line = text.rfind('\n');
  return line == std::string_view::npos ? text : Trim(text.substr(line + 1));
}

// Returns whether only marks follow the letter.
bool IsBare(std::string_view rest) {
  return rest.find_first_not_of(" \t*$)}]\"'`.:\\") == std::string_view::npos;
}

}  // namespace

Verdict JudgeChoice(const VerifyRequest& request, const RewardConfig& /*config*/) {
  std::string_view rest;
  const std::optional<char> gold = LeadingChoice(Trim(request.answer), rest);
  if (!gold) return Unscorable("answer: no letter from A to J");
  const std::string gold_text(1, *gold);
  const auto found = FindFinalAnswer(request);
  if (!found) return Wrong("", gold_text);
  const bool whole = found->anchor == "whole";
  const auto given = LeadingChoice(whole ? LastLine(found->text) : found->text, rest);
  if (!given || (whole && !IsBare(rest))) return Wrong("", gold_text);
  const bool another = NamesAnother(rest, *given);
  const std::string given_text = std::string(1, *given) + (another ? " and another" : "");
  Verdict verdict =
      *given == *gold && !another ? Correct(given_text, gold_text) : Wrong(given_text, gold_text);
  verdict.anchor = found->anchor;
  return verdict;
}

}  // namespace buttress
