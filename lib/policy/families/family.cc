#include "lib/policy/families/family.h"

#include <array>

namespace buttress {

std::span<const Family> Families() {
  static constexpr std::array<Family, 7> kFamilies = {{
      {"Qwen2ForCausalLM", "qwen2", "Qwen2, Qwen2.5", ReadQwen2},
      {"Qwen3ForCausalLM", "qwen3", "Qwen3 (dense)", ReadQwen3},
      {"Qwen3MoeForCausalLM", "qwen3_moe", "Qwen3 (mixture of experts)", ReadQwen3Moe},
      {"LlamaForCausalLM", "llama", "Llama 2, 3, 3.1, 3.2 (text), 3.3", ReadLlama},
      {"MistralForCausalLM", "mistral", "Mistral 7B", ReadMistral},
      {"Gemma2ForCausalLM", "gemma2", "Gemma 2", ReadGemma2},
      {"Gemma3ForCausalLM", "gemma3_text", "Gemma 3 (text)", ReadGemma3},
  }};
  return kFamilies;
}

}  // namespace buttress
