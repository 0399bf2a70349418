#include "lib/tokenizer/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace buttress {

StopMatcher::StopMatcher(const Tokenizer& tokenizer, std::vector<std::string> strings,
                         std::int32_t min_tokens)
    : tokenizer_(&tokenizer), strings_(std::move(strings)), tokens_left_(min_tokens) {
  for (const std::string& text : strings_) longest_ = std::max(longest_, text.size());
}

bool StopMatcher::Completes(std::int32_t token) {
  if (strings_.empty()) return false;
  const std::size_t known = tail_.size();
  tail_ += tokenizer_->TokenBytes(token);
  // A match that ends in the known bytes was completed by an earlier token.
  const bool found =
      tokens_left_-- <= 0 && std::ranges::any_of(strings_, [&](const std::string& text) {
        const std::size_t from = known + 1 > text.size() ? known + 1 - text.size() : 0;
        return tail_.find(text, from) != std::string::npos;
      });
  if (tail_.size() >= longest_) tail_.erase(0, tail_.size() - longest_ + 1);
  return found;
}

}  // namespace buttress
