// Finds the token of a completion that completes a stop string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// Reads the tokens of one completion, in order. A string may begin and end inside a token, and
// spread a character over several, because bytes are compared. Special tokens have no bytes.
//
// Not thread-safe.
class StopMatcher {
 public:
  // Finds nothing.
  StopMatcher() = default;

  // `tokenizer` must outlive the matcher. REQUIRES: no string is empty.
  StopMatcher(const Tokenizer& tokenizer, std::vector<std::string> strings,
              std::int32_t min_tokens);

  // Returns whether `token`, the next one, completes a string. The first min_tokens tokens complete
  // none.
  bool Completes(std::int32_t token);

 private:
  const Tokenizer* tokenizer_ = nullptr;
  std::vector<std::string> strings_;
  std::size_t longest_ = 0;
  std::int32_t tokens_left_ = 0;  // that complete none
  std::string tail_;              // the last bytes, fewer than those of the longest string
};

}  // namespace buttress
