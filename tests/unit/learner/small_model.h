// A small model of random weights.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/check.h"
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

inline std::unique_ptr<Transformer> SmallModel(ModelDtype dtype = ModelDtype::kFloat32,
                                               std::uint64_t seed = 7) {
  auto model = Transformer::Random(SmallModelConfig(), dtype, {}, seed);
  BUTTRESS_CHECK(model.ok(), model.status().ToString());
  return *std::move(model);
}

}  // namespace buttress
