// Writes a Hugging Face folder without weights, for models that start from random ones.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/status.h"

namespace buttress {

struct NewModelOptions {
  // One of the two makes the tokenizer (new_tokenizer.h).
  std::string characters{};
  std::string text{};  // JSONL

  std::int64_t tokens = 8192;  // of the tokenizer that `text` makes
  std::int64_t vocab = 0;      // rows of the embedding; 0 = as many as the tokenizer has tokens
  std::int64_t layers = 3;
  std::int64_t hidden = 96;
  std::int64_t heads = 3;
  std::int64_t kv_heads = 0;  // 0 = heads
  std::int64_t intermediate = 256;
  std::int64_t max_positions = 512;
  double rope_theta = 10000;
  bool tied = false;  // the output layer is the embedding
};

// config.json (Qwen2ForCausalLM), generation_config.json, tokenizer.json (byte-level BPE) and
// tokenizer_config.json in `folder`. kInvalidArgument names the option that does not fit;
// kAlreadyExists if the folder holds weights.
Status WriteNewModel(const NewModelOptions& options, const std::string& folder);

}  // namespace buttress
