#include "lib/verify/extract.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <string>

#include "lib/verify/verifier.h"

namespace buttress {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

// Returns the length of the text up to the brace that matches the one before `text`.
std::optional<std::size_t> ClosingBrace(std::string_view text) {
  int depth = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;  // \{ and \} are characters, not structure
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return i;
    }
  }
  return std::nullopt;
}

constexpr std::string_view kFence = "```";

std::optional<FinalAnswer> AnnouncedAnswer(const VerifyRequest& request) {
  std::optional<std::string_view> behind = BehindAnswerIs(request.response);
  if (!behind) return std::nullopt;
  if (behind->starts_with("**")) behind->remove_prefix(2);  // **Answer:** B
  const std::size_t begin = behind->find_first_not_of(" \t\r\n:");
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = behind->find('\n', begin);
  if (end == std::string_view::npos && request.truncated) return std::nullopt;
  return FinalAnswer{Trim(behind->substr(begin, end - begin)), "answer is"};
}

bool HasWord(std::string_view words, std::string_view word) {
  return (" " + std::string(words) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

}  // namespace

std::string_view Trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) - begin + 1);
}

std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = absl::ascii_tolower(c);
  return lower;
}

std::string_view FirstBytes(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

std::optional<std::string_view> InAnswerTags(std::string_view text) {
  constexpr std::string_view kOpen = "<answer>";
  const std::size_t end = text.rfind("</answer>");
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t begin = text.substr(0, end).rfind(kOpen);
  if (begin == std::string_view::npos) return std::nullopt;
  return Trim(text.substr(begin + kOpen.size(), end - begin - kOpen.size()));
}

std::optional<std::string_view> InLastBox(std::string_view text) {
  constexpr std::string_view kOpen = "\\boxed{";
  // Each search ends where the search of the next box began, so that the total is linear. A box
  // that does not close is ignored.
  std::size_t end = text.size();
  while (true) {
    const std::size_t begin = text.substr(0, end).rfind(kOpen);
    if (begin == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text.substr(begin + kOpen.size(), end - begin - kOpen.size());
    if (const auto length = ClosingBrace(inside)) return Trim(inside.substr(0, *length));
    end = begin;
  }
}

std::optional<std::string_view> BehindLast(std::string_view text, std::string_view anchor) {
  const auto same = [](char a, char b) { return absl::ascii_tolower(a) == b; };
  const char last = anchor.back();
  const char upper = last >= 'a' && last <= 'z' ? static_cast<char>(last - 'a' + 'A') : last;
  for (std::size_t end = text.size(); end >= anchor.size(); --end) {
    if (text[end - 1] != last && text[end - 1] != upper) continue;
    const std::string_view here = text.substr(end - anchor.size(), anchor.size());
    if (std::equal(here.begin(), here.end(), anchor.begin(), same)) return text.substr(end);
  }
  return std::nullopt;
}

std::optional<std::string_view> BehindAnswerIs(std::string_view text) {
  const auto is = BehindLast(text, "answer is");
  const auto colon = BehindLast(text, "answer:");
  return !is || (colon && colon->size() < is->size()) ? colon : is;
}

std::optional<FinalAnswer> FindFinalAnswer(const VerifyRequest& request) {
  if (const auto tagged = InAnswerTags(request.response)) return FinalAnswer{*tagged, "tags"};
  if (const auto box = InLastBox(request.response)) return FinalAnswer{*box, "boxed"};
  if (const auto announced = AnnouncedAnswer(request)) return announced;
  if (request.truncated) return std::nullopt;
  return FinalAnswer{Trim(request.response), "whole"};
}

std::optional<std::string_view> InLastFence(std::string_view text, std::string_view languages) {
  std::optional<std::string_view> named;
  std::optional<std::string_view> plain;
  for (std::size_t open = text.find(kFence); open != std::string_view::npos;) {
    const std::size_t line_end = text.find('\n', open);
    if (line_end == std::string_view::npos) break;
    const std::size_t close = text.find(kFence, line_end);
    if (close == std::string_view::npos) break;
    const std::string language =
        LowerAscii(Trim(text.substr(open + kFence.size(), line_end - open - kFence.size())));
    const std::string_view inside = text.substr(line_end + 1, close - line_end - 1);
    if (language.empty()) plain = inside;
    if (!language.empty() && HasWord(languages, language)) named = inside;
    open = text.find(kFence, close + kFence.size());
  }
  return named ? named : plain;
}

}  // namespace buttress
