#include "lib/policy/families/family.h"

#include <array>
#include <nlohmann/json.hpp>

namespace buttress {
namespace {

using nlohmann::json;

void CheckHeads(ConfigReader& fields, const AttentionSpec& attention) {
  if (attention.H % attention.K != 0) {
    fields.Fail("num_key_value_heads", "= " + std::to_string(attention.K),
                "a divisor of num_attention_heads");
  }
  if (attention.C % 2 != 0)
    fields.Fail("head_dim", "= " + std::to_string(attention.C), "an even number");
}

std::int64_t HeadDim(ConfigReader& fields, const BlockSpec& block,
                     const DecoderDefaults& defaults) {
  if (fields.Find("head_dim") != nullptr) return fields.Dimension("head_dim");
  if (defaults.head_dim > 0) return defaults.head_dim;
  if (block.D % block.attention.H == 0) return block.D / block.attention.H;
  fields.Fail("num_attention_heads", "= " + std::to_string(block.attention.H),
              "a divisor of hidden_size, or a head_dim");
  return 2;
}

}  // namespace

std::span<const Family> Families() {
  static constexpr std::array<Family, 7> kFamilies = {{
      {"Qwen2ForCausalLM", "qwen2", "Qwen2, Qwen2.5", ReadQwen2},
      {"Qwen3ForCausalLM", "qwen3", "Qwen3 (dense)", ReadQwen3},
      {"Qwen3MoeForCausalLM", "qwen3_moe", "Qwen3 (mixture of experts)", ReadQwen3Moe},
      {"LlamaForCausalLM", "llama", "Llama 2, 3, 3.1, 3.2 (text), 3.3", ReadLlama},
      {"MistralForCausalLM", "mistral", "Mistral 7B", ReadMistral},
      {"Gemma2ForCausalLM", "gemma2", "Gemma 2", ReadGemma2},
      {"Gemma3ForCausalLM", "gemma3_text", "Gemma 3 (text)", ReadGemma3},
  }};
  return kFamilies;
}

ModelConfig ReadDecoder(ConfigReader& fields, const DecoderDefaults& defaults) {
  ModelConfig config;
  BlockSpec block;
  block.D = fields.Dimension("hidden_size");
  block.F = fields.Dimension("intermediate_size");
  block.attention.H = fields.Dimension("num_attention_heads");
  block.attention.K = fields.Dimension("num_key_value_heads", block.attention.H);
  block.attention.C = HeadDim(fields, block, defaults);
  CheckHeads(fields, block.attention);
  block.norm.eps = fields.PositiveNumber("rms_norm_eps", block.norm.eps);
  fields.Require("attention_dropout", 0.0);
  config.vocab_size = fields.Dimension("vocab_size");
  config.hidden_size = block.D;
  config.blocks.assign(static_cast<std::size_t>(fields.Dimension("num_hidden_layers")), block);
  config.final_norm = block.norm;
  config.max_positions = fields.Dimension("max_position_embeddings");
  config.tie_word_embeddings = fields.Flag("tie_word_embeddings", defaults.tied);
  config.initializer_range = fields.PositiveNumber("initializer_range", config.initializer_range);
  return config;
}

RopeSpec ReadRopeObject(ConfigReader& fields, std::string_view name, const json* object,
                        double default_theta) {
  RopeSpec rope;
  rope.theta = default_theta;
  if (object == nullptr) return rope;
  if (!object->is_object()) {
    fields.Fail(name, "= " + object->dump(), "an object");
    return rope;
  }
  ConfigReader inner(*object, fields.path() + ": " + std::string(name));
  rope.theta = inner.PositiveNumber("rope_theta", default_theta);
  inner.Require("partial_rotary_factor", 1.0);
  const std::string type = inner.Text("rope_type", inner.Text("type", "default"));
  if (type == "linear" || type == "llama3") {
    if (inner.Find("factor") == nullptr) inner.Fail("factor", "is missing", "a number above 0");
    rope.factor = inner.PositiveNumber("factor", 1);
  }
  if (type == "llama3") {
    rope.low_freq_factor = inner.PositiveNumber("low_freq_factor", rope.low_freq_factor);
    rope.high_freq_factor = inner.PositiveNumber("high_freq_factor", rope.high_freq_factor);
    rope.original_positions = inner.Dimension("original_max_position_embeddings",
                                              fields.Dimension("max_position_embeddings"));
    if (rope.high_freq_factor <= rope.low_freq_factor)
      inner.Refuse("high_freq_factor", "expected more than low_freq_factor");
  } else if (type != "linear" && type != "default") {
    inner.Refuse(inner.Find("rope_type") != nullptr ? "rope_type" : "type",
                 "not supported; expected default, linear or llama3");
  }
  inner.RefuseUnread({}, "rope type " + type);
  fields.Adopt(inner);
  return rope;
}

RopeSpec ReadRope(ConfigReader& fields, double default_theta) {
  const double theta = fields.PositiveNumber("rope_theta", default_theta);
  fields.Require("partial_rotary_factor", 1.0);
  const json* parameters = fields.Find("rope_parameters");
  const json* scaling = fields.Find("rope_scaling");
  if (parameters != nullptr && scaling != nullptr && *parameters != *scaling)
    fields.Refuse("rope_scaling", "rope_parameters says otherwise; remove one of the two");
  return parameters != nullptr ? ReadRopeObject(fields, "rope_parameters", parameters, theta)
                               : ReadRopeObject(fields, "rope_scaling", scaling, theta);
}

void ReadAttentionBias(ConfigReader& fields, ModelConfig& config) {
  const bool bias = fields.Flag("attention_bias", false);
  for (BlockSpec& block : config.blocks) {
    block.qkv_bias = bias;
    block.out_bias = bias;
  }
}

std::vector<std::int64_t> ReadWindows(ConfigReader& fields, std::int64_t window,
                                      std::vector<std::int64_t> fallback) {
  const json* types = fields.Find("layer_types");
  if (types == nullptr) return fallback;
  if (!types->is_array() || types->size() != fallback.size()) {
    fields.Fail("layer_types", "= " + types->dump(), "one entry for each layer");
    return fallback;
  }
  std::vector<std::int64_t> windows;
  for (const json& type : *types) {
    if (type == "sliding_attention" && window > 0) {
      windows.push_back(window);
    } else if (type == "full_attention") {
      windows.push_back(0);
    } else {
      fields.Refuse("layer_types",
                    "not supported; expected full_attention, or sliding_attention "
                    "with a sliding_window");
      return fallback;
    }
  }
  return windows;
}

}  // namespace buttress
