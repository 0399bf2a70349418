// Tokenizers for models that start from random weights: byte-level BPE, of single characters or
// trained on text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

struct NewTokenizer {
  nlohmann::ordered_json json;  // tokenizer.json
  std::int64_t tokens = 0;      // in all
  std::int64_t pad_id = 0;      // of kPadToken
  std::int64_t end_id = 0;      // of kEndToken
  std::string chat_template;    // empty: none
};

inline constexpr const char* kPadToken = "<|endoftext|>";
inline constexpr const char* kEndToken = "<|im_end|>";

// Every byte of `characters` is a token, nothing is merged.
NewTokenizer CharacterTokenizer(const std::string& characters);

// As Qwen2's: its pattern, its special tokens behind the others, ChatML as chat template. Learned
// from every string in the objects of the JSONL `path`; `tokens` in all, or fewer if the text has
// no more pairs. kInvalidArgument names the line that is no JSON.
Result<NewTokenizer> TrainTokenizer(const std::string& path, std::int64_t tokens);

}  // namespace buttress
