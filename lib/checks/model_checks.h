// Checks of run.model.path and run.lora.adapter. Without LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/checks/findings.h"
#include "lib/config/run_config.h"
#include "lib/policy/model_config.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// The parts of a model folder that could be read.
struct ModelFacts {
  std::optional<ModelConfig> config;
  std::unique_ptr<Tokenizer> tokenizer;
  std::int64_t parameters = 0;
};

// Checks that the folder has a config.json of a supported family, all its weights, and a tokenizer
// that fits the vocabulary, and that a completion fits the positions of the model.
ModelFacts CheckModel(const RunSettings& run, Findings& findings);

// Checks that the folder of run.lora.adapter, if one is set, has an adapter_config.json that names
// run.model.path, and a whole adapter_model.safetensors. The learner compares them with the model.
void CheckAdapter(const RunSettings& run, Findings& findings);

// Says where the model of a name of Hugging Face's hub is: the newest snapshot in the cache of
// huggingface_hub, or else the command that downloads it. The cache is $HF_HUB_CACHE, $HF_HOME/hub
// or ~/.cache/huggingface/hub.
std::string HubAdvice(const std::string& name);

}  // namespace buttress
