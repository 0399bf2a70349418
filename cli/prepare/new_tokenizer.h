// Tokenizers for models that are trained from scratch: byte-level BPE, either of single characters
// or trained on text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct NewTokenizer {
  nlohmann::ordered_json json;  // tokenizer.json
  std::int64_t tokens = 0;      // vocabulary size
  std::int64_t pad_id = 0;      // id of kPadToken
  std::int64_t end_id = 0;      // id of kEndToken
  std::string chat_template;    // "" for none
};

inline constexpr const char* kPadToken = "<|endoftext|>";
inline constexpr const char* kEndToken = "<|im_end|>";

// Makes a tokenizer in which every byte of `characters` is a token and nothing is merged.
NewTokenizer CharacterTokenizer(const std::string& characters);

// Trains a tokenizer like Qwen2's: its pattern, its special tokens after the others, ChatML as chat
// template. It learns from every string in the objects of the JSONL file `path` and has `tokens`
// tokens, or fewer if the text has no more pairs. kInvalidArgument names a line that is not JSON.
Result<NewTokenizer> TrainTokenizer(const std::string& path, std::int64_t tokens);

}  // namespace buttress
