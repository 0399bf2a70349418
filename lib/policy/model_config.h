// The fields of a Hugging Face config.json that the decoder needs. Without torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/policy/block_spec.h"

namespace buttress {

// A Qwen2-style decoder: RMSNorm, RoPE, grouped-query attention with biases on q, k, v, SwiGLU.
struct ModelConfig {
  std::string architecture;  // Qwen2ForCausalLM
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::vector<BlockSpec> blocks;
  std::int64_t max_positions = 0;
  double rope_theta = 10000;
  double norm_eps = 1e-6;  // of the last norm
  bool tie_word_embeddings = false;
  std::vector<std::int32_t> eos_token_ids;  // of config.json and generation_config.json
  std::int32_t pad_token_id = -1;
  double initializer_range = 0.02;
};

// Reads <folder>/config.json and generation_config.json. kInvalidArgument names a setting that
// would change the result and is not implemented, such as another architecture, rope_scaling or a
// sliding window; kDataLoss names a malformed field.
Result<ModelConfig> LoadModelConfig(const std::string& folder);

}  // namespace buttress
