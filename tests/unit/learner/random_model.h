// A Qwen2 of two blocks with random weights.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/policy/transformer.h"

namespace buttress {

inline std::unique_ptr<Transformer> RandomModel(std::uint64_t seed) {
  ModelConfig config;
  config.vocab_size = 20;
  config.hidden_size = 32;
  BlockSpec block;
  block.D = 32;
  block.F = 48;
  block.attention.H = 4;
  block.attention.K = 2;
  block.attention.C = 8;
  block.qkv_bias = true;
  config.blocks.assign(2, block);
  config.max_positions = 64;
  config.initializer_range = 0.3;
  return *Transformer::Random(config, ModelDtype::kFloat32, {}, seed);
}

}  // namespace buttress
