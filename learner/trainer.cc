#include "learner/trainer.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "learner/step/start_kl.h"
#include "learner/step/token_marks.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/memory.h"
#include "lib/base/report/log.h"
#include "lib/checks/learner_memory.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/device_copy.h"
#include "lib/policy/exception_status.h"
#include "lib/policy/weights/finite_check.h"
#include "lib/rl/loss/kl.h"

namespace buttress {
namespace {

// The first byte of what rank 0 broadcasts while the other ranks wait for a plan.
constexpr char kPlanFollows = 's';
constexpr char kStillWaiting = 'w';
constexpr char kRunFinished = 'f';
constexpr char kRunStopped = 'o';
constexpr char kStopRequested = 'x';

// Rank 0 broadcasts at least this often, so that the timeout of the collective detects its death.
constexpr std::chrono::milliseconds kPlanPoll{500};

// Plans of a step, each with other groups in the places of damaged ones.
constexpr int kMaxPlans = 10;

// Adds the seconds of its life to `seconds`, whatever the device does meanwhile.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}

  ~Stopwatch() { seconds_ += MonotonicSeconds() - started_; }

  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  const double started_ = MonotonicSeconds();
};

}  // namespace

std::string SizesToLower(const LearnerConfig& local) {
  return c10::str("lower local.learner.micro_batch_tokens (", local.micro_batch_tokens,
                  ") or micro_batch_mib (", local.micro_batch_mib,
                  local.micro_batch_mib == 0 ? ": no bound" : "", "), ",
                  local.recompute == Recompute::kBlock ? "raise local.learner.context_parallel, "
                                                       : "set local.learner.recompute: block, ",
                  "set run.optim.precision: stochastic, or set local.learner.zero: auto with more "
                  "ranks");
}

Trainer::Trainer(TrainerOptions options, Transformer& model, Transformer* reference,
                 Collective& control, Collective& tensors, BatchSource& source)
    : options_(std::move(options)),
      assignment_options_{options_.run, options_.learner.micro_batch_tokens,
                          options_.context ? options_.context->across().size() : control.size(),
                          BoundOf(options_.run, options_.learner, model.config())},
      timeout_(options_.learner.collective_timeout_ms),
      model_(model),
      reference_(reference),
      control_(control),
      across_(options_.context ? options_.context->across() : control),
      tensors_(tensors),
      source_(source),
      model_shards_(ShardModel(model, tensors, timeout_)),
      reference_shards_(reference == nullptr || reference == &model
                            ? nullptr
                            : ShardModel(*reference, tensors, timeout_)),
      reducer_(model.units(), tensors, timeout_),
      optimizer_(model.units(), options_.run.optim, options_.run.seed,
                 {DividesOptimizer(options_.learner.zero), options_.learner.offload,
                  options_.state_folder}),
      phases_(model.units().front().flat.device()) {
  BUTTRESS_CHECK(options_.run.algorithm.kl_coef == 0 || reference != nullptr,
                 "kl_coef > 0 needs the start model");
}

Result<StepState> Trainer::Step(std::int64_t step, const std::function<bool()>& stop_requested) {
  StepState state;
  state.step = step;
  state.measured.step = static_cast<double>(step);
  phases_.Reset();
  try {
    BUTTRESS_RETURN_IF_ERROR(Run(stop_requested, state).Annotate(c10::str("step ", step)));
    phases_.Settle();
  } catch (const std::exception& e) {
    return StatusOf(e, SizesToLower(options_.learner)).Annotate(c10::str("step ", step));
  }
  return state;
}

Status Trainer::Run(const std::function<bool()>& stop_requested, StepState& state) {
  BUTTRESS_RETURN_IF_ERROR(AgreeOnBatch(stop_requested, state));
  if (state.end != StepEnd::kTrained) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(SubtractKlFromRewards(state));
  BUTTRESS_RETURN_IF_ERROR(MarkCovarianceTokens(state));
  KeepLogprobs(state);
  BUTTRESS_RETURN_IF_ERROR(MakeUpdates(state));
  MeasureDrift(state);
  BUTTRESS_RETURN_IF_ERROR(SumUp(state));
  return Commit(state);
}

