#include "lib/verify/math/syntax/number_reader.h"

#include <absl/strings/ascii.h>

#include <utility>

namespace buttress {
namespace {

constexpr std::string_view kSeparators[] = {",\\!", "{,}\\!", "{,}", "\\!,\\!", "\\!,", "\\,"};
constexpr std::string_view kOverline = "\\overline{";
constexpr int kMaxTenPower = 300;

std::size_t SkipDigits(std::string_view text, std::size_t at) {
  while (at < text.size() && absl::ascii_isdigit(text[at])) ++at;
  return at;
}

// Returns the end of the thousands separator at `at`, which exactly three digits must follow; `at`
// if there is none.
std::size_t SkipSeparator(std::string_view text, std::size_t at, CommaReading commas) {
  const auto ends = [&](std::string_view separator) {
    const std::size_t begin = at + separator.size();
    return text.substr(at).starts_with(separator) && SkipDigits(text, begin) == begin + 3;
  };
  for (const std::string_view separator : kSeparators) {
    if (ends(separator)) return at + separator.size();
  }
  return commas == CommaReading::kThousands && ends(",") ? at + 1 : at;
}

// Returns the end of the decimal point at `at`, which a digit must follow; `at` if there is none.
std::size_t SkipPoint(std::string_view text, std::size_t at, CommaReading commas) {
  for (const std::string_view point : {".", "{,}", ","}) {
    if (point == "," && commas != CommaReading::kDecimal) continue;
    const std::size_t behind = at + point.size();
    const bool digit = behind < text.size() && absl::ascii_isdigit(text[behind]);
    const bool repeats =
        point == "." && text.substr(std::min(behind, text.size())).starts_with(kOverline);
    if (text.substr(at).starts_with(point) && (digit || repeats)) return behind;
  }
  return at;
}

Rational TenTo(std::size_t power) {
  mpz_class value;
  mpz_ui_pow_ui(value.get_mpz_t(), 10, power);
  return value;
}

// Adds the repetend of "0.1\overline{6}" at `number.end`.
void ReadPeriod(std::string_view text, ReadNumber& number) {
  if (number.decimals < 0 || !text.substr(number.end).starts_with(kOverline)) return;
  const std::size_t begin = number.end + kOverline.size();
  const std::size_t end = SkipDigits(text, begin);
  if (end == begin || end - begin > kMaxDigits || end == text.size() || text[end] != '}') return;
  const auto period = ParseDecimal(text.substr(begin, end - begin));
  if (!period) return;
  number.value +=
      *period / (TenTo(static_cast<std::size_t>(number.decimals)) * (TenTo(end - begin) - 1));
  number.decimals = -1;
  number.end = end + 1;
}

// Multiplies by the power of ten of "1.5e3".
void ReadTenPower(std::string_view text, ReadNumber& number) {
  std::size_t at = number.end;
  if (at == text.size() || (text[at] != 'e' && text[at] != 'E')) return;
  ++at;
  const bool negative = at < text.size() && text[at] == '-';
  if (at < text.size() && (negative || text[at] == '+')) ++at;
  const std::size_t end = SkipDigits(text, at);
  if (end == at || end - at > 3) return;
  const int power = std::stoi(std::string(text.substr(at, end - at)));
  if (power > kMaxTenPower) return;
  const Rational ten = TenTo(static_cast<std::size_t>(power));
  number.value = negative ? Rational(number.value / ten) : Rational(number.value * ten);
  number.decimals = -1;
  number.end = end;
}

}  // namespace

bool StartsNumber(std::string_view text, std::size_t at) {
  return absl::ascii_isdigit(text[at]) ||
         (text[at] == '.' && at + 1 < text.size() && absl::ascii_isdigit(text[at + 1]));
}

Result<ReadNumber> ReadNumberAt(std::string_view text, std::size_t at, CommaReading commas) {
  ReadNumber number;
  std::size_t end = SkipDigits(text, at);
  number.digits = text.substr(at, end - at);
  if (end - at >= 1 && end - at <= 3) {
    for (std::size_t next = SkipSeparator(text, end, commas); next != end;
         next = SkipSeparator(text, end, commas)) {
      number.digits += text.substr(next, 3);
      end = next + 3;
    }
  }
  const std::size_t behind_point = SkipPoint(text, end, commas);
  if (behind_point != end) {
    end = SkipDigits(text, behind_point);
    number.decimals = static_cast<int>(end - behind_point);
    if (end > behind_point) number.digits += ".";
    number.digits += text.substr(behind_point, end - behind_point);
  }
  const auto value = ParseDecimal(number.digits.empty() ? "0" : number.digits);
  if (!value)
    return InvalidArgument("a number of more than " + std::to_string(kMaxDigits) + " digits");
  number.value = *value;
  number.end = end;
  ReadPeriod(text, number);
  ReadTenPower(text, number);
  return number;
}

}  // namespace buttress
