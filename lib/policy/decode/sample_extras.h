// What a sample may ask for beyond the sampling of a run. Without torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace buttress {

// Lower, or raise, the logits of tokens that are there already; as in vLLM, before the temperature.
struct Penalties {
  // Of a token of the prompt or the completion: divides a positive logit and multiplies another
  // (Keskar et al., "CTRL", arXiv 1909.05858, section 4.1). Above 0.
  double repetition = 1;
  double presence = 0;   // is subtracted from the logit of a token that the completion has
  double frequency = 0;  // the same for each time that it has it

  bool operator==(const Penalties&) const = default;
};

// Applies them to logits, one for each token of the vocabulary. REQUIRES: it has all tokens.
void Penalize(const Penalties& penalties, std::span<const std::int32_t> prompt,
              std::span<const std::int32_t> completion, std::vector<float>& logits);

struct TokenLogprob {
  std::int32_t token = -1;
  float logprob = 0;  // nats
};

// A token of a prompt under the distribution of the model, at temperature 1.
struct PromptLogprob {
  float logprob = 0;              // nats
  std::int32_t rank = 1;          // 1: no token is more probable
  std::vector<TokenLogprob> top;  // the most probable tokens, in decreasing order
};

struct SampleExtras {
  Penalties penalties;
  // The number of tokens whose log-probs come with each sampled token, under the distribution that
  // it was sampled from: the most probable ones, and fewer where top_k and top_p keep fewer.
  std::int32_t top_logprobs = 0;
  // The number of those that come with each token of the prompt but the first; -1: nothing does.
  std::int32_t prompt_logprobs = -1;

  bool operator==(const SampleExtras&) const = default;
};

}  // namespace buttress
