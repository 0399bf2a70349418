// Fields of config.json that families share. Without torch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "lib/policy/config_reader.h"
#include "lib/policy/model_config.h"

namespace buttress {

// What a missing field means differs between families.
struct DecoderDefaults {
  std::int64_t head_dim = 0;  // 0 for hidden_size / num_attention_heads
  bool tied = false;
};

// Reads sizes, norms and the head. All blocks are alike.
ModelConfig ReadDecoder(ConfigReader& fields, const DecoderDefaults& defaults = {});

// Reads rope_theta and rope_scaling (transformers 4) or rope_parameters (transformers 5).
RopeSpec ReadRope(ConfigReader& fields, double default_theta);

// Reads one object of rope settings; null stands for the defaults.
RopeSpec ReadRopeObject(ConfigReader& fields, std::string_view name, const nlohmann::json* object,
                        double default_theta);

// Reads attention_bias, the biases of all projections of attention.
void ReadAttentionBias(ConfigReader& fields, ModelConfig& config);

// Reads layer_types: `window` for each sliding_attention, 0 for each full_attention. Returns
// `fallback` if the field is missing, and refuses a list of another length.
std::vector<std::int64_t> ReadWindows(ConfigReader& fields, std::int64_t window,
                                      std::vector<std::int64_t> fallback);

}  // namespace buttress
