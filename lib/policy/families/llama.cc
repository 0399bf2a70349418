// Llama 2 and 3 (arXiv 2307.09288, 2407.21783) and Mistral 7B (arXiv 2310.06825).
#include <nlohmann/json.hpp>

#include "lib/policy/families/family.h"

namespace buttress {

ModelConfig ReadLlama(ConfigReader& fields) {
  ModelConfig config = ReadDecoder(fields);
  config.ropes = {ReadRope(fields, 10000)};
  fields.Require("hidden_act", "silu");
  fields.Require("mlp_bias", false);
  ReadAttentionBias(fields, config);
  return config;
}

ModelConfig ReadMistral(ConfigReader& fields) {
  ModelConfig config = ReadDecoder(fields);
  config.ropes = {ReadRope(fields, 10000)};
  fields.Require("hidden_act", "silu");
  fields.Require("attention_bias", false);
  // A missing window is 4096 positions; only null stands for none.
  const std::int64_t window =
      fields.Find("sliding_window") == nullptr && fields.Has("sliding_window")
          ? 0
          : fields.Dimension("sliding_window", 4096);
  for (BlockSpec& block : config.blocks) block.attention.window = window;
  return config;
}

}  // namespace buttress
