#include "lib/verify/math/clean_answer.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_replace.h>

#include <algorithm>

#include "lib/verify/extract.h"

namespace buttress {
namespace {

constexpr std::string_view kTags[] = {
    "</s>",  "<s>",   "</answer>",     "<answer>",        "</think>", "<eos>",
    "<bos>", "<pad>", "<end_of_turn>", "<start_of_turn>", "[/INST]",  "[INST]"};

constexpr std::string_view kCommandMarks = "%$!,;{}";  // \% and the like

bool IsOperand(char c) { return absl::ascii_isalpha(c) || (c >= '0' && c <= '9') || c == ')'; }

// Returns whether every run of backslashes is even and one of them precedes a command.
bool IsDoubled(std::string_view text) {
  bool command = false;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && text[end] == '\\') ++end;
    if ((end - i) % 2 != 0) return false;
    const bool names =
        end < text.size() &&
        (absl::ascii_isalpha(text[end]) || kCommandMarks.find(text[end]) != std::string_view::npos);
    if (end > i && names) command = true;
    i = end + 1;
  }
  return command;
}

// Returns the end of the special token at `at`, or `at` if there is none.
std::size_t SkipSpecialToken(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  for (const std::string_view tag : kTags) {
    if (rest.starts_with(tag)) return at + tag.size();
  }
  if (!rest.starts_with("<|")) return at;
  constexpr std::size_t kLongestToken = 64;
  const std::size_t end = rest.substr(0, kLongestToken).find("|>");
  return end == std::string_view::npos ? at : at + end + 2;
}

// Chinese and Japanese texts write "（１，２）" with U+FF01 to U+FF5E, which are ASCII plus 0xfee0.
std::string WithoutFullWidth(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](std::size_t ahead) {
      return i + ahead < text.size() ? static_cast<unsigned char>(text[i + ahead]) : 0U;
    };
    const unsigned code = (byte(1) & 0x3fU) << 6 | (byte(2) & 0x3fU);
    const bool full_width = byte(0) == 0xefU && (byte(1) & 0xc0U) == 0x80U &&
                            (byte(2) & 0xc0U) == 0x80U && code >= 0xf01U && code <= 0xf5eU;
    plain.push_back(full_width ? static_cast<char>(code - 0xf01U + 0x21U) : text[i]);
    if (full_width) i += 2;
  }
  return plain;
}

// Removes what no reader sees: spaces without width, joiners and marks of direction.
std::string WithoutInvisible(std::string_view text) {
  return absl::StrReplaceAll(std::string(text), {{"\u200b", ""},
                                                 {"\u200c", ""},
                                                 {"\u200d", ""},
                                                 {"\u200e", ""},
                                                 {"\u200f", ""},
                                                 {"\u2060", ""},
                                                 {"\ufeff", ""}});
}

// Removes the article before a word: "a parabola"; not before a unit, as in "a cm".
std::string_view WithoutArticle(std::string_view text) {
  constexpr std::size_t kShortest = 4;
  const std::size_t blank = text.find(' ');
  const std::string_view article = text.substr(0, std::min(blank, text.size()));
  if (article != "a" && article != "an" && article != "the") return text;
  const std::string_view rest = text.substr(article.size());
  std::size_t end = std::min<std::size_t>(1, rest.size());
  while (end < rest.size() && absl::ascii_isalpha(rest[end])) ++end;
  return end > kShortest ? Trim(rest) : text;
}

// Removes Markdown's quote sign at the start and emphasis around the whole.
std::string_view WithoutEmphasis(std::string_view text) {
  if (text.starts_with("> ")) text = Trim(text.substr(2));
  for (const std::string_view sign : {"__", "*"}) {
    if (text.size() <= 2 * sign.size() || !text.starts_with(sign) || !text.ends_with(sign))
      continue;
    const std::string_view inside = text.substr(sign.size(), text.size() - 2 * sign.size());
    if (inside.find(sign[0]) == std::string_view::npos) text = Trim(inside);
  }
  return text;
}

}  // namespace

std::string CleanAnswer(std::string_view written) {
  const std::string narrow = WithoutFullWidth(WithoutInvisible(written));
  const std::string_view text = narrow;
  const bool doubled = IsDoubled(text);
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '<' || text[i] == '[') {
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
  for (const std::string_view again : {", i.e.", " (i.e.", " i.e."})  // "1/2, i.e. 50%"
    clean.resize(std::min(clean.find(again), clean.size()));
  std::string_view trimmed = WithoutEmphasis(Trim(clean));
  while (trimmed.ends_with('.')) trimmed = Trim(trimmed.substr(0, trimmed.size() - 1));
  return std::string(WithoutArticle(WithoutEmphasis(trimmed)));
}

}  // namespace buttress
