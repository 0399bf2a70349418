#include "cli/new_model_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "lib/base/file.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr const char* kPad = "<|endoftext|>";
constexpr const char* kEnd = "<|im_end|>";
constexpr std::int64_t kMaxSize = 1 << 20;

// Byte-level BPE writes every byte as a visible character: printable ones as themselves, the others from U+0100 on, in order.
std::string VisibleByte(unsigned char byte) {
  const auto visible = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  };
  int code = byte;
  if (!visible(byte)) {
    code = 0x100;
    for (int b = 0; b < byte; ++b) code += visible(b) ? 0 : 1;
  }
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

// Every byte of the characters once, in their order.
std::vector<std::string> Vocabulary(const std::string& characters) {
  std::vector<std::string> tokens;
  std::set<char> seen;
  for (const char c : characters) {
    if (seen.insert(c).second) tokens.push_back(VisibleByte(static_cast<unsigned char>(c)));
  }
  return tokens;
}

ordered_json TokenizerJson(const std::vector<std::string>& tokens) {
  ordered_json vocab = ordered_json::object();
  for (const std::string& token : tokens) vocab[token] = vocab.size();
  ordered_json added = ordered_json::array();
  for (const char* special : {kPad, kEnd}) {
    added.push_back({{"id", tokens.size() + added.size()},
                     {"content", special},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const ordered_json byte_level{{"type", "ByteLevel"},
                                {"add_prefix_space", false},
                                {"trim_offsets", false},
                                {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", ""},
            {"end_of_word_suffix", ""},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocab},
            {"merges", ordered_json::array()}}}};
}

ordered_json ModelConfigJson(const NewModelOptions& options, std::size_t pad_id) {
  return {{"architectures", {"Qwen2ForCausalLM"}},
          {"model_type", "qwen2"},
          {"vocab_size", pad_id + 2},
          {"hidden_size", options.hidden},
          {"intermediate_size", options.intermediate},
          {"num_hidden_layers", options.layers},
          {"num_attention_heads", options.heads},
          {"num_key_value_heads", options.kv_heads == 0 ? options.heads : options.kv_heads},
          {"hidden_act", "silu"},
          {"max_position_embeddings", options.max_positions},
          {"initializer_range", 0.02},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"attention_dropout", 0.0},
          {"use_sliding_window", false},
          {"tie_word_embeddings", false},
          {"use_cache", true},
          {"pad_token_id", pad_id},
          {"eos_token_id", pad_id + 1},
          {"torch_dtype", "float32"}};
}

Status Check(const NewModelOptions& options) {
  const auto range = [](const char* option, std::int64_t value) {
    if (value >= 1 && value <= kMaxSize) return OkStatus();
    return InvalidArgument(std::string(option) + " = " + std::to_string(value) + "; 1 to " +
                           std::to_string(kMaxSize) + " is expected");
  };
  BUTTRESS_RETURN_IF_ERROR(range("--layers", options.layers));
  BUTTRESS_RETURN_IF_ERROR(range("--hidden", options.hidden));
  BUTTRESS_RETURN_IF_ERROR(range("--heads", options.heads));
  BUTTRESS_RETURN_IF_ERROR(range("--intermediate", options.intermediate));
  BUTTRESS_RETURN_IF_ERROR(range("--max-positions", options.max_positions));
  if (options.kv_heads != 0) BUTTRESS_RETURN_IF_ERROR(range("--kv-heads", options.kv_heads));
  if (options.hidden % (2 * options.heads) != 0) {
    return InvalidArgument("--hidden = " + std::to_string(options.hidden) + " does not make " +
                           std::to_string(options.heads) +
                           " heads of an even size; use a multiple of " +
                           std::to_string(2 * options.heads));
  }
  if (options.kv_heads != 0 && options.heads % options.kv_heads != 0) {
    return InvalidArgument("--kv-heads = " + std::to_string(options.kv_heads) +
                           " does not divide --heads = " + std::to_string(options.heads));
  }
  if (options.characters.empty())
    return InvalidArgument("--characters is empty; name every character of the task");
  return OkStatus();
}

}  // namespace

Status WriteNewModel(const NewModelOptions& options, const std::string& folder) {
  BUTTRESS_RETURN_IF_ERROR(Check(options));
  if (std::filesystem::exists(JoinPath(folder, "model.safetensors"))) {
    return AlreadyExists(folder + " holds weights (model.safetensors); name another folder");
  }
  const std::vector<std::string> tokens = Vocabulary(options.characters);
  const std::size_t pad_id = tokens.size();
  const ordered_json generation{
      {"eos_token_id", pad_id + 1}, {"pad_token_id", pad_id}, {"do_sample", true}};
  const ordered_json tokenizer_config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                      {"eos_token", kEnd},
                                      {"pad_token", kPad},
                                      {"model_max_length", options.max_positions},
                                      {"clean_up_tokenization_spaces", false}};
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  const std::pair<const char*, ordered_json> files[] = {
      {"config.json", ModelConfigJson(options, pad_id)},
      {"generation_config.json", generation},
      {"tokenizer.json", TokenizerJson(tokens)},
      {"tokenizer_config.json", tokenizer_config}};
  for (const auto& [name, json] : files)
    BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(folder, name), json.dump(2) + "\n"));
  return OkStatus();
}

}  // namespace buttress
