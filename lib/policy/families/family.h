// The families of models: each is a function from config.json to the description of a decoder.
// Without torch.
#pragma once

#include <span>
#include <string_view>

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

}  // namespace buttress
