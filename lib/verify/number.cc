// Verifier number: the final number of a worked solution, as in GSM8K. The reference may be a whole
// solution and is read like a response.
//
// The number is taken from the first of these places that has one:
//   1. directly after the last "####" (a Markdown heading "#### Step 2" does not count);
//   2. in the last \boxed{}, if the box contains one number; a box with anything else is an answer
//      that is not a number;
//   3. after the last "answer is" or "answer:";
//   4. the last number of the text, unless the response is truncated.
#include <absl/strings/ascii.h>

#include <optional>
#include <string>

#include "lib/verify/extract.h"
#include "lib/verify/rational.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

constexpr std::string_view kMinus = "−";

// A number in a text. [begin, end) covers digits, separators, point and slash, but not the sign.
struct Numeral {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view text;
  std::optional<Rational> value;  // absent above kMaxDigits
};

std::size_t SkipDigits(std::string_view text, std::size_t at) {
  while (at < text.size() && absl::ascii_isdigit(text[at])) ++at;
  return at;
}

// Returns the end of an integer such as "1,234,567" at `at`. Every group after the first has three
// digits.
std::size_t SkipInteger(std::string_view text, std::size_t at) {
  std::size_t end = SkipDigits(text, at);
  if (end - at > 3 || end == at) return end;
  while (end < text.size() && text[end] == ',' && SkipDigits(text, end + 1) == end + 4) end += 4;
  return end;
}

// Recognises the signs of "-5", "-$5" and "$-5", but not the minus of "8-5".
bool IsNegative(std::string_view before) {
  if (before.ends_with('$')) before.remove_suffix(1);
  if (before.ends_with('\\')) before.remove_suffix(1);
  if (before.ends_with('-')) {
    before.remove_suffix(1);
  } else if (before.ends_with(kMinus)) {
    before.remove_suffix(kMinus.size());
  } else {
    return false;
  }
  return before.empty() ||
         !(absl::ascii_isalnum(before.back()) || before.back() == ')' || before.back() == '%');
}

std::optional<Rational> ValueOf(std::string_view digits) {
  std::string plain(digits);
  std::erase(plain, ',');
  return ParseDecimal(plain);
}

// Returns the first number at or after `from`.
std::optional<Numeral> NextNumeral(std::string_view text, std::size_t from) {
  const auto begins = [&](std::size_t i) {
    return absl::ascii_isdigit(text[i]) ||
           (text[i] == '.' && i + 1 < text.size() && absl::ascii_isdigit(text[i + 1]));
  };
  std::size_t begin = from;
  while (begin < text.size() && !begins(begin)) ++begin;
  if (begin == text.size()) return std::nullopt;
  std::size_t end = SkipInteger(text, begin);
  if (end < text.size() && text[end] == '.') {
    const std::size_t decimals = SkipDigits(text, end + 1);
    if (decimals > end + 1) end = decimals;
  }
  Numeral numeral{begin, end, {}, ValueOf(text.substr(begin, end - begin))};
  if (end < text.size() && text[end] == '/') {
    const std::size_t slash_end = SkipDigits(text, end + 1);
    const std::optional<Rational> denominator =
        ParseDecimal(text.substr(end + 1, slash_end - end - 1));
    if (numeral.value && denominator && *denominator != 0) {
      numeral.value = *numeral.value / *denominator;
      numeral.end = slash_end;
    }
  }
  if (numeral.value && IsNegative(text.substr(0, begin))) numeral.value = -*numeral.value;
  numeral.text = text.substr(begin, numeral.end - begin);
  return numeral;
}

// The answer of a text: a number, another text, or nothing.
struct Answer {
  std::optional<Rational> value;
  std::string_view text;
};

// Returns the first number of `behind`, the tail of a text. Returns nullopt if the text is
// truncated and the number may have continued.
std::optional<Numeral> FirstNumeral(std::string_view behind, bool truncated) {
  const auto numeral = NextNumeral(behind, 0);
  if (!numeral || !truncated) return numeral;
  const bool closed =
      behind.find_first_not_of("0123456789.,/", numeral->end) != std::string_view::npos;
  return closed ? numeral : std::nullopt;
}

std::optional<Numeral> BehindHashes(std::string_view text, bool truncated) {
  const auto behind = BehindLast(text, "####");
  if (!behind) return std::nullopt;
  const auto numeral = FirstNumeral(*behind, truncated);
  if (!numeral) return std::nullopt;
  const std::string_view between = behind->substr(0, numeral->begin);
  const bool at_once = between.find_first_not_of(" \t$*:=-\\+−") == std::string_view::npos;
  return at_once ? numeral : std::nullopt;
}

std::optional<Numeral> LastNumeral(std::string_view text) {
  std::optional<Numeral> last;
  for (auto numeral = NextNumeral(text, 0); numeral; numeral = NextNumeral(text, numeral->end))
    last = numeral;
  return last;
}

Answer FindAnswer(std::string_view text, bool truncated) {
  if (const auto numeral = BehindHashes(text, truncated)) return {numeral->value, numeral->text};
  if (const auto box = InLastBox(text)) {
    const auto numeral = NextNumeral(*box, 0);
    const bool alone = numeral && !NextNumeral(*box, numeral->end);
    return alone ? Answer{numeral->value, numeral->text} : Answer{std::nullopt, *box};
  }
  if (const auto behind = BehindAnswerIs(text)) {
    if (const auto numeral = FirstNumeral(*behind, truncated))
      return {numeral->value, numeral->text};
  }
  if (truncated) return {};
  const auto numeral = LastNumeral(text);
  return numeral ? Answer{numeral->value, numeral->text} : Answer{};
}

}  // namespace

Verdict JudgeNumber(const VerifyRequest& request, const RewardConfig& /*config*/) {
  const Answer gold = FindAnswer(request.answer, /*truncated=*/false);
  if (!gold.value) return Unscorable("answer: no number");
  const Answer given = FindAnswer(request.response, request.truncated);
  if (!given.value)
    return Wrong(std::string(FirstBytes(given.text, kShownBytes)), ToString(*gold.value));
  const bool equal = *given.value == *gold.value;
  return equal ? Correct(ToString(*given.value), ToString(*gold.value))
               : Wrong(ToString(*given.value), ToString(*gold.value));
}

}  // namespace buttress
