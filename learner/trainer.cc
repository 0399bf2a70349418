#include "learner/trainer.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "learner/token_marks.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/rl/loss/kl.h"

namespace buttress {
namespace {

// The first byte of what rank 0 broadcasts while the other ranks wait for a plan.
constexpr char kPlanFollows = 's';
constexpr char kStillWaiting = 'w';
constexpr char kRunFinished = 'f';
constexpr char kStopRequested = 'x';

// Rank 0 broadcasts at least this often, so that the timeout of the collective detects its death.
constexpr std::chrono::milliseconds kPlanPoll{500};

// Adds the seconds of its life to `seconds`.
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

// kDataLoss unless `fetched` is the group that the plan names, with the planned lengths.
Status CheckFetched(const FetchedGroup& fetched, std::uint64_t planned_id,
                    const Assignment& assignment) {
  const Group& group = fetched.group;
  if (group.group_id != planned_id) {
    return DataLoss(
        c10::str("fetched group ", group.group_id, " where the plan has group ", planned_id));
  }
  if (group.prompt_token_ids.empty())
    return DataLoss(c10::str("group ", planned_id, " has no prompt tokens"));
  for (const Completion& completion : group.completions) {
    const std::size_t row = fetched.row(completion);
    const std::int32_t length =
        completion.outcome == Outcome::kUnscorable ? 0 : TrainedLength(completion);
    if (row < assignment.lengths.size() && assignment.lengths[row] == length) continue;
    return DataLoss(c10::str("completion ", completion.index, " of group ", planned_id, " has ",
                             length, " trained tokens, planned were ",
                             row < assignment.lengths.size() ? assignment.lengths[row] : 0));
  }
  return OkStatus();
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Make(TrainerOptions options, Transformer& model,
                                               Transformer* reference, Collective& control,
                                               Collective& tensors, BatchSource& source) {
  const AlgorithmConfig& algorithm = options.run.algorithm;
  const LossOptions loss = MakeLossOptions(algorithm);
  BUTTRESS_CHECK(algorithm.kl_coef == 0 || reference != nullptr,
                 "kl_coef > 0 needs the start model");
  return std::unique_ptr<Trainer>(
      new Trainer(std::move(options), loss, model, reference, control, tensors, source));
}

Trainer::Trainer(TrainerOptions options, LossOptions loss, Transformer& model,
                 Transformer* reference, Collective& control, Collective& tensors,
                 BatchSource& source)
    : options_(std::move(options)),
      loss_(loss),
      assignment_options_(AssignmentOptions::From(options_.run, options_.learner, control.size())),
      timeout_(options_.learner.collective_timeout_ms),
      model_(model),
      reference_(reference),
      control_(control),
      source_(source),
      reducer_(model.units(), tensors, timeout_),
      optimizer_(model.parameters(), options_.run.optim, options_.run.seed) {}

Result<StepState> Trainer::Step(std::int64_t step, const std::function<bool()>& stop_requested) {
  StepState state;
  state.step = step;
  state.measured.step = static_cast<double>(step);
  try {
    BUTTRESS_RETURN_IF_ERROR(Run(stop_requested, state).Annotate(c10::str("step ", step)));
  } catch (const c10::Error& e) {
    return Internal(c10::str("step ", step, ": ", e.what_without_backtrace()));
  }
  return state;
}

Status Trainer::Run(const std::function<bool()>& stop_requested, StepState& state) {
  BUTTRESS_RETURN_IF_ERROR(AgreeOnPlan(stop_requested, state));
  if (state.end != StepEnd::kTrained) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(FetchGroups(state));
  BUTTRESS_RETURN_IF_ERROR(SubtractKlFromRewards(state));
  BUTTRESS_RETURN_IF_ERROR(MarkCovarianceTokens(state));
  ForwardBackward(state);
  BUTTRESS_RETURN_IF_ERROR(Reduce(state));
  BUTTRESS_RETURN_IF_ERROR(Update(state));
  return Commit(state);
}

Status Trainer::AgreeOnPlan(const std::function<bool()>& stop_requested, StepState& state) {
  const Stopwatch watch(state.measured.seconds_wait);
  std::string message(1, kStillWaiting);
  while (message.front() == kStillWaiting) {
    if (control_.rank() == 0) {
      BUTTRESS_ASSIGN_OR_RETURN(message, AskForPlan(stop_requested, state));
    }
    BUTTRESS_ASSIGN_OR_RETURN(message, BroadcastBytes(control_, std::move(message), 0, timeout_));
    if (message.empty())
      return DataLoss("rank 0 broadcast an empty plan; start all ranks from the same build");
  }
  if (message.front() == kRunFinished) state.end = StepEnd::kFinished;
  if (message.front() == kStopRequested) state.end = StepEnd::kStopped;
  if (state.end != StepEnd::kTrained) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(state.assignment,
                            DecodeAssignment(std::string_view(message).substr(1)));
  state.measured.entropy_coef = state.assignment.entropy_coef;
  return OkStatus();
}

// Returns what rank 0 broadcasts: one of the bytes above, and the encoded plan after kPlanFollows.
Result<std::string> Trainer::AskForPlan(const std::function<bool()>& stop_requested,
                                        StepState& state) {
  if (stop_requested()) return std::string(1, kStopRequested);
  auto reply = source_.Plan(state.step, kPlanPoll);
  if (reply.status().code() == StatusCode::kCancelled) return std::string(1, kStopRequested);
  if (!reply.ok()) return reply.status();
  if (!reply->plan) return std::string(1, reply->finished ? kRunFinished : kStillWaiting);
  state.plan = *std::move(reply->plan);
  BUTTRESS_ASSIGN_OR_RETURN(Assignment assignment, AssignStep(state.plan, assignment_options_,
                                                              state_.gate, state.summary));
  assignment.entropy_coef = EntropyCoef(state_.entropy, options_.run.algorithm);
  return kPlanFollows + EncodeAssignment(assignment);
}

Status Trainer::FetchGroups(StepState& state) {
  const Stopwatch watch(state.measured.seconds_fetch);
  const Assignment& assignment = state.assignment;
  std::vector<std::size_t> own;
  std::vector<std::uint64_t> ids;
  for (std::size_t k = 0; k < assignment.group_ids.size(); ++k) {
    if (assignment.rank_of_group[k] != control_.rank()) continue;
    own.push_back(k);
    ids.push_back(assignment.group_ids[k]);
  }
  if (ids.empty()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<Group> groups, source_.Fetch(state.step, ids));
  if (groups.size() != ids.size())
    return DataLoss(c10::str("requested ", ids.size(), " groups, fetched ", groups.size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto first_row = static_cast<std::size_t>(assignment.group_offsets[own[i]]);
    const FetchedGroup& fetched = state.groups.emplace_back(
        FetchedGroup{std::move(groups[i]), first_row, assignment.constant[own[i]] != 0});
    BUTTRESS_RETURN_IF_ERROR(CheckFetched(fetched, ids[i], assignment));
  }
  return OkStatus();
}

// reward -= kl_coef * KL(sampling policy || start model), summed over the completion (Ouyang et
// al., arXiv 2203.02155, Eq 2). The placement of the new assignment is that of the old one, because
// with a KL coefficient every group is run, whatever its rewards.
Status Trainer::SubtractKlFromRewards(StepState& state) {
  const AlgorithmConfig& algorithm = options_.run.algorithm;
  if (algorithm.kl_in != KlPlace::kReward) return OkStatus();
  std::vector<double> kl = ReferenceKl(state);
  const Stopwatch watch(state.measured.seconds_reduce);
  const Buffer sums{kl.data(), static_cast<std::int64_t>(kl.size()), DType::kFloat64};
  BUTTRESS_RETURN_IF_ERROR(control_.AllReduceSum(sums)->Wait(timeout_).Annotate("sum of KL"));
  std::string bytes;
  if (control_.rank() == 0) {
    for (std::size_t row = 0; row < kl.size(); ++row)
      state.plan.rewards[row] -= algorithm.kl_coef * kl[row];
    BUTTRESS_ASSIGN_OR_RETURN(Assignment assignment, AssignStep(state.plan, assignment_options_,
                                                                state_.gate, state.summary));
    assignment.entropy_coef = state.assignment.entropy_coef;
    bytes = EncodeAssignment(assignment);
  }
  BUTTRESS_ASSIGN_OR_RETURN(bytes, BroadcastBytes(control_, std::move(bytes), 0, timeout_));
  BUTTRESS_ASSIGN_OR_RETURN(state.assignment, DecodeAssignment(bytes));
  return OkStatus();
}

// Returns the KL estimates of this rank's completions, [N] by row, and keeps the log-probs of the
// start model for the loss.
std::vector<double> Trainer::ReferenceKl(StepState& state) const {
  const Stopwatch watch(state.measured.seconds_forward);
  std::vector<double> kl(state.assignment.advantages.size(), 0.0);
  for (std::int32_t round = 0; round < state.assignment.rounds; ++round) {
    const MicroBatch batch = GatherMicroBatch(state, round);
    state.reference_logprobs.push_back(ReferenceLogprobs(batch));
    const at::Tensor sampler_M = torch::tensor(batch.sampler_logprobs);
    const at::Tensor reference_M = state.reference_logprobs.back().to(at::kCPU);
    const at::Tensor estimate_M = KlEstimate(sampler_M, reference_M, loss_.kl_estimator);
    const at::Tensor kl_M =
        at::where(at::isfinite(sampler_M), estimate_M.to(at::kDouble), 0.0).contiguous();
    const double* next = kl_M.const_data_ptr<double>();
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      for (std::int64_t t = 0; t < batch.lengths[i]; ++t) kl[batch.rows[i]] += *next++;
    }
  }
  return kl;
}

// Covariances are over all completions of the step in the loss, those of groups that are not run
// included.
Status Trainer::MarkCovarianceTokens(StepState& state) {
  if (!MarksTokens(options_.run.algorithm.loss)) return OkStatus();
  std::vector<MarkedRow> rows;
  for (const FetchedGroup& fetched : state.groups) {
    for (const Completion& completion : fetched.group.completions) {
      const std::size_t row = fetched.row(completion);
      if (state.assignment.token_weights[row] == 0) continue;
      MarkedRow& marked = rows.emplace_back(
          MarkedRow{static_cast<std::int64_t>(row), state.assignment.advantages[row], {}});
      AppendTrainedLogprobs(completion, marked.logprobs);
    }
  }
  const RandomKey key{MixSeed(options_.run.seed, HashText("token marks")),
                      static_cast<std::uint64_t>(state.step)};
  BUTTRESS_ASSIGN_OR_RETURN(auto marks,
                            MarkTokens(rows, options_.run.algorithm, key, control_, timeout_));
  for (std::size_t i = 0; i < rows.size(); ++i)
    state.marks[static_cast<std::size_t>(rows[i].row)] = std::move(marks[i]);
  return OkStatus();
}

void Trainer::ForwardBackward(StepState& state) {
  reducer_.Zero();
  for (const FetchedGroup& fetched : state.groups) state.sums.AddGroup(fetched.group);
  for (std::int32_t round = 0; round < state.assignment.rounds; ++round) {
    MicroBatch batch = GatherMicroBatch(state, round);
    if (batch.tokens.empty()) continue;
    ModelPass pass = Forward(batch, state);
    const LossOutput loss = Loss(batch, pass.output(), state, round);
    const Stopwatch watch(state.measured.seconds_backward);
    pass.Backward(pass.GradientOf(loss.loss_sum), reducer_);
    state.sums.AddLoss(loss);
  }
}

PassOptions Trainer::OptionsOfPass(EntropyMode entropy) const {
  return {options_.run.sampling.temperature, options_.learner.logprob_chunk_tokens, entropy};
}

ModelPass Trainer::Forward(const MicroBatch& batch, StepState& state) const {
  const Stopwatch watch(state.measured.seconds_forward);
  const bool bonus = state.assignment.entropy_coef > 0;
  return batch.tokens.Run(
      model_, OptionsOfPass(bonus ? EntropyMode::kDifferentiable : EntropyMode::kDetached));
}

// The loss is a function of the log-probs and entropies `current`, which are leaves.
LossOutput Trainer::Loss(MicroBatch& batch, const TokenLogprobs& current, StepState& state,
                         std::int32_t round) const {
  const Stopwatch watch(state.measured.seconds_forward);
  LossOptions options = loss_;
  options.entropy_coef = state.assignment.entropy_coef;
  if (!state.assignment.entropy_scale.empty())
    ApplyEntropyAdvantages(state.assignment, current.entropy_M, batch);
  const LossInput input = MakeLossInput(batch, current, state, round);
  if (options.kl_coef > 0) {
    const at::Tensor constant_M =
        torch::tensor(batch.constant).to(current.logprobs_M.device(), at::kBool);
    state.sums.AddKlMass(KlGradientMass(input, options, constant_M));
  }
  return ComputeLoss(input, options);
}

// Returns [M] log-probs of the start model, or an empty tensor for an empty micro-batch.
at::Tensor Trainer::ReferenceLogprobs(const MicroBatch& batch) const {
  if (batch.tokens.empty()) return at::empty({0});
  const at::NoGradGuard no_grad;
  return batch.tokens.Run(*reference_, OptionsOfPass(EntropyMode::kNone)).output().logprobs_M;
}

LossInput Trainer::MakeLossInput(const MicroBatch& batch, const TokenLogprobs& current,
                                 const StepState& state, std::int32_t round) const {
  const at::Device device = current.logprobs_M.device();
  LossInput input;
  input.logprobs_M = current.logprobs_M;
  input.entropy_M = current.entropy_M;
  input.sampler_logprobs_M = torch::tensor(batch.sampler_logprobs).to(device);
  input.advantages_M = torch::tensor(batch.advantages).to(device);
  input.weights_M = torch::tensor(batch.weights).to(device);
  input.lengths_C = torch::tensor(batch.lengths).to(device);
  if (!batch.marked.empty()) input.marked_M = torch::tensor(batch.marked).to(device, at::kBool);
  if (!state.reference_logprobs.empty()) {
    input.ref_logprobs_M = state.reference_logprobs[static_cast<std::size_t>(round)];
  } else if (reference_ != nullptr) {
    input.ref_logprobs_M = ReferenceLogprobs(batch);
  }
  return input;
}

Status Trainer::Reduce(StepState& state) {
  const Stopwatch watch(state.measured.seconds_reduce);
  BUTTRESS_RETURN_IF_ERROR(reducer_.Reduce());
  if (control_.size() > 1) state.measured.reduced_bytes = static_cast<double>(reducer_.bytes());
  BUTTRESS_RETURN_IF_ERROR(
      control_.AllReduceSum(state.sums.buffer())->Wait(timeout_).Annotate("sum of statistics"));
  MeasureSums(state.sums, state.measured);
  if (control_.rank() == 0) MeasureBatch(state.summary, state.sums, state.measured);
  return OkStatus();
}

// All ranks use the norm of rank 0, so that ranks on different machines cannot drift apart by its
// last bit.
Status Trainer::Update(StepState& state) {
  StepMeasurements& measured = state.measured;
  const Stopwatch watch(measured.seconds_optimizer);
  measured.grad_norm = reducer_.Norm();
  BUTTRESS_RETURN_IF_ERROR(
      control_.Broadcast({&measured.grad_norm, 1, DType::kFloat64}, 0)->Wait(timeout_));
  measured.lr = LearningRate(options_.run.optim, state.step, options_.run.steps);
  if (!std::isfinite(measured.grad_norm)) {
    measured.skipped = 1;
    ++state_.skipped_in_a_row;
    if (control_.rank() == 0) {
      Log(kWarn, "gradient is not finite: step skipped on all ranks",
          {{"step", state.step}, {"in_a_row", state_.skipped_in_a_row}});
    }
    return state_.skipped_in_a_row < kMaxSkippedInARow ? OkStatus()
                                                       : WriteBadBatch(state.assignment);
  }
  state_.skipped_in_a_row = 0;
  measured.zero_gradient = measured.grad_norm == 0 ? 1 : 0;
  if (measured.grad_norm == 0 && options_.run.optim.zero_gradient == ZeroGradient::kSkip)
    return OkStatus();
  const double bound = options_.run.optim.clip_grad;
  if (bound > 0 && measured.grad_norm > bound) reducer_.Scale(bound / measured.grad_norm);
  optimizer_.Step(reducer_.gradients(), measured.lr);
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
  const std::string what = c10::str(kMaxSkippedInARow, " gradients in a row were not finite");
  if (control_.rank() != 0) return DataLoss(what);
  const nlohmann::json json = {{"step", assignment.step},
                               {"group_ids", assignment.group_ids},
                               {"group_offsets", assignment.group_offsets},
                               {"lengths", assignment.lengths},
                               {"advantages", assignment.advantages},
                               {"token_weights", assignment.token_weights}};
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(options_.bad_batch_path, json.dump(1) + "\n"));
  return DataLoss(
      c10::str(what, "; the last batch is in ", options_.bad_batch_path,
               "; lower run.optim.lr, or check the start model for values that are not finite"));
}

}  // namespace buttress
