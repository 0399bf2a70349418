#include "lib/verify/math/statement.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lib/verify/extract.h"
#include "lib/verify/math/syntax/lexer.h"
#include "lib/verify/prose/assertion.h"
#include "lib/verify/prose/prose.h"
#include "lib/verify/prose/prose_words.h"

namespace buttress {
namespace {

// Whether the number that begins at `at` is part of a word: "x2", "H2O", "version_3".
bool IsInWord(std::string_view text, std::size_t at) {
  constexpr std::size_t kMaxBytes = 64;
  std::size_t begin = at;
  while (begin > 0 && at - begin < kMaxBytes &&
         (absl::ascii_isdigit(text[begin - 1]) || text[begin - 1] == '.'))
    --begin;
  if (begin > 1 && text[begin - 1] == '_') --begin;
  return begin > 0 && absl::ascii_isalpha(text[begin - 1]);
}

// Calls visit(word, rest behind it) for the words of `text` until it returns true; returns whether
// one did.
template <class Visit>
bool AnyWord(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && (absl::ascii_isalpha(text[end]) || text[end] == '\'')) ++end;
    if (end > at && visit(text.substr(at, end - at), at)) return true;
    at = std::max(end, at + 1);
  }
  return false;
}

constexpr std::size_t kMaxUnitWords = 2;

// Returns the length of " million" and the like at the begin of the text; 0 if there is none.
std::size_t MultiplierAt(std::string_view text) {
  for (const std::string_view word :
       {" dozen", " hundred", " thousand", " million", " billion", " trillion"}) {
    const bool ends = text.size() == word.size() ||
                      (text.size() > word.size() && !absl::ascii_isalpha(text[word.size()]));
    if (ends && text.starts_with(word)) return word.size();
  }
  return 0;
}

// Returns the end of the first line, or of the display of mathematics that it opens.
std::size_t LineEnd(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kDisplays[] = {{"\\[", "\\]"},
                                                                         {"$$", "$$"}};
  const std::size_t end = text.find('\n');
  for (const auto& [open, close] : kDisplays) {
    if (!text.starts_with(open)) continue;
    const std::size_t at = text.find(close, open.size());
    if (at != std::string_view::npos && at > end) return at + close.size();
  }
  return end;
}

constexpr int kMaxComplementWords = 3;

// Returns the word at the begin of the text in lower case.
std::string FirstWord(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && absl::ascii_isalpha(text[end])) ++end;
  return LowerAscii(text.substr(0, end));
}

}  // namespace

std::string_view Sentence(std::string_view text) {
  text = Trim(text.substr(std::min(text.find_first_not_of(": \t\r\n*"), text.size())));
  text = text.substr(0, LineEnd(text));
  while (text.size() > 1 && text.ends_with('!')) text.remove_suffix(1);  // no factorial
  int depth = 0;  // of braces: the full stop in \text{Rs. } does not end a sentence
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}') --depth;
    const bool exclaims = text[i] == '!' && i + 2 < text.size() && absl::ascii_isupper(text[i + 2]);
    if ((text[i] == '.' || exclaims) && text[i + 1] == ' ' && depth <= 0 &&
        (i == 0 || (!absl::ascii_isspace(text[i - 1]) && text[i - 1] != '.')) &&
        !(i > 1 && text[i - 2] == '.' && absl::ascii_isalpha(text[i - 1])))  // i.e.
      return text.substr(0, i);
  }
  return text;
}

std::optional<std::string_view> NumberAt(std::string_view text, std::size_t from,
                                         std::size_t& behind, CommaReading commas) {
  std::size_t begin = from;
  while (begin < text.size() && (!StartsNumber(text, begin) || IsInWord(text, begin))) ++begin;
  if (begin == text.size()) return std::nullopt;
  const auto number = ReadNumberAt(text, begin, commas);
  std::size_t end = number.ok() ? number->end : begin;
  while (!number.ok() && end < text.size() && (absl::ascii_isdigit(text[end]) || text[end] == '.'))
    ++end;
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && absl::ascii_isdigit(text[i]);
  };
  if (end < text.size() && text[end] == '/' && is_digit(end + 1)) {
    do ++end;
    while (is_digit(end));
  }
  end += MultiplierAt(text.substr(end));
  for (const std::string_view part : {":", " out of ", " in "}) {  // 3:45, 7 out of 10, 1 in 6
    const bool joins = part != " in " || text.substr(begin, end - begin) == "1";
    if (!joins || !text.substr(end).starts_with(part) || !is_digit(end + part.size())) continue;
    end += part.size();
    while (is_digit(end)) ++end;
  }
  behind = end;
  if (text.substr(end).starts_with("%")) ++end;
  if (text.substr(end).starts_with("\\%")) end += 2;
  std::size_t sign = begin;
  if (sign > 0 && text[sign - 1] == '$') --sign;
  if (sign > 0 && text[sign - 1] == '-') {
    const char before = sign > 1 ? text[sign - 2] : ' ';
    if (!absl::ascii_isalpha(before) && !absl::ascii_isdigit(before) && before != ')' &&
        before != '%')
      begin = sign - 1;
  }
  return text.substr(begin, end - begin);
}

std::optional<std::string_view> PlainNumber(std::string_view text) {
  std::size_t end = 0;
  const auto number = NumberAt(text, 0, end);
  if (!number) return std::nullopt;
  const auto begin = static_cast<std::size_t>(number->data() - text.data());
  if (text.substr(0, begin).find_first_not_of(" $*\\(:{") != std::string_view::npos)
    return std::nullopt;
  std::string_view unit = text.substr(begin + number->size());
  unit.remove_prefix(std::min(unit.find_first_not_of("$*\\)}"), unit.size()));
  if (unit.find_first_of("0123456789=+-/<>^\\") != std::string_view::npos) return std::nullopt;
  std::size_t words = 0;
  AnyWord(unit, [&](std::string_view, std::size_t) { return ++words > kMaxUnitWords; });
  if (words > kMaxUnitWords || ReadAssertion(text, *number) != Assertion::kStated)
    return std::nullopt;
  return number;
}

std::optional<std::string_view> LastComplement(std::string_view text) {
  text = Trim(text);
  while (text.ends_with('.') || text.ends_with('*')) text.remove_suffix(1);
  std::string_view rest = text.substr(SentenceBegin(text, text.size()));
  std::optional<std::string_view> complement;
  for (std::size_t blank = rest.find(' '); blank != std::string_view::npos;
       blank = rest.find(' ')) {
    const std::string word = FirstWord(rest);
    rest = Trim(rest.substr(blank));
    if ((ProseClasses(word) & kCopulaWord) != 0 || word == "be") complement = rest;
  }
  if (!complement) return std::nullopt;
  while ((ProseClasses(FirstWord(*complement)) & kPassiveWord) != 0) {
    const std::size_t blank = complement->find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    complement = Trim(complement->substr(blank));
  }
  int words = 0;
  AnyWord(*complement,
          [&](std::string_view, std::size_t) { return ++words > kMaxComplementWords; });
  const bool plain = complement->find_first_of("0123456789,:=+") == std::string_view::npos;
  return plain && words > 0 && words <= kMaxComplementWords ? complement : std::nullopt;
}

}  // namespace buttress
