// The text of a completion that grows, as far as no later token can change it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// Not thread-safe.
class TextStream {
 public:
  // Keeps the last `held` bytes back, which may turn out to begin a stop string. `tokenizer`
  // outlives the stream.
  TextStream(const Tokenizer& tokenizer, std::size_t held) : tokenizer_(&tokenizer), held_(held) {}

  // Adds tokens. Returns the text that follows what was returned before; it may be empty.
  std::string Add(std::span<const std::int32_t> tokens);

  // Returns what is missing of `whole`, the text of the completion.
  std::string Finish(const std::string& whole) const;

 private:
  const Tokenizer* tokenizer_;
  std::size_t held_;
  std::vector<std::int32_t> tokens_;
  // Tokens are decoded behind some before them, because the first of a text may look different.
  std::size_t window_ = 0;   // where these begin
  std::size_t decoded_ = 0;  // tokens whose text is in text_
  std::string text_;
  std::size_t returned_ = 0;  // bytes of text_
};

}  // namespace buttress
