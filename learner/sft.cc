#include "learner/sft.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "learner/grad_reducer.h"
#include "learner/optimizer.h"
#include "learner/rank_device.h"
#include "learner/sft_data.h"
#include "learner/token_batch.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/shutdown.h"
#include "lib/policy/transformer.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {
namespace {

constexpr std::chrono::minutes kCollectiveTimeout{1};
constexpr std::int64_t kChunkRows = 1024;

OptimConfig OptimOf(const SftOptions& options) {
  OptimConfig optim;
  optim.lr = options.lr;
  optim.warmup_steps = options.warmup_steps;
  optim.schedule = LrSchedule::kLinear;
  return optim;
}

bool HasWeights(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(JoinPath(folder, "model.safetensors"), error) ||
         std::filesystem::exists(JoinPath(folder, "model.safetensors.index.json"), error);
}

Result<std::unique_ptr<Transformer>> MakeModel(const SftOptions& options, ModelDevice device) {
  if (HasWeights(options.model)) return Transformer::Load(options.model, options.dtype, device);
  BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(options.model));
  return Transformer::Random(config, options.dtype, device, options.seed);
}

Result<std::int32_t> EndToken(const SftOptions& options, const ModelConfig& config,
                              const Tokenizer& tokenizer) {
  const auto& ends = config.eos_token_ids;
  const std::int32_t own = tokenizer.eos_token_id();
  if (own >= 0 && std::find(ends.begin(), ends.end(), own) != ends.end()) return own;
  if (!ends.empty()) return ends.front();
  return InvalidArgument(options.model +
                         ": config.json has no eos_token_id, so responses would never end");
}

Result<std::vector<SftExample>> LoadExamples(const SftOptions& options, const ModelConfig& config) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.model));
  SftDataOptions data;
  data.path = options.data;
  data.prompt_field = options.prompt_field;
  data.response_field = options.response_field;
  data.max_tokens = config.max_positions;
  data.vocab_size = config.vocab_size;
  BUTTRESS_ASSIGN_OR_RETURN(data.eos_token_id, EndToken(options, config, *tokenizer));
  return ReadSftExamples(data, *tokenizer);
}

class Progress {
 public:
  explicit Progress(std::int64_t steps) : steps_(steps) {}

  void Show(std::int64_t step, double loss, double lr, std::int64_t tokens) {
    tokens_ += tokens;
    const double now = MonotonicSeconds();
    constexpr double kEverySeconds = 2;
    if (step != steps_ && now - shown_ < kEverySeconds) return;
    shown_ = now;
    const double seconds = now - started_;
    const double left = seconds / static_cast<double>(step) * static_cast<double>(steps_ - step);
    std::printf("sft: step %lld/%lld %3.0f%%  loss %.4f  lr %.2e  %.0f tok/s  left %.0fs\n",
                static_cast<long long>(step), static_cast<long long>(steps_),
                100.0 * static_cast<double>(step) / static_cast<double>(steps_), loss, lr,
                static_cast<double>(tokens_) / seconds, left);
    std::fflush(stdout);
  }

 private:
  const std::int64_t steps_;
  const double started_ = MonotonicSeconds();
  double shown_ = started_;
  std::int64_t tokens_ = 0;
};

class SftRun {
 public:
  // `control` carries bytes on the CPU, `tensors` gradients.
  SftRun(const SftOptions& options, Collective& control, Collective& tensors, Transformer& model,
         std::vector<SftExample> examples)
      : options_(options),
        optim_(OptimOf(options)),
        control_(control),
        model_(model),
        examples_(std::move(examples)),
        indices_(examples_.size(), options.seed),
        optimizer_(model.units(), optim_, options.seed),
        reducer_(model.units(), tensors, kCollectiveTimeout) {}

  Status Train() {
    Progress progress(options_.steps);
    for (std::int64_t step = 1; step <= options_.steps; ++step) {
      if (ShutdownRequested()) return Cancelled("interrupted at step " + std::to_string(step));
      BUTTRESS_RETURN_IF_ERROR(Step(step));
      if (control_.rank() == 0)
        progress.Show(step, loss_, LearningRate(optim_, static_cast<double>(step), options_.steps),
                      batch_tokens_);
    }
    return OkStatus();
  }

