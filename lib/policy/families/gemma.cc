// Gemma 2 (arXiv 2408.00118) and the text models of Gemma 3 (arXiv 2503.19786).
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/policy/families/family.h"

namespace buttress {
namespace {

constexpr std::size_t kGlobalRope = 0;
constexpr std::size_t kLocalRope = 1;

// Every layer has a window, except each `pattern`-th.
ModelConfig ReadGemma(ConfigReader& fields, std::size_t pattern) {
  ModelConfig config = ReadDecoder(fields, {.head_dim = 256, .tied = true});
  fields.Require("hidden_activation", "gelu_pytorch_tanh");
  fields.Require("hidden_act", "gelu_pytorch_tanh");
  fields.Require("use_bidirectional_attention", false);
  const std::int64_t window = fields.Dimension("sliding_window", 4096);
  std::vector<std::int64_t> windows;
  for (std::size_t i = 1; i <= config.blocks.size(); ++i)
    windows.push_back(i % pattern == 0 ? 0 : window);
  windows = ReadWindows(fields, window, std::move(windows));
  ReadAttentionBias(fields, config);
  const double scalar = fields.PositiveNumber("query_pre_attn_scalar", 256);
  config.final_norm.adds_one = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    BlockSpec& block = config.blocks[i];
    block.attention.window = windows[i];
    block.attention.scale = 1.0 / std::sqrt(scalar);
    block.post_norms = true;
    block.norm.adds_one = true;
    block.activation = Activation::kGeluTanh;
  }
  return config;
}

// Reads the embeddings of full and of sliding attention: nested by layer type (transformers 5), or
// rope_theta with rope_scaling and rope_local_base_freq (transformers 4).
std::vector<RopeSpec> ReadGemma3Ropes(ConfigReader& fields) {
  const double global = fields.PositiveNumber("rope_theta", 1e6);
  const double local = fields.PositiveNumber("rope_local_base_freq", 1e4);
  const nlohmann::json* nested = fields.Find("rope_parameters");
  if (nested == nullptr) {
    return {ReadRopeObject(fields, "rope_scaling", fields.Find("rope_scaling"), global),
            ReadRopeObject(fields, "rope_scaling", nullptr, local)};
  }
  if (!nested->is_object() || fields.Find("rope_scaling") != nullptr) {
    fields.Refuse("rope_parameters",
                  "expected an object with full_attention and sliding_attention, and no "
                  "rope_scaling next to it");
    return {RopeSpec{}, RopeSpec{}};
  }
  ConfigReader inner(*nested, fields.path() + ": rope_parameters");
  std::vector<RopeSpec> ropes = {
      ReadRopeObject(fields, "full_attention", inner.Find("full_attention"), global),
      ReadRopeObject(fields, "sliding_attention", inner.Find("sliding_attention"), local)};
  inner.RefuseUnread({}, "rope_parameters");
  fields.Adopt(inner);
  return ropes;
}

}  // namespace

ModelConfig ReadGemma2(ConfigReader& fields) {
  ModelConfig config = ReadGemma(fields, 2);
  config.ropes = {ReadRope(fields, 10000)};
  config.logit_cap = fields.NumberOrNull("final_logit_softcapping", 30);
  const double score_cap = fields.NumberOrNull("attn_logit_softcapping", 50);
  for (BlockSpec& block : config.blocks) block.attention.score_cap = score_cap;
  return config;
}

ModelConfig ReadGemma3(ConfigReader& fields) {
  const std::int64_t pattern =
      fields.Dimension("sliding_window_pattern", fields.Dimension("_sliding_window_pattern", 6));
  ModelConfig config = ReadGemma(fields, static_cast<std::size_t>(pattern));
  config.ropes = ReadGemma3Ropes(fields);
  config.logit_cap = fields.NumberOrNull("final_logit_softcapping", 0);
  if (fields.Find("attn_logit_softcapping") != nullptr)
    fields.Refuse("attn_logit_softcapping", "not supported; expected null");
  for (BlockSpec& block : config.blocks) {
    block.qk_norm = true;
    block.rope = block.attention.window > 0 ? kLocalRope : kGlobalRope;
  }
  return config;
}

}  // namespace buttress
