// The configuration of a model: what its config.json and generation_config.json say. Without torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/policy/layers/block_spec.h"

namespace buttress {

// A decoder: embedding, blocks, last norm, head.
struct ModelConfig {
  std::string architecture;  // such as Qwen2ForCausalLM
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::vector<BlockSpec> blocks;
  std::vector<RopeSpec> ropes = {RopeSpec{}};
  NormSpec final_norm;
  double embedding_scale = 1;  // of the embedded tokens, rounded to their dtype
  double logit_cap = 0;        // a logit l becomes cap * tanh(l / cap); 0 for none
  std::int64_t max_positions = 0;
  bool tie_word_embeddings = false;
  std::vector<std::int32_t> eos_token_ids;  // of config.json and generation_config.json
  std::int32_t pad_token_id = -1;
  double initializer_range = 0.02;
};

// Reads <folder>/config.json and generation_config.json. kInvalidArgument names a field or value
// that changes the arithmetic and is not supported, or is not known; kDataLoss a malformed field.
Result<ModelConfig> LoadModelConfig(const std::string& folder);

// kInvalidArgument unless `ranks` processes can divide the experts of each block, whole experts to
// each of them (UnitShare::experts).
Status CanDivideExperts(const ModelConfig& model, std::int64_t ranks);

}  // namespace buttress
