#include "lib/verify/final_answer.h"

#include <string>

#include "lib/verify/extract.h"

namespace buttress {
namespace {

constexpr std::string_view kFence = "```";

std::optional<FinalAnswer> BehindAnswerIs(const VerifyRequest& request) {
  std::optional<std::string_view> behind = BehindLast(request.response, "answer is");
  const auto colon = BehindLast(request.response, "answer:");
  if (!behind || (colon && colon->size() < behind->size())) behind = colon;
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

std::optional<FinalAnswer> FindFinalAnswer(const VerifyRequest& request) {
  if (const auto tagged = InAnswerTags(request.response)) return FinalAnswer{*tagged, "tags"};
  if (const auto box = InLastBox(request.response)) return FinalAnswer{*box, "boxed"};
  if (const auto said = BehindAnswerIs(request)) return said;
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
    std::string language(Trim(text.substr(open + kFence.size(), line_end - open - kFence.size())));
    for (char& c : language) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    const std::string_view inside = text.substr(line_end + 1, close - line_end - 1);
    if (language.empty()) plain = inside;
    if (!language.empty() && HasWord(languages, language)) named = inside;
    open = text.find(kFence, close + kFence.size());
  }
  return named ? named : plain;
}

}  // namespace buttress