// Agrees on a plan and fetches its groups. While damaged groups of the plan are replaced, it is
// asked for again.
Status Trainer::AgreeOnBatch(const std::function<bool()>& stop_requested, StepState& state) {
  for (int plans = 0; plans < kMaxPlans; ++plans) {
    BUTTRESS_RETURN_IF_ERROR(AgreeOnPlan(stop_requested, state));
    if (state.end != StepEnd::kTrained) return OkStatus();
    ReturnFreedMemory();
    BUTTRESS_ASSIGN_OR_RETURN(const bool is_whole, Fetch(state));
    if (is_whole) return OkStatus();
    state.groups.clear();
  }
  return DataLoss(c10::str("the groups of ", kMaxPlans,
                           " plans of the step could not be read; fix the disk of the coordinator, "
                           "or restore a backup"));
}

// Returns once every rank has come so far, so that a collective after it takes its own time only.
Status Trainer::WaitForPeers(StepState& state) {
  if (control_.size() == 1) return OkStatus();
  const Stopwatch watch(state.measured.seconds_wait_peers);
  std::int64_t here = 1;
  return control_.AllReduceSum({&here, 1, DType::kInt64})->Wait(timeout_).Annotate("peers");
}

Status Trainer::AgreeOnPlan(const std::function<bool()>& stop_requested, StepState& state) {
  BUTTRESS_RETURN_IF_ERROR(WaitForPeers(state));
  const Stopwatch watch(state.measured.seconds_wait);
  const double since = MonotonicSeconds();
  std::string message(1, kStillWaiting);
  while (message.front() == kStillWaiting) {
    std::int64_t requests = stop_requested() ? 1 : 0;
    BUTTRESS_RETURN_IF_ERROR(
        control_.AllReduceSum({&requests, 1, DType::kInt64})->Wait(timeout_).Annotate("stop"));
    if (requests > 0) {
      state.end = StepEnd::kStopped;
      return OkStatus();
    }
    if (control_.rank() == 0) {
      BUTTRESS_ASSIGN_OR_RETURN(message, AskForPlan(state));
      if (message.front() == kStillWaiting)
        BUTTRESS_RETURN_IF_ERROR(while_waiting_(MonotonicSeconds() - since));
    }
    BUTTRESS_ASSIGN_OR_RETURN(message, BroadcastBytes(control_, std::move(message), 0, timeout_));
    if (message.empty())
      return DataLoss("rank 0 broadcast an empty plan; start all ranks from the same build");
  }
  if (message.front() == kRunFinished) state.end = StepEnd::kFinished;
  if (message.front() == kRunStopped) state.end = StepEnd::kRunStopped;
  if (message.front() == kStopRequested) state.end = StepEnd::kStopped;
  if (state.end != StepEnd::kTrained) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(state.assignment,
                            DecodeAssignment(std::string_view(message).substr(1)));
  state.measured.entropy_coef = state.assignment.entropy_coef;
  return OkStatus();
}

// Returns what rank 0 broadcasts: one of the bytes above, and the encoded plan after kPlanFollows.
Result<std::string> Trainer::AskForPlan(StepState& state) {
  auto reply = source_.Plan(state.step, kPlanPoll);
  if (reply.status().code() == StatusCode::kCancelled) return std::string(1, kStopRequested);
  if (!reply.ok()) return reply.status();
  if (reply->stopping) return std::string(1, kRunStopped);
  if (!reply->plan) return std::string(1, reply->finished ? kRunFinished : kStillWaiting);
  state.plan = *std::move(reply->plan);
  state.measured.over_long_prompts = static_cast<double>(reply->over_long_prompts);
  BUTTRESS_ASSIGN_OR_RETURN(Assignment assignment, AssignStep(state.plan, assignment_options_,
                                                              state_.gate, state.summary));
  assignment.entropy_coef = EntropyCoef(state_.entropy, options_.run.algorithm);
  return kPlanFollows + EncodeAssignment(assignment);
}

