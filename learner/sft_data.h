// Prompt and response pairs for supervised training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/status.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

struct SftExample {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> response;  // ends with the end-of-sequence token
};

struct SftDataOptions {
  std::string path;
  std::string prompt_field = "prompt";
  std::string response_field = "response";
  std::int32_t eos_token_id = -1;
  std::int64_t max_tokens = 0;  // of prompt and response together
  std::int64_t vocab_size = 0;  // of the model
};

// Reads a JSONL file of objects with two string fields each. kInvalidArgument names the first bad
// line.
Result<std::vector<SftExample>> ReadSftExamples(const SftDataOptions& options,
                                                const Tokenizer& tokenizer);

// Draws every index below `count` once per pass, in an order that depends on seed and pass. Not
// thread-safe.
class ShuffledIndices {
 public:
  // REQUIRES: count > 0.
  ShuffledIndices(std::size_t count, std::uint64_t seed);

  std::size_t Next();

 private:
  void Shuffle();

  const std::uint64_t seed_;
  std::uint64_t pass_ = 0;
  std::size_t next_ = 0;
  std::vector<std::size_t> order_;
};

}  // namespace buttress
