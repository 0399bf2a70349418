// Names of Hugging Face's hub where a model folder is expected.
#pragma once

#include <string>

namespace buttress {

// Says where the model of a hub name is: the newest snapshot in the cache of huggingface_hub, or
// else the command that downloads it. The cache is $HF_HUB_CACHE, $HF_HOME/hub or
// ~/.cache/huggingface/hub.
std::string HubAdvice(const std::string& name);

}  // namespace buttress