// Returns whether every rank has its groups; false if the plan has changed meanwhile.
Result<bool> Trainer::Fetch(StepState& state) {
  const Stopwatch watch(state.measured.seconds_fetch);
  const Status status = FetchGroups(source_, across_.rank(), state);
  const bool changed = status.code() == StatusCode::kAborted;
  if (!status.ok() && !changed) return status;
  if (changed) Log(kWarn, "the plan has changed", {{"why", status.message()}});
  std::int64_t changes = changed ? 1 : 0;
  BUTTRESS_RETURN_IF_ERROR(
      control_.AllReduceSum({&changes, 1, DType::kInt64})->Wait(timeout_).Annotate("fetch"));
  return changes == 0;
}

// reward -= kl_coef * KL(sampling policy || start model), summed over the completion (Ouyang et
// al., arXiv 2203.02155, Eq 2). The placement of the new assignment is that of the old one, because
// with a KL coefficient every group is run, whatever its rewards.
Status Trainer::SubtractKlFromRewards(StepState& state) {
  const AlgorithmConfig& algorithm = options_.run.algorithm;
  if (algorithm.kl_in != KlPlace::kReward) return OkStatus();
  {
    const AdaptersOff start(*reference_);
    state.reference_logprobs = LogprobsOf(*reference_, state);
  }
  std::vector<double> kl = ReferenceKl(state);
  const Stopwatch watch(state.measured.seconds_reduce);
  const Buffer sums{kl.data(), static_cast<std::int64_t>(kl.size()), DType::kFloat64};
  BUTTRESS_RETURN_IF_ERROR(across_.AllReduceSum(sums)->Wait(timeout_).Annotate("sum of KL"));
  std::string bytes;
  if (control_.rank() == 0) {
    for (double& penalty : kl) penalty *= algorithm.kl_coef;
    BUTTRESS_ASSIGN_OR_RETURN(Assignment assignment, AssignStep(state.plan, assignment_options_,
                                                                state_.gate, state.summary, kl));
    assignment.entropy_coef = state.assignment.entropy_coef;
    bytes = EncodeAssignment(assignment);
  }
  BUTTRESS_ASSIGN_OR_RETURN(bytes, BroadcastBytes(control_, std::move(bytes), 0, timeout_));
  BUTTRESS_ASSIGN_OR_RETURN(state.assignment, DecodeAssignment(bytes));
  return OkStatus();
}

// Returns the KL estimates of this rank's completions, [N] by row.
std::vector<double> Trainer::ReferenceKl(const StepState& state) const {
  std::vector<double> kl(state.assignment.advantages.size(), 0.0);
  for (const FetchedGroup& fetched : state.groups) {
    for (int i = 0; i < fetched.completions(); ++i) {
      const std::size_t row = fetched.row(i);
      const auto reference = state.reference_logprobs.find(row);
      if (reference == state.reference_logprobs.end()) continue;
      std::vector<float> sampler;
      AppendTrainedLogprobs(fetched.group, i, sampler);
      const at::Tensor sampler_T = torch::tensor(sampler);
      const at::Tensor estimate_T = KlEstimate(sampler_T, torch::tensor(reference->second),
                                               options_.run.algorithm.kl_estimator);
      kl[row] =
          at::where(at::isfinite(sampler_T), estimate_T.to(at::kDouble), 0.0).sum().item<double>();
    }
  }
  return kl;
}

