// Samples tokens from logits by inverting the cumulative distribution at a uniform random number.
// Without torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/experience/types.h"
#include "lib/policy/decode/sample_extras.h"

namespace buttress {

struct SampledToken {
  std::int32_t token = -1;  // -1 if a logit is NaN or +infinity
  float logprob = 0;  // under the distribution sampled from, in nats; at temperature 1 if greedy
};

// What a distribution says of a token: the log-prob that Sampler gives it where it keeps all
// tokens, bit by bit, the logarithm of the sum that it is divided by, and the entropy, in nats.
struct TokenScore {
  float logprob = 0;
  float logsum = 0;
  float entropy = 0;
};

// Scores `token` under softmax(logits [V] / temperature). `weights` has room for V values. NaN if a
// logit is NaN or +infinity.
TokenScore ScoreToken(const float* logits, std::int64_t V, double temperature, std::int64_t token,
                      std::vector<float>& weights);

// Keeps its scratch memory between rows. Not thread-safe.
class Sampler {
 public:
  // Samples from logits [V] with `uniform` in [0, 1). As in transformers and vLLM, divides by the
  // temperature, then keeps the top_k most probable tokens, then the fewest of those whose
  // probabilities sum to top_p; ties keep the smaller id. Temperature 0 selects the most probable
  // token. The logits of `masked` tokens, ids below V, count as -infinity before all that.
  SampledToken Sample(const float* logits, std::int64_t V, const SamplingParams& params,
                      double uniform, std::span<const std::int32_t> masked = {});

  // Returns the `most` most probable tokens of the distribution of the last call of Sample, in
  // decreasing order, ties by id; fewer where it keeps fewer. REQUIRES: that call found a token.
  std::vector<TokenLogprob> Top(std::int32_t most);

 private:
  // The order of Top.
  bool IsBefore(std::int32_t a, std::int32_t b) const;

  // Select from weights_ and sums_, which sum to `total`: the most probable token, any token, or
  // one that top_k and top_p keep.
  SampledToken SelectBest(double total) const;
  SampledToken DrawAny(double total, double uniform) const;
  SampledToken DrawKept(const SamplingParams& params, double total, double uniform);

  std::vector<float> logits_;        // [V] a row with masked tokens
  std::vector<float> weights_;       // [V] exp((logit - max) / temperature)
  std::vector<double> sums_;         // of each kSumRun weights
  std::vector<std::int32_t> order_;  // token ids; a prefix is sorted by decreasing probability
  std::int64_t kept_ = 0;            // tokens of the distribution: a prefix of order_, or all
  double mass_ = 0;                  // of their weights
};

}  // namespace buttress
