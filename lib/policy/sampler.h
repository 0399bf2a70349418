// Draws one token from each row of logits by inverse CDF of a given uniform number. Torch-free.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/experience/types.h"
#include "lib/policy/cpu/layer_kernels.h"

namespace buttress {

struct SampledToken {
  std::int32_t token = -1;  // -1: the logits hold a value that is not a number, or +infinity
  float logprob =
      // nats, under the distribution that was drawn from; greedy: under softmax at temperature 1
      0;
};

// Not thread-safe; keeps its scratch memory between rows.
class Sampler {
 public:
  // logits [V]; `uniform` in [0, 1). Temperature scales first, then the top_k most probable tokens
  // are kept, then of those the fewest whose mass reaches top_p (ties go to the smaller id), as
  // transformers and vLLM do. Temperature 0 takes the most probable token.
  SampledToken Sample(const float* logits, std::int64_t V, const SamplingParams& params,
                      double uniform);
  SampledToken Sample(const Bf16* logits, std::int64_t V, const SamplingParams& params,
                      double uniform);

 private:
  template <class T>
  SampledToken SampleRow(const T* logits, std::int64_t V, const SamplingParams& params,
                         double uniform);

  // From weights_ and sums_, of sum `total`: the most probable token; any; or one that top_k and
  // top_p keep.
  SampledToken TakeBest(double total) const;
  SampledToken DrawAny(double total, double uniform) const;
  SampledToken DrawKept(const SamplingParams& params, double total, double uniform);

  std::vector<float> weights_;       // [V] exp((logit - max) / temperature)
  std::vector<double> sums_;         // of runs of weights
  std::vector<std::int32_t> order_;  // token ids, the most probable first as far as sorted
};

}  // namespace buttress
