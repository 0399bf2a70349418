// Writes a Hugging Face folder without weights, for models that are trained from scratch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/choice.h"

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

// Makes a tokenizer in which every byte of `characters` is a token and nothing is merged. With
// `chat` it has ChatML as chat template, its special tokens and the letters of its roles (system,
// user, assistant) too.
NewTokenizer CharacterTokenizer(const std::string& characters, bool chat);

// Trains a tokenizer like Qwen2's: its pattern, its special tokens after the others, ChatML as chat
// template. It learns from every string in the objects of the JSONL file `path` and has `tokens`
// tokens, or fewer if the text has no more pairs. kInvalidArgument names a line that is not JSON.
Result<NewTokenizer> TrainTokenizer(const std::string& path, std::int64_t tokens);

// Families that a new model can have; others are loaded, but not made.
enum class NewModelFamily : std::uint8_t { kQwen2, kQwen3, kLlama };
template <>
inline constexpr ChoiceRow<NewModelFamily> kChoices<NewModelFamily>[] = {
    {NewModelFamily::kQwen2, "qwen2"},
    {NewModelFamily::kQwen3, "qwen3"},
    {NewModelFamily::kLlama, "llama"},
};

struct NewModelOptions {
  NewModelFamily family = NewModelFamily::kQwen2;

  // Exactly one of these two defines the tokenizer: CharacterTokenizer, TrainTokenizer.
  std::string characters{};
  std::string text{};  // path of a JSONL file

  bool chat = false;           // a chat template for `characters`; `text` always has one
  std::int64_t tokens = 8192;  // vocabulary size of a tokenizer trained on `text`
  std::int64_t vocab = 0;      // rows of the embedding; 0: the number of tokens
  std::int64_t layers = 3;
  std::int64_t hidden = 96;
  std::int64_t heads = 3;
  std::int64_t kv_heads = 0;  // 0: equal to `heads`
  std::int64_t intermediate = 256;
  std::int64_t max_positions = 512;
  double rope_theta = 10000;
  bool tied = false;  // embedding and output layer share their weights
};

// Writes config.json, generation_config.json, tokenizer.json (byte-level BPE) and
// tokenizer_config.json to `folder`. kInvalidArgument names the invalid option; kAlreadyExists if
// the folder holds weights.
Status WriteNewModel(const NewModelOptions& options, const std::string& folder);

}  // namespace buttress