// Returns the log-probs of all completions that are run, under `model` as it is.
RowLogprobs Trainer::LogprobsOf(Transformer& model, StepState& state) const {
  const PhaseTimer::Span span(phases_, state.measured.seconds_forward);
  std::vector<std::pair<std::size_t, std::int64_t>> rows;  // with their tokens
  std::vector<at::Tensor> parts;
  for (std::int32_t update = 0; update < state.assignment.updates(); ++update) {
    for (std::int32_t round = 0; round < state.assignment.rounds_of(update); ++round) {
      const MicroBatch batch = GatherMicroBatch(state, update, round);
      if (batch.tokens.empty()) {
        if (model.share().weights) LogprobsOf(model, FillerTokens());
        continue;
      }
      parts.push_back(LogprobsOf(model, batch.tokens).to(at::kFloat));
      for (std::size_t i = 0; i < batch.rows.size(); ++i)
        rows.emplace_back(batch.rows[i], batch.lengths[i]);
    }
  }
  RowLogprobs logprobs;
  if (parts.empty()) return logprobs;
  const at::Tensor all = at::cat(parts).to(at::kCPU);  // one wait for the device
  const float* next = all.const_data_ptr<float>();
  for (const auto& [row, tokens] : rows) {
    logprobs.try_emplace(row, next, next + tokens);
    next += tokens;
  }
  return logprobs;
}

// Keeps what several updates read and what only the first could compute, or would compute again.
void Trainer::KeepLogprobs(StepState& state) const {
  const bool several = SeveralUpdates(options_.run.batch);
  if (several && options_.run.algorithm.old_policy == OldPolicy::kLearner)
    state.old_logprobs = LogprobsOf(model_, state);
  if (options_.run.batch.epochs > 1 && KlLossCoef(options_.run.algorithm) > 0) {
    const AdaptersOff start(*reference_);
    state.reference_logprobs = LogprobsOf(*reference_, state);
  }
}

// Covariances are over all completions of the step in the loss, those of groups that are not run
// included.
Status Trainer::MarkCovarianceTokens(StepState& state) {
  if (!MarksTokens(options_.run.algorithm.loss)) return OkStatus();
  std::vector<MarkedRow> rows;
  for (const FetchedGroup& fetched : state.groups) {
    for (int i = 0; i < fetched.completions(); ++i) {
      const std::size_t row = fetched.row(i);
      if (state.assignment.token_weights[row] == 0) continue;
      MarkedRow& marked = rows.emplace_back(
          MarkedRow{static_cast<std::int64_t>(row), state.assignment.advantages[row], {}});
      AppendTrainedLogprobs(fetched.group, i, marked.logprobs);
    }
  }
  const RandomKey key{MixSeed(options_.run.seed, HashText("token marks")),
                      static_cast<std::uint64_t>(state.step)};
  BUTTRESS_ASSIGN_OR_RETURN(auto marks,
                            MarkTokens(rows, options_.run.algorithm, key, across_, timeout_));
  for (std::size_t i = 0; i < rows.size(); ++i)
    state.marks[static_cast<std::size_t>(rows[i].row)] = std::move(marks[i]);
  return OkStatus();
}

// Goes through the mini-batches, one update each, epoch after epoch.
Status Trainer::MakeUpdates(StepState& state) {
  for (const FetchedGroup& fetched : state.groups) {
    state.sums.AddGroup(fetched.group);
    for (int i = 0; i < fetched.completions(); ++i) {
      const std::size_t row = fetched.row(i);
      if (state.assignment.micro_batch[row] >= 0 && state.assignment.token_weights[row] != 0)
        state.sums.AddAges(fetched.group, i, state.step);
    }
  }
  const std::int64_t updates = state.assignment.updates();
  const std::int64_t planned = updates * options_.run.batch.epochs;
  for (std::int64_t n = 0; n < planned; ++n) {
    const LossSums sums = ForwardBackward(state, static_cast<std::int32_t>(n % updates));
    ++state.updates_run;
    BUTTRESS_ASSIGN_OR_RETURN(const Gradient gradient, Reduce(sums, state));
    const double kl_stop = options_.run.batch.kl_stop;
    if (n > 0 && kl_stop > 0 && gradient.old_kl > kl_stop) {
      state.measured.updates_stopped = static_cast<double>(planned - n);
      break;
    }
    const double done = static_cast<double>(n + 1) / static_cast<double>(planned);
    BUTTRESS_RETURN_IF_ERROR(Update(gradient, done, state));
  }
  if (state.measured.updates > 0) BUTTRESS_RETURN_IF_ERROR(CheckWeights(state));
  // A mini-batch without a completion to run has the gradient 0, which says nothing.
  const double skipped = state.measured.skipped, said_nothing = state.measured.zero_gradient;
  const bool all = skipped > 0 && skipped + said_nothing == static_cast<double>(state.updates_run);
  state_.skipped_in_a_row = all ? state_.skipped_in_a_row + 1 : 0;
  if (state_.skipped_in_a_row >= kMaxSkippedInARow) return WriteBadBatch(state.assignment);
  reducer_.Clear();  // the workers on this machine may need the memory while the learner waits
  return OkStatus();
}

