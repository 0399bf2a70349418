// Names of Hugging Face's hub where a model folder is expected.
#pragma once

#include <string>

namespace buttress {

// Returns whether `path` has the form of a hub name, "Qwen/Qwen2.5-0.5B": two words of letters,
// digits, '-', '_' and '.' with one slash between them.
bool IsHubName(const std::string& path);

// Says where the model of a hub name is: the newest snapshot in the cache of huggingface_hub, or
// else the command that downloads it. The cache is $HF_HUB_CACHE, $HF_HOME/hub or
// ~/.cache/huggingface/hub.
std::string HubAdvice(const std::string& name);

}  // namespace buttress