 private:
  Status Step(std::int64_t step) {
    const std::vector<const SftExample*> mine = DrawBatch();
    reducer_.Clear();
    loss_ = 0;
    TokenBatch micro_batch;
    for (const SftExample* example : mine) {
      const auto more =
          static_cast<std::int64_t>(example->prompt.size() + example->response.size());
      if (!micro_batch.empty() && micro_batch.input_tokens() + more > options_.micro_batch_tokens)
        Backward(micro_batch);
      micro_batch.Add(example->prompt, example->response, {});
    }
    if (!micro_batch.empty()) Backward(micro_batch);
    BUTTRESS_RETURN_IF_ERROR(reducer_.Reduce());
    BUTTRESS_RETURN_IF_ERROR(
        control_.AllReduceSum({&loss_, 1, DType::kFloat64})->Wait(kCollectiveTimeout));
    const double norm = reducer_.Norm();
    if (!std::isfinite(norm)) {
      return DataLoss(c10::str("the gradient of step ", step, " is not finite; lower --lr (",
                               options_.lr, ")"));
    }
    if (norm > optim_.clip_grad) reducer_.Scale(optim_.clip_grad / norm);
    optimizer_.Step(reducer_.gradients(),
                    LearningRate(optim_, static_cast<double>(step), options_.steps));
    return OkStatus();
  }

  // Every rank draws the whole batch, because the denominator counts all of it, and keeps its
  // share.
  std::vector<const SftExample*> DrawBatch() {
    std::vector<const SftExample*> mine;
    trained_tokens_ = batch_tokens_ = 0;
    for (std::int64_t i = 0; i < options_.batch; ++i) {
      const SftExample& example = examples_[indices_.Next()];
      trained_tokens_ += static_cast<std::int64_t>(example.response.size());
      batch_tokens_ += static_cast<std::int64_t>(example.prompt.size() + example.response.size());
      if (i % control_.size() == control_.rank()) mine.push_back(&example);
    }
    return mine;
  }

  void Backward(TokenBatch& micro_batch) {
    ModelPass pass = micro_batch.Run(model_, {1.0, kChunkRows, EntropyMode::kNone});
    const at::Tensor loss =
        pass.output().logprobs_M.sum().neg() / static_cast<double>(trained_tokens_);
    pass.Backward(pass.GradientOf(loss), reducer_);
    loss_ += loss.item<double>();
    micro_batch = TokenBatch();
  }

  const SftOptions& options_;
  const OptimConfig optim_;
  Collective& control_;
  Transformer& model_;
  const std::vector<SftExample> examples_;
  ShuffledIndices indices_;
  AdamW optimizer_;
  GradReducer reducer_;
  double loss_ = 0;                  // mean over the response tokens of the batch
  std::int64_t trained_tokens_ = 0;  // response tokens of the batch, over all ranks
  std::int64_t batch_tokens_ = 0;
};

}  // namespace

Status RunSft(const SftOptions& options, Collective& control) {
  if (options.steps < 1 || options.batch < 1)
    return InvalidArgument("--steps and --batch must be at least 1");
  const bool cuda = options.device == ComputeDevice::kCuda;
  BUTTRESS_ASSIGN_OR_RETURN(const RankDevice own,
                            OpenRankDevice({.kind = options.device,
                                            .use_nccl = cuda && control.size() > 1,
                                            .share_gpu = options.share_gpu,
                                            .timeout = kCollectiveTimeout},
                                           control));
  Collective& tensors = own.nccl ? *own.nccl : control;
  BUTTRESS_ASSIGN_OR_RETURN(const auto model, MakeModel(options, own.device));
  BUTTRESS_ASSIGN_OR_RETURN(auto examples, LoadExamples(options, model->config()));
  BUTTRESS_RETURN_IF_ERROR(SftRun(options, control, tensors, *model, std::move(examples)).Train());
  if (own.nccl) BUTTRESS_RETURN_IF_ERROR(own.nccl->End());
  if (control.rank() != 0) return OkStatus();
  return SaveModelFolder(*model, options.model, options.out);
}

}  // namespace buttress
