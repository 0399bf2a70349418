#include "rollout_worker/evaluation/reference_model.h"

#include <torch/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/collectives/cuda_library.h"
#include "lib/policy/logprobs.h"
#include "lib/policy/model_config.h"
#include "lib/policy/transformer.h"

namespace buttress {
namespace {

constexpr std::int64_t kPassTokens = 16384;  // of one forward pass, or one completion

// A prompt and completions that continue it, packed into one forward pass.
class Pass {
 public:
  explicit Pass(const std::vector<std::int32_t>& prompt)
      : tokens_(prompt.begin(), prompt.end()),
        lengths_{static_cast<std::int64_t>(prompt.size())},
        prefixes_{-1},
        prompt_(lengths_[0]) {}

  void Add(const std::vector<std::int32_t>& completion) {
    const auto first = static_cast<std::int64_t>(tokens_.size());
    for (std::size_t t = 0; t < completion.size(); ++t) {
      predicting_.push_back(t == 0 ? prompt_ - 1 : first + static_cast<std::int64_t>(t) - 1);
      targets_.push_back(completion[t]);
    }
    tokens_.insert(tokens_.end(), completion.begin(), completion.end());
    lengths_.push_back(static_cast<std::int64_t>(completion.size()));
    prefixes_.push_back(0);
  }

  std::int64_t tokens() const { return static_cast<std::int64_t>(tokens_.size()); }

  void Run(Transformer& model, double temperature, ReferenceSums& sums) const {
    if (targets_.empty()) return;
    const at::Tensor hidden =
        model.Hidden(torch::tensor(tokens_, torch::kInt64), lengths_, prefixes_);
    const at::Tensor rows = torch::tensor(predicting_, torch::kInt64).to(hidden.device());
    const TokenLogprobs scores =
        ScoreTokens(model, hidden.index_select(0, rows), torch::tensor(targets_, torch::kInt64),
                    {.temperature = temperature, .entropy = EntropyMode::kDetached});
    sums.logprob += scores.logprobs_M.to(at::kDouble).sum().item<double>();
    sums.entropy += scores.entropy_M.to(at::kDouble).sum().item<double>();
  }

 private:
  std::vector<std::int64_t> tokens_, lengths_, prefixes_, predicting_, targets_;
  std::int64_t prompt_;
};

class LoadedReference : public ReferenceModel {
 public:
  explicit LoadedReference(std::unique_ptr<Transformer> model) : model_(std::move(model)) {}

  Result<ReferenceSums> Read(const Prompt& prompt, std::span<const SampledCompletion> completions,
                             double temperature) override {
    const c10::InferenceMode inference;
    const auto prompt_tokens = static_cast<std::int64_t>(prompt.token_ids.size());
    ReferenceSums sums;
    Pass pass(prompt.token_ids);
    for (const SampledCompletion& one : completions) {
      const auto length = static_cast<std::int64_t>(one.token_ids.size());
      if (length == 0) continue;
      if (prompt_tokens + length > model_->config().max_positions) {
        return InvalidArgument("--reference has " + std::to_string(model_->config().max_positions) +
                               " positions; expected " + std::to_string(prompt_tokens + length) +
                               " or more, for prompt " + prompt.id + " and its completion");
      }
      if (pass.tokens() + length > kPassTokens) {
        pass.Run(*model_, temperature, sums);
        pass = Pass(prompt.token_ids);
      }
      pass.Add(one.token_ids);
    }
    pass.Run(*model_, temperature, sums);
    return sums;
  }

 private:
  const std::unique_ptr<Transformer> model_;
};

}  // namespace

Result<std::unique_ptr<ReferenceModel>> LoadReferenceModel(const std::string& folder,
                                                           const ModelPathConfig& model,
                                                           const WorkerConfig& worker) {
  BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig own, LoadModelConfig(model.path));
  const auto config = LoadModelConfig(folder);
  BUTTRESS_RETURN_IF_ERROR(AsInput(config.status()).Annotate("--reference"));
  if (config->vocab_size != own.vocab_size) {
    return InvalidArgument("--reference " + folder + " has " + std::to_string(config->vocab_size) +
                           " tokens and run.model.path " + std::to_string(own.vocab_size) +
                           "; expected a model with the same tokenizer");
  }
  ModelDevice device{.cuda = worker.device == ComputeDevice::kCuda, .index = 0};
  if (device.cuda) {
    BUTTRESS_ASSIGN_OR_RETURN(device.index,
                              OpenGpu(worker.gpu, "probe", "--set local.worker.device=cpu"));
  }
  auto loaded = Transformer::Load(folder, model.dtype, device);
  BUTTRESS_RETURN_IF_ERROR(AsInput(loaded.status()).Annotate("--reference"));
  return std::unique_ptr<ReferenceModel>(std::make_unique<LoadedReference>(*std::move(loaded)));
}

}  // namespace buttress
