// Names of Hugging Face's hub where a model folder is expected.
#pragma once

#include <string>

namespace buttress {

// Returns the hub name that `path`, which is no folder, was probably meant as, or an empty text. A
// hub name has two words of letters, digits, '-', '_' and '.' with one slash between them. The path
// is one, "Qwen/Qwen2.5-0.5B", or became absolute when the configuration was read: then its last
// two words are one, the folder of the first does not exist, and the one around it does and
// is not the root.
std::string HubNameOf(const std::string& path);

// Says where the model of a hub name is: the newest snapshot in the cache of huggingface_hub, or
// else the command that downloads it. The cache is $HF_HUB_CACHE, $HF_HOME/hub or
// ~/.cache/huggingface/hub.
std::string HubAdvice(const std::string& name);

}  // namespace buttress