// Returns the sums of the update on this rank.
LossSums Trainer::ForwardBackward(StepState& state, std::int32_t update) {
  LossSums sums;
  reducer_.Clear();
  for (std::int32_t round = 0; round < state.assignment.rounds_of(update); ++round) {
    MicroBatch batch = GatherMicroBatch(state, update, round);
    if (batch.tokens.empty()) {
      RunEmptyRound(state);
      continue;
    }
    ModelPass pass = Forward(batch, state);
    const LossOutput loss = Loss(batch, pass.output(), state, sums);
    const PhaseTimer::Span span(phases_, state.measured.seconds_backward);
    pass.Backward(pass.GradientOf(loss.loss_sum), reducer_);
    sums.Add(loss);
  }
  return sums;
}

// Takes part in what the other ranks do for their tokens: in the sums of gradients, and where they
// gather weights, in every pass.
void Trainer::RunEmptyRound(StepState& state) {
  if (!model_.share().weights) return reducer_.SkipRound();
  const PhaseTimer::Span span(phases_, state.measured.seconds_backward);
  ModelPass pass = FillerTokens().Run(model_, OptionsOfPass(EntropyMode::kNone));
  const bool kept =
      options_.run.algorithm.kl_in == KlPlace::kReward || options_.run.batch.epochs > 1;
  if (reference_ != nullptr && reference_->share().weights && !kept) {
    const AdaptersOff start(*reference_);
    LogprobsOf(*reference_, FillerTokens());
  }
  pass.Backward({at::zeros_like(pass.output().logprobs_M), {}}, reducer_);
}

PassOptions Trainer::OptionsOfPass(EntropyMode entropy) const {
  return {.temperature = options_.run.sampling.temperature,
          .entropy = entropy,
          .recompute = options_.learner.recompute,
          .context = options_.context};
}

ModelPass Trainer::Forward(const MicroBatch& batch, StepState& state) const {
  const PhaseTimer::Span span(phases_, state.measured.seconds_forward);
  const bool bonus = state.assignment.entropy_coef > 0;
  return batch.tokens.Run(
      model_, OptionsOfPass(bonus ? EntropyMode::kDifferentiable : EntropyMode::kDetached));
}

// The loss is a function of the log-probs and entropies `current`, which are leaves.
LossOutput Trainer::Loss(MicroBatch& batch, const TokenLogprobs& current, StepState& state,
                         LossSums& sums) const {
  const PhaseTimer::Span span(phases_, state.measured.seconds_forward);
  AlgorithmConfig options = options_.run.algorithm;
  options.entropy_coef = state.assignment.entropy_coef;
  if (!state.assignment.entropy_scale.empty())
    ApplyEntropyAdvantages(state.assignment, current.entropy_M, batch);
  const LossInput input = MakeLossInput(batch, current);
  if (KlLossCoef(options) > 0) {
    const at::Tensor constant_M =
        ToDevice(torch::tensor(batch.constant), current.logprobs_M.device()).to(at::kBool);
    sums.AddKlMass(KlGradientMass(input, options, constant_M));
  }
  return ComputeLoss(input, options);
}

// Returns [M] log-probs without a gradient. REQUIRES: there are tokens.
at::Tensor Trainer::LogprobsOf(Transformer& model, const TokenBatch& tokens) const {
  const at::NoGradGuard no_grad;
  return tokens.Run(model, OptionsOfPass(EntropyMode::kNone)).output().logprobs_M;
}

