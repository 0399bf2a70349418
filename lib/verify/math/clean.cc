#include "lib/verify/math/clean.h"

#include "lib/verify/extract.h"

namespace buttress {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool IsOperand(char c) { return IsLetter(c) || (c >= '0' && c <= '9') || c == ')'; }

// Whether every run of backslashes is even and one of them stands before a letter.
bool IsDoubled(std::string_view text) {
  bool command = false;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && text[end] == '\\') ++end;
    if ((end - i) % 2 != 0) return false;
    if (end > i && end < text.size() && IsLetter(text[end])) command = true;
    i = end + 1;
  }
  return command;
}

// Behind the special token at `at`, or `at`.
std::size_t SkipSpecialToken(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  for (const std::string_view tag : {"</s>", "<s>", "</answer>", "<answer>", "<eos>", "</think>"}) {
    if (rest.starts_with(tag)) return at + tag.size();
  }
  if (!rest.starts_with("<|")) return at;
  constexpr std::size_t kLongestToken = 64;
  const std::size_t end = rest.substr(0, kLongestToken).find("|>");
  return end == std::string_view::npos ? at : at + end + 2;
}

}  // namespace

std::string CleanAnswer(std::string_view text) {
  const bool doubled = IsDoubled(text);
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '<') {
      const std::size_t behind = SkipSpecialToken(text, i);
      if (behind != i) {
        i = behind;
        continue;
      }
    }
    const bool power = !clean.empty() && IsOperand(clean.back()) && i + 2 < text.size() &&
                       (IsOperand(text[i + 2]) || text[i + 2] == '(');
    if (text.substr(i).starts_with("**") && !power) {
      i += 2;  // bold; x**3 is a power
      continue;
    }
    clean.push_back(text[i]);
    i += doubled && text[i] == '\\' ? 2 : 1;
  }
  std::string_view trimmed = Trim(clean);
  while (trimmed.ends_with('.')) trimmed = Trim(trimmed.substr(0, trimmed.size() - 1));
  return std::string(trimmed);
}

}  // namespace buttress
