// Qwen2 and Qwen2.5 (arXiv 2407.10671, 2412.15115) and the dense models of Qwen3 (arXiv
// 2505.09388).
#include <nlohmann/json.hpp>

#include "lib/policy/families/family.h"
#include "lib/policy/families/fields.h"

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

}  // namespace

ModelConfig ReadQwen2(ConfigReader& fields) {
  ModelConfig config = ReadQwen(fields, {});
  for (BlockSpec& block : config.blocks) block.qkv_bias = true;
  return config;
}

ModelConfig ReadQwen3(ConfigReader& fields) {
  ModelConfig config = ReadQwen(fields, {.head_dim = 128});
  const bool bias = fields.Flag("attention_bias", false);
  for (BlockSpec& block : config.blocks) {
    block.qkv_bias = bias;
    block.out_bias = bias;
    block.qk_norm = true;
  }
  return config;
}

}  // namespace buttress