LossInput Trainer::MakeLossInput(const MicroBatch& batch, const TokenLogprobs& current) const {
  const auto on_device = [&](const auto& values) {
    return ToDevice(torch::tensor(values), current.logprobs_M.device());
  };
  LossInput input;
  input.logprobs_M = current.logprobs_M;
  input.entropy_M = current.entropy_M;
  input.sampler_logprobs_M = on_device(batch.sampler_logprobs);
  input.advantages_M = on_device(batch.advantages);
  input.weights_M = on_device(batch.weights);
  input.lengths_C = on_device(batch.lengths);
  if (!batch.marked.empty()) input.marked_M = on_device(batch.marked).to(at::kBool);
  if (!batch.old_logprobs.empty()) input.old_logprobs_M = on_device(batch.old_logprobs);
  if (!batch.reference_logprobs.empty()) {
    input.ref_logprobs_M = on_device(batch.reference_logprobs);
  } else if (reference_ != nullptr) {
    const AdaptersOff start(*reference_);
    input.ref_logprobs_M = LogprobsOf(*reference_, batch.tokens);
  }
  return input;
}

// Sums the gradient of an update over the ranks. All ranks use the norm and the KL of rank 0, so
// that ranks on different machines cannot drift apart by their last bits.
Result<Trainer::Gradient> Trainer::Reduce(const LossSums& losses, StepState& state) {
  if (control_.size() > 1) phases_.WaitForDevice();
  BUTTRESS_RETURN_IF_ERROR(WaitForPeers(state));
  const PhaseTimer::Span span(phases_, state.measured.seconds_reduce);
  BUTTRESS_RETURN_IF_ERROR(reducer_.Reduce());
  state.measured.reduced_bytes += static_cast<double>(reducer_.bytes());
  StepSums sums;
  const double squared_norm = sums.AddLosses(losses, reducer_.SquaredNorm());
  state.sums.Add(sums);
  double all[] = {squared_norm, sums[LossMetric::kOldKl], sums[LossMetric::kTokens]};
  BUTTRESS_RETURN_IF_ERROR(
      control_.AllReduceSum({all, 3, DType::kFloat64})->Wait(timeout_).Annotate("norm and KL"));
  double shared[] = {std::sqrt(all[0]), all[2] > 0 ? all[1] / all[2] : 0.0};
  BUTTRESS_RETURN_IF_ERROR(
      control_.Broadcast({shared, 2, DType::kFloat64}, 0)->Wait(timeout_).Annotate("norm"));
  return Gradient{shared[0], shared[1]};
}

// `done` is the part of the step that is done with this update, in (0, 1].
Status Trainer::Update(const Gradient& gradient, double done, StepState& state) {
  StepMeasurements& measured = state.measured;
  const OptimConfig& optim = options_.run.optim;
  measured.lr = LearningRate(optim, static_cast<double>(state.step - 1) + done, steps_);
  if (!std::isfinite(gradient.norm)) {
    ++measured.skipped;
    if (control_.rank() == 0) {
      Log(kWarn, "gradient is not finite: update skipped on all ranks",
          {{"step", state.step}, {"gradient", DescribeNonFinite(reducer_.named_gradients())}});
    }
    return OkStatus();
  }
  state.finite_norms += gradient.norm;
  if (gradient.norm == 0) {
    ++measured.zero_gradient;
    if (optim.zero_gradient == ZeroGradient::kSkip) return OkStatus();
  }
  BUTTRESS_RETURN_IF_ERROR(before_update_());
  const PhaseTimer::Span span(phases_, measured.seconds_optimizer);
  if (optim.clip_grad > 0 && gradient.norm > optim.clip_grad)
    reducer_.Scale(optim.clip_grad / gradient.norm);
  BUTTRESS_RETURN_IF_ERROR(
      UpdateModel(model_, reducer_, optimizer_, measured.lr, tensors_, timeout_));
  ++measured.updates;
  return OkStatus();
}

