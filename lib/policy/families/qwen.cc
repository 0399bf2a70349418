// Qwen2 and Qwen2.5 (arXiv 2407.10671, 2412.15115) and Qwen3 (arXiv 2505.09388), dense and with
// mixtures of experts.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/policy/families/family.h"

namespace buttress {
namespace {

// With use_sliding_window, the layers from max_window_layers on have a window unless layer_types
// says otherwise.
void ReadQwenWindows(ConfigReader& fields, ModelConfig& config) {
  const std::int64_t given = fields.Dimension("sliding_window", 4096);
  const std::int64_t window = fields.Flag("use_sliding_window", false) ? given : 0;
  const nlohmann::json* first = fields.Find("max_window_layers");
  if (first != nullptr && !first->is_number_unsigned()) {
    fields.Fail("max_window_layers", "= " + first->dump(), "an integer of at least 0");
    return;
  }
  const std::size_t full = first == nullptr ? 28 : first->get<std::size_t>();
  std::vector<std::int64_t> windows(config.blocks.size(), 0);
  for (std::size_t i = full; i < windows.size(); ++i) windows[i] = window;
  windows = ReadWindows(fields, window, std::move(windows));
  for (std::size_t i = 0; i < windows.size(); ++i) config.blocks[i].attention.window = windows[i];
}

ModelConfig ReadQwen(ConfigReader& fields, const DecoderDefaults& defaults) {
  ModelConfig config = ReadDecoder(fields, defaults);
  config.ropes = {ReadRope(fields, 10000)};
  fields.Require("hidden_act", "silu");
  fields.Require("use_mrope", false);
  ReadQwenWindows(fields, config);
  return config;
}

ExpertSpec ReadExperts(ConfigReader& fields) {
  ExpertSpec experts;
  const std::int64_t local = fields.Dimension("num_local_experts", 128);  // of transformers 5
  experts.count = fields.Dimension("num_experts", local);
  if (fields.Find("num_local_experts") != nullptr && local != experts.count)
    fields.Refuse("num_local_experts", "num_experts says otherwise; remove one of the two");
  experts.top_k = fields.Dimension("num_experts_per_tok", 8);
  if (experts.top_k > experts.count)
    fields.Refuse("num_experts_per_tok", "expected at most num_experts");
  experts.normalize = fields.Flag("norm_topk_prob", false);
  return experts;
}

// With output_router_logits, transformers adds router_aux_loss_coef times a loss that balances the
// experts (arXiv 2101.03961) to the loss of its own training. It does not change the logits, and no
// loss of Buttress has it.
void CheckBalanceLoss(ConfigReader& fields) {
  fields.Require("output_router_logits", false);
  const nlohmann::json* coefficient = fields.Find("router_aux_loss_coef");
  if (coefficient != nullptr && !coefficient->is_number())
    fields.Fail("router_aux_loss_coef", "= " + coefficient->dump(), "a number");
}

// Returns for each block whether its MLP is dense: those of mlp_only_layers, and all but every
// decoder_sparse_step-th block.
std::vector<bool> ReadDenseLayers(ConfigReader& fields, std::size_t blocks) {
  const auto step = static_cast<std::size_t>(fields.Dimension("decoder_sparse_step", 1));
  std::vector<bool> dense(blocks);
  for (std::size_t i = 0; i < blocks; ++i) dense[i] = (i + 1) % step != 0;
  const nlohmann::json* only = fields.Find("mlp_only_layers");
  if (only == nullptr) return dense;
  const auto is_block = [&](const nlohmann::json& index) {
    return index.is_number_unsigned() && index.get<std::size_t>() < blocks;
  };
  if (!only->is_array() || !std::all_of(only->begin(), only->end(), is_block)) {
    fields.Fail("mlp_only_layers", "= " + only->dump(), "a list of indices of layers");
    return dense;
  }
  for (const nlohmann::json& index : *only) dense[index.get<std::size_t>()] = true;
  return dense;
}

}  // namespace

ModelConfig ReadQwen2(ConfigReader& fields) {
  ModelConfig config = ReadQwen(fields, {});
  for (BlockSpec& block : config.blocks) block.qkv_bias = true;
  return config;
}

ModelConfig ReadQwen3(ConfigReader& fields) {
  ModelConfig config = ReadQwen(fields, {.head_dim = 128});
  ReadAttentionBias(fields, config);
  for (BlockSpec& block : config.blocks) block.qk_norm = true;
  return config;
}

ModelConfig ReadQwen3Moe(ConfigReader& fields) {
  ModelConfig config = ReadDecoder(fields);
  config.ropes = {ReadRope(fields, 10000)};
  fields.Require("hidden_act", "silu");
  fields.Require("use_sliding_window", false);
  fields.Find("sliding_window");  // of no effect without use_sliding_window
  fields.Find("max_window_layers");
  CheckBalanceLoss(fields);
  ReadAttentionBias(fields, config);
  const ExpertSpec experts = ReadExperts(fields);
  const std::int64_t expert_width = fields.Dimension("moe_intermediate_size", 768);
  const std::vector<bool> dense = ReadDenseLayers(fields, config.blocks.size());
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    BlockSpec& block = config.blocks[i];
    block.qk_norm = true;
    if (dense[i]) continue;
    block.F = expert_width;
    block.experts = experts;
  }
  return config;
}

}  // namespace buttress
