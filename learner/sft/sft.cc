#include "learner/sft/sft.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

#include "learner/optimizer/optimizer.h"
#include "learner/rank_device.h"
#include "learner/sft/sft_data.h"
#include "learner/step/context_ranks.h"
#include "learner/step/grad_reducer.h"
#include "learner/step/micro_batch.h"
#include "learner/step/shards.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/checks/learner_memory.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/context_heads.h"
#include "lib/policy/transformer.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {
namespace {

constexpr std::chrono::minutes kCollectiveTimeout{1};

OptimConfig OptimOf(const SftOptions& options) {
  OptimConfig optim;
  optim.lr = options.lr;
  optim.warmup_steps = options.warmup_steps;
  optim.schedule = LrSchedule::kLinear;
  return optim;
}

MicroBatchBound SftBound(const SftOptions& options, const ModelConfig& model) {
  RunSettings run;
  run.model.dtype = options.dtype;
  run.lora = options.lora;
  LearnerConfig learner;
  learner.device = options.device;
  learner.micro_batch_mib = options.micro_batch_mib;
  learner.context_parallel = options.context_parallel;
  learner.expert_parallel = options.expert_parallel;
  return BoundOf(run, learner, model);
}

bool HasWeights(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(JoinPath(folder, "model.safetensors"), error) ||
         std::filesystem::exists(JoinPath(folder, "model.safetensors.index.json"), error);
}

Result<std::unique_ptr<Transformer>> MakeModel(const SftOptions& options, ModelDevice device,
                                               const UnitShare& share) {
  if (HasWeights(options.model)) {
    BUTTRESS_ASSIGN_OR_RETURN(auto model,
                              Transformer::Load(options.model, options.dtype, device, share));
    if (options.lora.on())
      BUTTRESS_RETURN_IF_ERROR(AsInput(StartAdapters(options.lora, options.seed, *model)));
    return model;
  }
  if (options.lora.on()) {
    return InvalidArgument("--lora-rank trains adapters of a model, and " + options.model +
                           " has no weights; leave it out, or name a model that has them");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(options.model));
  return Transformer::Random(config, options.dtype, device, options.seed, share);
}

// The tokens at which samplers stop, with the tokenizer's own first.
Result<std::vector<std::int32_t>> EndTokens(const SftOptions& options, const ModelConfig& config,
                                            const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ends = config.eos_token_ids;
  if (ends.empty())
    return InvalidArgument(options.model +
                           ": config.json has no eos_token_id, so responses would never end");
  const auto own = std::find(ends.begin(), ends.end(), tokenizer.eos_token_id());
  if (own != ends.end()) std::iter_swap(ends.begin(), own);
  return ends;
}

// The rows that are trained, and those that are only measured.
struct SftSets {
  std::vector<SftExample> trained;
  std::vector<SftExample> held_out;
};

void ShowSet(const SftData& data, const char* what, std::int64_t max_tokens) {
  std::size_t sequences = 0;
  for (const auto& row : data.rows) sequences += row.size();
  std::printf("sft: %s: %zu rows, %zu sequences\n", what, data.rows.size(), sequences);
  if (data.dropped > 0)
    std::printf("sft: %zu sequences of more than %lld tokens were left out\n", data.dropped,
                static_cast<long long>(max_tokens));
  if (data.unended > 0)
    std::printf(
        "sft: warning: %lld of %lld turns have no end token of the model, so it does not "
        "learn where to end them; see eos_token_id of config.json\n",
        static_cast<long long>(data.unended), static_cast<long long>(data.turns));
}

Result<SftSets> LoadSets(const SftOptions& options, const ModelConfig& config, bool show) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.model));
  SftDataOptions data = options.data;
  if (data.max_tokens == 0) data.max_tokens = config.max_positions;
  if (data.max_tokens > config.max_positions) {
    return InvalidArgument(c10::str("--max-tokens is ", data.max_tokens, ", but the model has ",
                                    config.max_positions, " positions"));
  }
  data.vocab_size = config.vocab_size;
  BUTTRESS_ASSIGN_OR_RETURN(data.ends, EndTokens(options, config, *tokenizer));
  BUTTRESS_ASSIGN_OR_RETURN(SftData trained, ReadSftData(data, *tokenizer));
  SftData held_out;
  if (!options.held_out.empty()) {
    data.path = options.held_out;
    BUTTRESS_ASSIGN_OR_RETURN(held_out, ReadSftData(data, *tokenizer));
  } else if (options.held_out_share > 0) {
    BUTTRESS_ASSIGN_OR_RETURN(held_out, TakeHeldOut(trained, options.held_out_share, options.seed));
  }
  if (show) {
    ShowSet(trained, "trained", data.max_tokens);
    if (!held_out.rows.empty()) ShowSet(held_out, "held out", data.max_tokens);
  }
  return SftSets{std::move(trained).TakeExamples(), std::move(held_out).TakeExamples()};
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
  SftRun(const SftOptions& options, Collective& control, Collective& tensors, ContextRanks* context,
         Transformer& model, SftSets sets)
      : options_(options),
        optim_(OptimOf(options)),
        bound_(SftBound(options, model.config())),
        control_(control),
        tensors_(tensors),
        context_(context),
        across_(context == nullptr ? control : context->across()),
        model_(model),
        shards_(ShardModel(model, tensors, kCollectiveTimeout)),
        sets_(std::move(sets)),
        indices_(sets_.trained.size(), options.seed),
        optimizer_(model.units(), optim_, options.seed,
                   {.of_parts = DividesOptimizer(options.zero)}),
        reducer_(model.units(), tensors, kCollectiveTimeout) {}

  Status Train() {
    Progress progress(options_.steps);
    const std::int64_t tenth = std::max<std::int64_t>(1, options_.steps / 10);
    const std::int64_t every = options_.eval_every > 0 ? options_.eval_every : tenth;
    BUTTRESS_RETURN_IF_ERROR(ShowHeldOut(0));
    for (std::int64_t step = 1; step <= options_.steps; ++step) {
      if (ShutdownRequested()) return Cancelled("interrupted at step " + std::to_string(step));
      BUTTRESS_RETURN_IF_ERROR(Step(step));
      if (control_.rank() == 0)
        progress.Show(step, loss_, LearningRate(optim_, static_cast<double>(step), options_.steps),
                      batch_tokens_);
      if (step % every == 0 || step == options_.steps) BUTTRESS_RETURN_IF_ERROR(ShowHeldOut(step));
    }
    return OkStatus();
  }

 private:
  // Shows the mean loss over the trained tokens of all held-out rows; every rank takes its share.
  Status ShowHeldOut(std::int64_t step) {
    if (sets_.held_out.empty()) return OkStatus();
    const at::NoGradGuard no_grad;
    double sums[] = {0, 0};  // of losses and of tokens
    std::vector<at::Tensor> logprobs;
    std::vector<const SftExample*> mine;
    for (std::size_t i = 0; i < sets_.held_out.size(); ++i) {
      if (static_cast<int>(i % static_cast<std::size_t>(across_.size())) == across_.rank())
        mine.push_back(&sets_.held_out[i]);
    }
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<TokenBatch> rounds, PackRounds(mine));
    for (const TokenBatch& tokens : rounds) {
      if (ShutdownRequested()) return Cancelled("interrupted at step " + std::to_string(step));
      if (tokens.empty() && !model_.share().weights) continue;
      const ModelPass pass = Run(tokens);
      if (tokens.empty()) continue;
      logprobs.push_back(pass.output().logprobs_M.sum().to(at::kDouble));
      sums[1] += static_cast<double>(tokens.trained_tokens());
    }
    if (!logprobs.empty()) sums[0] = -at::stack(logprobs).sum().item<double>();
    BUTTRESS_RETURN_IF_ERROR(
        across_.AllReduceSum({sums, 2, DType::kFloat64})->Wait(kCollectiveTimeout));
    if (control_.rank() == 0) {
      std::printf("sft: held-out loss %.4f at step %lld (%.0f tokens)\n", sums[0] / sums[1],
                  static_cast<long long>(step), sums[1]);
      std::fflush(stdout);
    }
    return OkStatus();
  }

  // Packs the examples of this rank. All ranks get the same number of rounds, the last of which may
  // be empty.
  Result<std::vector<TokenBatch>> PackRounds(const std::vector<const SftExample*>& mine) {
    std::vector<TokenBatch> rounds;
    for (const SftExample* example : mine) {
      if (rounds.empty() || !Fits(rounds.back(), *example)) rounds.emplace_back();
      rounds.back().Add(example->prompt, example->response, example->trained);
    }
    auto own = static_cast<std::int64_t>(rounds.size());
    std::vector<std::int64_t> all(static_cast<std::size_t>(control_.size()));
    BUTTRESS_RETURN_IF_ERROR(
        control_.AllGather({&own, 1, DType::kInt64}, {all.data(), std::ssize(all), DType::kInt64})
            ->Wait(kCollectiveTimeout));
    rounds.resize(static_cast<std::size_t>(*std::ranges::max_element(all)));
    return rounds;
  }

  ModelPass Run(const TokenBatch& tokens) {
    return (tokens.empty() ? FillerTokens() : tokens).Run(model_, {.context = context_});
  }

  // Returns whether the example may run with the micro-batch.
  bool Fits(const TokenBatch& micro_batch, const SftExample& example) const {
    if (micro_batch.input_tokens() + example.tokens() > options_.micro_batch_tokens) return false;
    if (!bound_.bytes) return true;
    TokenBatch both = micro_batch;
    both.Add(example.prompt, example.response, example.trained);
    return bound_.Holds(both.shape());
  }

  Status Step(std::int64_t step) {
    const std::vector<const SftExample*> mine = DrawBatch();
    reducer_.Clear();
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<TokenBatch> rounds, PackRounds(mine));
    at::Tensor losses;  // their sum, on the device: to read it, the host waits
    for (const TokenBatch& tokens : rounds) Backward(tokens, losses);
    BUTTRESS_RETURN_IF_ERROR(reducer_.Reduce());
    const at::Tensor squared_norm = reducer_.SquaredNorm();
    if (!losses.defined()) losses = at::zeros_like(squared_norm);
    const at::Tensor own = at::stack({losses, squared_norm}).to(at::kCPU);
    loss_ = own.const_data_ptr<double>()[0];
    double norm = own.const_data_ptr<double>()[1];
    BUTTRESS_RETURN_IF_ERROR(
        across_.AllReduceSum({&loss_, 1, DType::kFloat64})->Wait(kCollectiveTimeout));
    BUTTRESS_RETURN_IF_ERROR(
        control_.AllReduceSum({&norm, 1, DType::kFloat64})->Wait(kCollectiveTimeout));
    norm = std::sqrt(norm);
    if (!std::isfinite(norm)) {
      return DataLoss(c10::str("the gradient of step ", step, " is not finite; lower --lr (",
                               options_.lr, ")"));
    }
    if (norm > optim_.clip_grad) reducer_.Scale(optim_.clip_grad / norm);
    return UpdateModel(model_, reducer_, optimizer_,
                       LearningRate(optim_, static_cast<double>(step), options_.steps), tensors_,
                       kCollectiveTimeout);
  }

  // Every rank draws the whole batch, because the denominator counts all of it, and keeps its
  // share.
  std::vector<const SftExample*> DrawBatch() {
    std::vector<const SftExample*> mine;
    trained_tokens_ = batch_tokens_ = 0;
    for (std::int64_t i = 0; i < options_.batch; ++i) {
      const SftExample& example = sets_.trained[indices_.Next()];
      trained_tokens_ += example.trained_tokens();
      batch_tokens_ += example.tokens();
      if (i % across_.size() == across_.rank()) mine.push_back(&example);
    }
    return mine;
  }

  void Backward(const TokenBatch& tokens, at::Tensor& losses) {
    if (tokens.empty() && !model_.share().weights) return reducer_.SkipRound();
    ModelPass pass = Run(tokens);
    const double weight = tokens.empty() ? 0 : 1 / static_cast<double>(trained_tokens_);
    const at::Tensor loss = pass.output().logprobs_M.sum().neg() * weight;
    pass.Backward(pass.GradientOf(loss), reducer_);
    const at::Tensor value = loss.detach().to(at::kDouble);
    losses = losses.defined() ? losses + value : value;
  }

  const SftOptions& options_;
  const OptimConfig optim_;
  const MicroBatchBound bound_;
  Collective& control_;
  Collective& tensors_;
  ContextRanks* const context_;
  Collective& across_;  // one rank of each context group
  Transformer& model_;
  const std::unique_ptr<ShardedUnits> shards_;
  const SftSets sets_;
  ShuffledIndices indices_;
  AdamW optimizer_;
  GradReducer reducer_;
  double loss_ = 0;                  // mean over the trained tokens of the batch
  std::int64_t trained_tokens_ = 0;  // of the batch, over all ranks
  std::int64_t batch_tokens_ = 0;
};

}  // namespace

