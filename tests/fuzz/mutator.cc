#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>

namespace buttress {
namespace {

constexpr std::array<std::string_view, 6> kOpening = {"(", "[", "{", "\\frac{", "{{", "\""};
constexpr std::array<std::string_view, 6> kClosing = {")", "]", "}", "}{2}", "}}", "\""};
constexpr std::array<std::string_view, 12> kNumbers = {
    "0",    "-1",         "2147483648", "9223372036854775808",     "1e308",
    "1e-9", "4294967295", "0.1",        "99999999999999999999999", "00",
    "NaN",  "1e999999999"};

}  // namespace

std::string Mutator::Next() {
  std::string& origin = pool_[Below(pool_.size())];
  std::string text = origin;
  for (std::size_t changes = 1 + Below(8); changes > 0; --changes) Change(text);
  if (text.size() > max_bytes_) text.resize(max_bytes_);
  constexpr std::size_t kKept = 20;  // one result in 20 stays in the pool
  if (Below(kKept) == 0 && text.size() < 4 * origin.size() + 64) origin = text;
  return text;
}

void Mutator::Change(std::string& text) {
  const std::size_t at = Below(text.size() + 1);
  const std::size_t length = std::min(text.size() - at, Below(16) + 1);
  switch (Below(10)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(Below(256));
      return;
    case 1:
      text.insert(at, 1, static_cast<char>(Below(256)));
      return;
    case 2:
      text.erase(at, length);
      return;
    case 3: {  // repeats a piece
      const std::string piece = text.substr(at, length);
      const std::size_t times = 1 + Below(Below(8) == 0 ? 2000 : 4);
      std::string run;
      for (std::size_t i = 0; i < times && run.size() < max_bytes_; ++i) run += piece;
      text.insert(at, run);
      return;
    }
    case 4:
    case 5:
      if (!dictionary_.empty()) text.insert(at, dictionary_[Below(dictionary_.size())]);
      return;
    case 6: {  // continues with the end of another input
      const std::string& other = pool_[Below(pool_.size())];
      text.replace(at, std::string::npos, other, Below(other.size() + 1), std::string::npos);
      return;
    }
    case 7: {
      const std::string piece = text.substr(at, length);
      text.erase(at, length);
      text.insert(Below(text.size() + 1), piece);
      return;
    }
    case 8:
      return Nest(text);
    default:
      return ChangeNumber(text);
  }
}

void Mutator::Nest(std::string& text) {
  const std::size_t kind = Below(kOpening.size());
  const std::size_t depth = 1 + Below(Below(8) == 0 ? 500 : 3);
  const std::size_t at = Below(text.size() + 1);
  const std::size_t end = at + Below(text.size() - at + 1);
  std::string open;
  std::string close;
  for (std::size_t i = 0; i < depth; ++i) {
    open += kOpening[kind];
    close += kClosing[kind];
  }
  text.insert(end, close);
  text.insert(at, open);
}

void Mutator::ChangeNumber(std::string& text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = text.find_first_of(kDigits, Below(text.size() + 1));
  if (begin == std::string::npos) return;
  const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
  text.replace(begin, end - begin, kNumbers[Below(kNumbers.size())]);
}

}  // namespace buttress
