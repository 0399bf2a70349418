// Writes a Hugging Face folder without weights, for models that start from random ones.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/status.h"

namespace buttress {

struct NewModelOptions {
  std::string
      characters;  // the vocabulary, beside <|endoftext|> (padding) and <|im_end|> (end of a response)
  std::int64_t layers = 3;
  std::int64_t hidden = 96;
  std::int64_t heads = 3;
  std::int64_t kv_heads = 0;  // 0 = heads
  std::int64_t intermediate = 256;
  std::int64_t max_positions = 512;
};

// config.json (Qwen2ForCausalLM), generation_config.json, tokenizer.json (byte-level BPE without merges) and tokenizer_config.json in
// `folder`. kInvalidArgument names the option that does not fit; kAlreadyExists if the folder holds weights.
Status WriteNewModel(const NewModelOptions& options, const std::string& folder);

}  // namespace buttress
