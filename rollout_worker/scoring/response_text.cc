#include "rollout_worker/scoring/response_text.h"

#include <algorithm>

namespace buttress {
namespace {

// Returns where the stop string begins that the last token completes: it ends behind `before`, the
// text of the tokens before that one. npos if there is none.
std::size_t StopBegin(const std::string& text, const std::string& before,
                      const std::vector<std::string>& strings) {
  const auto [same, end] = std::ranges::mismatch(text, before);
  const auto known = static_cast<std::size_t>(same - text.begin());
  std::size_t begin = std::string::npos;
  for (const std::string& stop : strings) {
    const std::size_t from = known + 1 > stop.size() ? known + 1 - stop.size() : 0;
    begin = std::min(begin, text.find(stop, from));
  }
  return begin;
}

}  // namespace

Result<std::string> ResponseText(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens,
                                 FinishReason reason, const SamplingParams& sampling) {
  BUTTRESS_ASSIGN_OR_RETURN(std::string text, tokenizer.Decode(tokens, SpecialTokens::kSkip));
  if (reason != FinishReason::kStop || tokens.empty()) return text;
  BUTTRESS_ASSIGN_OR_RETURN(
      std::string before, tokenizer.Decode(tokens.first(tokens.size() - 1), SpecialTokens::kSkip));
  const std::size_t stop = StopBegin(text, before, sampling.stop);
  if (stop != std::string::npos) return sampling.include_stop ? text : text.substr(0, stop);
  const bool token = std::ranges::count(sampling.stop_token_ids, tokens.back()) > 0;
  return token ? before : text;
}

}  // namespace buttress
