// Folders of adapters as peft writes and reads them: adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <string>

#include "lib/base/report/status.h"
#include "lib/config/sections/lora_config.h"
#include "lib/policy/adapters/adapters.h"
#include "lib/policy/model_config.h"

namespace buttress {

// Whether the folder has an adapter_config.json.
bool HasAdapters(const std::string& folder);

// Returns the adapter_config.json of adapters of `model`, whose folder is `base`.
std::string AdapterConfigText(const LoraConfig& lora, const ModelConfig& model,
                              const std::string& base);

// Reads a folder that has an adapter for each of some targets in every block, into float32 on the
// CPU. kNotFound if there is no adapter_config.json; kInvalidArgument if it is of another method
// than LoRA, or of another model than `model`; kDataLoss if it is malformed.
Result<Adapters> LoadAdapters(const std::string& folder, const ModelConfig& model);

// Writes the folder. `base` names the folder of the model that the adapters are for.
Status SaveAdapters(const Adapters& adapters, const ModelConfig& model, const std::string& base,
                    const std::string& folder);

}  // namespace buttress
