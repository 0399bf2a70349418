#include "cli/prepare/new_model_folder.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/prepare/new_tokenizer.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kMaxSize = 1 << 20;

// What config.json of a family says besides the fields that all of them have.
ordered_json FamilyJson(const NewModelOptions& options) {
  switch (options.family) {
    case NewModelFamily::kQwen2:
      return {{"architectures", {"Qwen2ForCausalLM"}}, {"use_sliding_window", false}};
    case NewModelFamily::kQwen3:
      return {{"architectures", {"Qwen3ForCausalLM"}},
              {"use_sliding_window", false},
              {"attention_bias", false},
              {"head_dim", options.hidden / options.heads}};
    case NewModelFamily::kLlama:
      return {{"architectures", {"LlamaForCausalLM"}},
              {"attention_bias", false},
              {"mlp_bias", false},
              {"head_dim", options.hidden / options.heads}};
  }
  return {};
}

ordered_json ModelConfigJson(const NewModelOptions& options, const NewTokenizer& tokenizer) {
  ordered_json json = FamilyJson(options);
  json.update({{"model_type", ChoiceName(options.family)},
               {"vocab_size", std::max(options.vocab, tokenizer.tokens)},
               {"hidden_size", options.hidden},
               {"intermediate_size", options.intermediate},
               {"num_hidden_layers", options.layers},
               {"num_attention_heads", options.heads},
               {"num_key_value_heads", options.kv_heads == 0 ? options.heads : options.kv_heads},
               {"hidden_act", "silu"},
               {"max_position_embeddings", options.max_positions},
               {"initializer_range", 0.02},
               {"rms_norm_eps", 1e-6},
               {"rope_theta", options.rope_theta},
               {"attention_dropout", 0.0},
               {"tie_word_embeddings", options.tied},
               {"use_cache", true},
               {"pad_token_id", tokenizer.pad_id},
               {"eos_token_id", tokenizer.end_id},
               {"torch_dtype", "float32"}});
  return json;
}

Status Check(const NewModelOptions& options) {
  const auto range = [](const char* option, std::int64_t value) {
    if (value >= 1 && value <= kMaxSize) return OkStatus();
    return InvalidArgument(fmt::format("{} = {}; expected 1 to {}", option, value, kMaxSize));
  };
  BUTTRESS_RETURN_IF_ERROR(range("--layers", options.layers));
  BUTTRESS_RETURN_IF_ERROR(range("--hidden", options.hidden));
  BUTTRESS_RETURN_IF_ERROR(range("--heads", options.heads));
  BUTTRESS_RETURN_IF_ERROR(range("--intermediate", options.intermediate));
  BUTTRESS_RETURN_IF_ERROR(range("--max-positions", options.max_positions));
  if (options.kv_heads != 0) BUTTRESS_RETURN_IF_ERROR(range("--kv-heads", options.kv_heads));
  if (options.hidden % (2 * options.heads) != 0) {
    return InvalidArgument(fmt::format(
        "--hidden = {} cannot be split into {} heads of even size; use a multiple of {}",
        options.hidden, options.heads, 2 * options.heads));
  }
  if (options.kv_heads != 0 && options.heads % options.kv_heads != 0) {
    return InvalidArgument(fmt::format("--kv-heads = {} does not divide --heads = {}",
                                       options.kv_heads, options.heads));
  }
  if (options.vocab != 0) BUTTRESS_RETURN_IF_ERROR(range("--vocab", options.vocab));
  if (!(options.rope_theta > 0)) {
    return InvalidArgument(
        fmt::format("--rope-theta = {}; expected a number above 0", options.rope_theta));
  }
  if (options.characters.empty() == options.text.empty()) {
    return InvalidArgument(
        options.text.empty()
            ? "--characters is empty; name every character of the task, or a text to train a "
              "tokenizer on (--text)"
            : "--characters and --text are both given; use one of them");
  }
  return OkStatus();
}

Result<NewTokenizer> MakeTokenizer(const NewModelOptions& options) {
  if (!options.characters.empty()) return CharacterTokenizer(options.characters);
  return TrainTokenizer(options.text, options.tokens);
}

}  // namespace

Status WriteNewModel(const NewModelOptions& options, const std::string& folder) {
  BUTTRESS_RETURN_IF_ERROR(Check(options));
  if (std::filesystem::exists(JoinPath(folder, "model.safetensors"))) {
    return AlreadyExists(folder + " already holds model.safetensors; name another folder");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const NewTokenizer tokenizer, MakeTokenizer(options));
  if (options.vocab != 0 && options.vocab < tokenizer.tokens) {
    return InvalidArgument(fmt::format("--vocab = {} is less than the {} tokens of the tokenizer",
                                       options.vocab, tokenizer.tokens));
  }
  const ordered_json generation{
      {"eos_token_id", tokenizer.end_id}, {"pad_token_id", tokenizer.pad_id}, {"do_sample", true}};
  ordered_json tokenizer_config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                {"eos_token", kEndToken},
                                {"pad_token", kPadToken},
                                {"model_max_length", options.max_positions},
                                {"clean_up_tokenization_spaces", false}};
  if (!tokenizer.chat_template.empty()) tokenizer_config["chat_template"] = tokenizer.chat_template;
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  const std::pair<const char*, ordered_json> files[] = {
      {"config.json", ModelConfigJson(options, tokenizer)},
      {"generation_config.json", generation},
      {"tokenizer.json", tokenizer.json},
      {"tokenizer_config.json", tokenizer_config}};
  for (const auto& [name, json] : files)
    BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, name), json.dump(2) + "\n"));
  return OkStatus();
}

}  // namespace buttress