// Ranks that hold the same weights find the same; those that hold parts report what they find.
Status Trainer::CheckWeights(StepState& state) {
  const PhaseTimer::Span span(phases_, state.measured.seconds_optimizer);
  const Status own = CheckFinite(
      model_.held_values(), "an update has made weights that are not finite",
      "lower run.optim.lr or raise run.optim.eps; the checkpoints before the step are whole");
  if (!model_.share().weights) return own;
  std::int64_t failed = own.ok() ? 0 : 1;
  BUTTRESS_RETURN_IF_ERROR(
      control_.AllReduceSum({&failed, 1, DType::kInt64})->Wait(timeout_).Annotate("weights"));
  if (own.ok() && failed > 0)
    return DataLoss(c10::str(failed, " other ranks found weights that are not finite"));
  return own;
}

// Measures start_kl where it is due, on rank 0 and its context group. The other ranks wait in
// SumUp. A measurement that fails costs no step.
void Trainer::MeasureDrift(StepState& state) {
  const StartKlConfig& config = options_.learner.start_kl;
  if (config.every == 0 || options_.run.algorithm.kl_coef > 0) return;
  // Where weights are gathered, all ranks take part.
  if (across_.rank() != 0 && !model_.share().weights) return;
  if (!std::exchange(drift_due_, false) && state.step % config.every != 0) return;
  TokenBatch batch =
      FirstCompletions(state.groups, config.tokens, options_.learner.micro_batch_tokens);
  const bool measures = across_.rank() == 0 && !batch.empty();
  if (!measures && !model_.share().weights) return;
  if (!measures) batch = FillerTokens();
  phases_.WaitForDevice();
  const Stopwatch watch(state.measured.seconds_start_kl);
  const Result<double> kl =
      MeasureStartKl(model_, options_.run.model, batch, OptionsOfPass(EntropyMode::kNone));
  if (!measures) return;
  if (kl.ok()) {
    state.measured.start_kl = *kl;
  } else {
    Log(kWarn, "start_kl is not measured", {{"step", state.step}, {"why", kl.status().message()}});
  }
}

// Sums the statistics of the step over the ranks.
Status Trainer::SumUp(StepState& state) {
  StepMeasurements& measured = state.measured;
  const Stopwatch watch(measured.seconds_reduce);
  BUTTRESS_RETURN_IF_ERROR(
      across_.AllReduceSum(state.sums.buffer())->Wait(timeout_).Annotate("sum of statistics"));
  const auto run = static_cast<double>(state.updates_run);
  MeasureSums(state.sums, run, measured);
  const double finite = run - measured.skipped;
  measured.grad_norm = finite > 0 ? state.finite_norms / finite : StepMeasurements::kNotMeasured;
  if (control_.rank() != 0) return OkStatus();
  MeasureBatch(state.summary, state.sums, run / static_cast<double>(state.assignment.updates()),
               measured);
  return OkStatus();
}

Status Trainer::Commit(StepState& state) {
  if (control_.rank() != 0) return OkStatus();
  state_.gate = state.summary.next_gate;
  const double entropy = state.measured.entropy_exact;
  if (state.measured.trained_tokens > 0 && std::isfinite(entropy))
    state_.entropy = NextEntropyControl(state_.entropy, options_.run.algorithm, entropy);
  const Stopwatch watch(state.measured.seconds_commit);
  return source_.Commit(state.step);
}

// Returns kDataLoss; rank 0 writes the plan first.
Status Trainer::WriteBadBatch(const Assignment& assignment) const {
  const std::string what =
      c10::str("no gradient of ", kMaxSkippedInARow,
               " steps in a row was finite; the warnings above name the parameters");
  if (control_.rank() != 0) return DataLoss(what);
  const nlohmann::json json = {{"step", assignment.step},
                               {"group_ids", assignment.group_ids},
                               {"group_offsets", assignment.group_offsets},
                               {"lengths", assignment.lengths},
                               {"update", assignment.update_of_row},
                               {"advantages", assignment.advantages},
                               {"token_weights", assignment.token_weights}};
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(options_.bad_batch_path, json.dump(1) + "\n"));
  return DataLoss(
      c10::str(what, "; the last batch is in ", options_.bad_batch_path,
               "; lower run.optim.lr, or check the start model for values that are not finite"));
}

}  // namespace buttress
