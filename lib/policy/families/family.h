// The families of models: each is a function from config.json to the description of a decoder; and
// the fields of config.json that families share. Without torch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "lib/policy/config_reader.h"
#include "lib/policy/model_config.h"

namespace buttress {

struct Family {
  std::string_view architecture;  // in `architectures` of config.json
  std::string_view model_type;    // in `model_type` of config.json
  std::string_view models;        // whose checkpoints have this architecture

  // Reads the fields that describe the arithmetic. Errors are kept by the reader.
  ModelConfig (*read)(ConfigReader& fields);
};

// Returns all families.
std::span<const Family> Families();

ModelConfig ReadQwen2(ConfigReader& fields);
ModelConfig ReadQwen3(ConfigReader& fields);
ModelConfig ReadQwen3Moe(ConfigReader& fields);
ModelConfig ReadLlama(ConfigReader& fields);
ModelConfig ReadMistral(ConfigReader& fields);
ModelConfig ReadGemma2(ConfigReader& fields);
ModelConfig ReadGemma3(ConfigReader& fields);

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