Status RunSft(const SftOptions& options, Collective& control) {
  if (options.steps < 1 || options.batch < 1)
    return InvalidArgument("--steps and --batch must be at least 1");
  if (options.held_out_share < 0 || options.held_out_share >= 1)
    return InvalidArgument("--held-out-share must be in [0, 1)");
  if (!options.held_out.empty() && options.held_out_share > 0)
    return InvalidArgument("--held-out and --held-out-share exclude each other");
  if (options.zero == ZeroStage::kAuto)
    return InvalidArgument("--zero auto plans runs of `learner`; name a stage, 0 to 3");
  if (options.expert_parallel) {
    if (options.zero != ZeroStage::k3) return InvalidArgument("--expert-parallel needs --zero 3");
    BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(options.model));
    BUTTRESS_RETURN_IF_ERROR(
        CanDivideExperts(config, control.size()).Annotate("--expert-parallel"));
  }
  if (!options.lora.adapter.empty() && !options.lora.on())
    return InvalidArgument("--adapter needs --lora-rank: the rank of the adapter");
  const bool cuda = options.device == ComputeDevice::kCuda;
  BUTTRESS_ASSIGN_OR_RETURN(const RankDevice own,
                            OpenRankDevice({.kind = options.device,
                                            .use_nccl = cuda && control.size() > 1,
                                            .share_gpu = options.share_gpu,
                                            .timeout = kCollectiveTimeout},
                                           control));
  Collective& tensors = own.nccl ? *own.nccl : control;
  if (options.context_parallel > 1) {
    BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(options.model));
    BUTTRESS_RETURN_IF_ERROR(CheckContext(config, options.context_parallel, control.size())
                                 .Annotate("--context-parallel"));
  }
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto context,
      ContextRanks::Form(options.context_parallel, control, tensors, kCollectiveTimeout));
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto model,
      MakeModel(options, own.device, ShareOf(tensors, options.zero, options.expert_parallel)));
  BUTTRESS_ASSIGN_OR_RETURN(SftSets sets, LoadSets(options, model->config(), control.rank() == 0));
  SftRun run(options, control, tensors, context.get(), *model, std::move(sets));
  BUTTRESS_RETURN_IF_ERROR(run.Train());
  if (context != nullptr) BUTTRESS_RETURN_IF_ERROR(context->End());
  const bool writes = control.rank() == 0;
  const bool gives_parts = model->share().weights;
  // A large model takes longer to write than ranks may wait in a collective, so those that give
  // parts leave after the last of them without End.
  if (own.nccl && !gives_parts) BUTTRESS_RETURN_IF_ERROR(own.nccl->End());
  if (!writes && !gives_parts) return OkStatus();
  return SaveModelFolder(*model, options.model, options.out, writes);
}

}  // namespace buttress
