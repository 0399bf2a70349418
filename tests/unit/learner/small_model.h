// A small model of random weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"

namespace buttress {

inline ModelConfig SmallModelConfig() {
  ModelConfig config;
  config.architecture = "Qwen2ForCausalLM";
  config.vocab_size = 13;
  config.hidden_size = 16;
  BlockSpec block;
  block.D = 16;
  block.F = 32;
  block.attention.H = 2;
  block.attention.K = 1;
  block.attention.C = 8;
  block.qkv_bias = true;
  config.blocks.assign(2, block);
  config.max_positions = 64;
  config.eos_token_ids = {0};
  config.initializer_range = 0.2;
  return config;
}

// With experts in all blocks but the first.
inline ModelConfig SmallExpertsConfig() {
  ModelConfig config = SmallModelConfig();
  for (BlockSpec& block : config.blocks) block.experts = {8, 2, true};
  config.blocks.front().experts = {};
  return config;
}

inline std::unique_ptr<Transformer> SmallModel(ModelDtype dtype = ModelDtype::kFloat32,
                                               std::uint64_t seed = 7, const UnitShare& share = {},
                                               ModelDevice device = {}) {
  auto model = Transformer::Random(SmallModelConfig(), dtype, device, seed, share);
  BUTTRESS_CHECK(model.ok(), model.status().ToString());
  return *std::move(model);
}

// Writes `model` to a Hugging Face folder below `folder` and returns its path.
inline std::string Saved(const Transformer& model, const std::string& folder) {
  const std::string source = JoinPath(folder, "source"), saved = JoinPath(folder, "saved");
  const char* config = R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2",
    "vocab_size": 13, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
    "rope_theta": 10000.0, "rms_norm_eps": 1e-06, "tie_word_embeddings": false,
    "eos_token_id": 0, "hidden_act": "silu"})";
  for (const Status& status :
       {MakeFolders(source), WriteFileAtomic(JoinPath(source, "config.json"), config),
        SaveModelFolder(model, source, saved)}) {
    BUTTRESS_CHECK(status.ok(), status.ToString());
  }
  return saved;
}

}  // namespace buttress
