// `buttress new-model`: writes a Hugging Face folder without weights, for `buttress sft`.
#include "cli/prepare/new_model.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/config/choice_option.h"

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
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"--layers", options.layers},
      {"--hidden", options.hidden},
      {"--heads", options.heads},
      {"--intermediate", options.intermediate},
      {"--max-positions", options.max_positions},
      {"--kv-heads", options.kv_heads == 0 ? 1 : options.kv_heads},
      {"--vocab", options.vocab == 0 ? 1 : options.vocab}};
  for (const auto& [option, value] : sizes) {
    if (value < 1 || value > kMaxSize)
      return InvalidArgument(fmt::format("{} = {}; expected 1 to {}", option, value, kMaxSize));
  }
  if (options.hidden % (2 * options.heads) != 0) {
    return InvalidArgument(fmt::format(
        "--hidden = {} cannot be split into {} heads of even size; use a multiple of {}",
        options.hidden, options.heads, 2 * options.heads));
  }
  if (options.kv_heads != 0 && options.heads % options.kv_heads != 0) {
    return InvalidArgument(fmt::format("--kv-heads = {} does not divide --heads = {}",
                                       options.kv_heads, options.heads));
  }
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
  if (!options.characters.empty()) return CharacterTokenizer(options.characters, options.chat);
  return TrainTokenizer(options.text, options.tokens);
}

}  // namespace

Status WriteNewModel(const NewModelOptions& options, const std::string& folder) {
  BUTTRESS_RETURN_IF_ERROR(Check(options));
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (std::filesystem::exists(JoinPath(folder, name)))
      return AlreadyExists(fmt::format("{} already holds {}; name another folder", folder, name));
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

std::function<Status()> AddNewModel(CLI::App& app) {
  struct Flags {
    std::string folder;
    NewModelOptions model;
  };

  const auto flags = std::make_shared<Flags>();
  app.option_defaults()->always_capture_default();
  app.add_option("--out", flags->folder, "folder to create")->required();
  AddChoice(app, "--family", flags->model.family, "family of the model");
  app.add_option("--characters", flags->model.characters,
                 "all characters of prompts and responses; each becomes a token");
  app.add_option("--text", flags->model.text,
                 "instead of --characters: JSONL from whose strings a byte-level BPE like Qwen2's "
                 "is trained");
  app.add_flag("--chat", flags->model.chat,
               "with --characters: ChatML as chat template, its special tokens and the letters of "
               "its roles; --text always has them");
  app.add_option("--tokens", flags->model.tokens,
                 "size of the BPE vocabulary, special tokens included");
  app.add_option("--vocab", flags->model.vocab, "rows of the embedding; 0: the number of tokens");
  app.add_option("--layers", flags->model.layers, "decoder layers");
  app.add_option("--hidden", flags->model.hidden, "hidden size");
  app.add_option("--heads", flags->model.heads,
                 "attention heads; vLLM serves head sizes of 32, 64, 80, 96 and 128");
  app.add_option("--kv-heads", flags->model.kv_heads, "key-value heads; 0: equal to --heads");
  app.add_option("--intermediate", flags->model.intermediate, "size of the feed-forward layers");
  app.add_option("--max-positions", flags->model.max_positions,
                 "maximum tokens of prompt and response together");
  app.add_option("--rope-theta", flags->model.rope_theta, "base of the rotary position embedding");
  app.add_flag("--tied", flags->model.tied, "share the weights of embedding and output layer");
  return [flags]() -> Status {
    BUTTRESS_RETURN_IF_ERROR(WriteNewModel(flags->model, flags->folder));
    std::printf("new-model: %s\n", flags->folder.c_str());
    return OkStatus();
  };
}

}  // namespace buttress
