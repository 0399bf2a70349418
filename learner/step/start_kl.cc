#include "learner/step/start_kl.h"

#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "lib/base/os/memory.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/exception_status.h"
#include "lib/rl/loss/kl.h"

namespace buttress {
namespace {

at::Tensor LogprobsOf(Transformer& model, const TokenBatch& batch, const PassOptions& options) {
  const at::NoGradGuard no_grad;
  return batch.Run(model, options).output().logprobs_M.to(at::kDouble);
}

Result<double> Measure(Transformer& model, const ModelPathConfig& start, const TokenBatch& batch,
                       const PassOptions& options) {
  const at::Tensor own_M = LogprobsOf(model, batch, options);
  if (model.adapters() != nullptr) {
    const AdaptersOff off(model);
    return KlEstimate(own_M, LogprobsOf(model, batch, options), KlEstimator::kK3)
        .mean()
        .item<double>();
  }
  const at::Device device = model.weights().embedding_VD.device();
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Transformer> reference,
      Transformer::Load(start.path, start.dtype,
                        {!device.is_cpu(), std::max<int>(0, device.index())}, {.stored = true}));
  const at::Tensor start_M = LogprobsOf(*reference, batch, options);
  return KlEstimate(own_M, start_M, KlEstimator::kK3).mean().item<double>();
}

}  // namespace

TokenBatch FirstCompletions(std::span<const FetchedGroup> groups, std::int64_t trained_tokens,
                            std::int64_t pass_tokens) {
  TokenBatch batch;
  for (const FetchedGroup& fetched : groups) {
    const v1::Group& group = fetched.group;
    for (int i = 0; i < fetched.completions(); ++i) {
      const std::int64_t trained = group.head().trained_lengths(i);
      if (trained == 0) continue;
      const std::int64_t tokens = group.prompt_token_ids_size() + group.head().lengths(i);
      const bool fits = batch.trained_tokens() + trained <= trained_tokens &&
                        batch.input_tokens() + tokens <= pass_tokens;
      if (!batch.empty() && !fits) return batch;
      batch.Add(PromptOf(group), TokensOf(group, i), TrainedSpansOf(group, i));
    }
  }
  return batch;
}

Result<double> MeasureStartKl(Transformer& model, const ModelPathConfig& start,
                              const TokenBatch& batch, const PassOptions& options) {
  Result<double> kl = 0.0;
  try {
    kl = Measure(model, start, batch, options);
  } catch (const std::exception& e) {
    kl = StatusOf(e, "lower local.learner.start_kl.tokens, or set local.learner.start_kl.every: 0");
  }
  ReturnFreedMemory();
  return kl;
}

}  // namespace buttress
