// Shapes: M trained tokens of a micro-batch, N completions of the step.
#include "learner/trainer.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "learner/schedule.h"
#include "learner/token_marks.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/rl/advantage/estimators.h"
#include "lib/rl/loss/kl.h"

namespace buttress {
namespace {

constexpr std::size_t kSampledNats = kLossSums;
constexpr std::size_t kSampledTokens = kLossSums + 1;
constexpr std::size_t kResponses = kLossSums + 2;
constexpr std::size_t kDistinct = kLossSums + 3;
constexpr std::size_t kFormatted = kLossSums + 4;
constexpr std::size_t kKlMass = kLossSums + 5;
constexpr std::size_t kConstantKlMass = kLossSums + 6;
constexpr std::size_t kStatistics = kLossSums + 7;

// First byte of what rank 0 says while the others wait for a plan.
constexpr char kSayStep = 's';
constexpr char kSayWait = 'w';
constexpr char kSayFinished = 'f';
constexpr char kSayStop = 'x';

// Rank 0 speaks at least this often, so that a rank that hears nothing knows that rank 0 is gone.
constexpr std::chrono::milliseconds kPlanPoll{500};

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

// Log-probs of the trained tokens, in the order in which TokenBatch has them.
void AppendTrained(const Completion& completion, std::vector<float>& logprobs) {
  const TokenSpan all{0, static_cast<std::int32_t>(completion.token_ids.size())};
  const std::span<const TokenSpan> spans = completion.trained_spans;
  for (const TokenSpan& span : spans.empty() ? std::span<const TokenSpan>(&all, 1) : spans) {
    logprobs.insert(logprobs.end(), completion.logprobs.begin() + span.begin,
                    completion.logprobs.begin() + span.end);
  }
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Make(TrainerOptions options, Transformer& model,
                                               Transformer* reference, Collective& control,
                                               Collective& tensors, BatchSource& source) {
  const LossOptions loss = MakeLossOptions(options.run.algorithm);
  BUTTRESS_CHECK(options.run.algorithm.kl_coef == 0 || reference != nullptr,
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
      reducer_(model.parameters(), tensors, timeout_),
      optimizer_(model.parameters(), options_.run.optim) {}

Result<StepReport> Trainer::Step(std::int64_t step, const std::function<bool()>& stop_requested) {
  StepReport report;
  report.step = step;
  try {
    BUTTRESS_RETURN_IF_ERROR(
        Run(step, stop_requested, report).Annotate("step " + std::to_string(step)));
  } catch (const c10::Error& e) {
    return Internal("step " + std::to_string(step) + ": " + e.what_without_backtrace());
  }
  return report;
}

Status Trainer::Run(std::int64_t step, const std::function<bool()>& stop_requested,
                    StepReport& report) {
  BUTTRESS_RETURN_IF_ERROR(AgreeOnPlan(step, stop_requested, report));
  if (report.end != StepEnd::kTrained) return OkStatus();
  {
    const Stopwatch watch(report.seconds.fetch);
    BUTTRESS_RETURN_IF_ERROR(FetchOwnGroups());
  }
  BUTTRESS_RETURN_IF_ERROR(TakeKlOffRewards(report));
  BUTTRESS_RETURN_IF_ERROR(MarkOwnTokens());
  reducer_.Zero();
  statistics_.assign(kStatistics, 0.0);
  AddSamplingEntropy();
  AddResponses();
  for (std::int32_t round = 0; round < assignment_.rounds; ++round) RunMicroBatch(round, report);
  {
    const Stopwatch watch(report.seconds.reduce);
    BUTTRESS_RETURN_IF_ERROR(reducer_.Reduce());
    BUTTRESS_RETURN_IF_ERROR(SumStatistics(report));
  }
  {
    const Stopwatch watch(report.seconds.optimizer);
    BUTTRESS_RETURN_IF_ERROR(UpdateWeights(report));
  }
  if (control_.rank() != 0) return OkStatus();
  gate_ = report.batch.next_gate;
  if (report.loss.tokens > 0 && std::isfinite(report.loss.entropy)) {
    entropy_control_ =
        NextEntropyControl(entropy_control_, options_.run.algorithm, report.loss.entropy);
  }
  const Stopwatch watch(report.seconds.commit);
  return source_.Commit(step);
}

// Rank 0 asks for the plan, computes advantages and placement over the whole batch; every rank
// hears the result.
Status Trainer::AgreeOnPlan(std::int64_t step, const std::function<bool()>& stop_requested,
                            StepReport& report) {
  const Stopwatch watch(report.seconds.wait);
  std::string message(1, kSayWait);
  while (message.front() == kSayWait) {
    if (control_.rank() == 0)
      BUTTRESS_RETURN_IF_ERROR(AskForPlan(step, stop_requested, report, message));
    BUTTRESS_ASSIGN_OR_RETURN(message, BroadcastBytes(control_, std::move(message), 0, timeout_));
    if (message.empty()) return DataLoss("rank 0 said nothing; are all ranks of one build?");
  }
  if (message.front() == kSayFinished) report.end = StepEnd::kFinished;
  if (message.front() == kSayStop) report.end = StepEnd::kStopped;
  if (message.front() != kSayStep) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(assignment_, DecodeAssignment(std::string_view(message).substr(1)));
  return OkStatus();
}

Status Trainer::AskForPlan(std::int64_t step, const std::function<bool()>& stop_requested,
                           StepReport& report, std::string& message) {
  message.assign(1, kSayStop);
  if (stop_requested()) return OkStatus();
  auto reply = source_.Plan(step, kPlanPoll);
  if (!reply.ok() && reply.status().code() == StatusCode::kCancelled) return OkStatus();
  if (!reply.ok()) return reply.status();
  if (!reply->plan) {
    message.assign(1, reply->finished ? kSayFinished : kSayWait);
    return OkStatus();
  }
  plan_ = *std::move(reply->plan);
  BUTTRESS_ASSIGN_OR_RETURN(Assignment assignment,
                            AssignStep(plan_, assignment_options_, gate_, report.batch));
  assignment.entropy_coef = EntropyCoef(entropy_control_, options_.run.algorithm);
  message = kSayStep + EncodeAssignment(assignment);
  return OkStatus();
}

Status Trainer::FetchOwnGroups() {
  std::vector<std::uint64_t> ids;
  group_rows_.clear();
  group_constant_.clear();
  for (std::size_t k = 0; k < assignment_.group_ids.size(); ++k) {
    if (assignment_.rank_of_group[k] != control_.rank()) continue;
    ids.push_back(assignment_.group_ids[k]);
    group_rows_.push_back(static_cast<std::size_t>(assignment_.group_offsets[k]));
    group_constant_.push_back(assignment_.constant[k] != 0);
  }
  groups_.clear();
  if (ids.empty()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(groups_, source_.Fetch(assignment_.step, ids));
  if (groups_.size() != ids.size())
    return DataLoss("asked for " + std::to_string(ids.size()) + " groups, got " +
                    std::to_string(groups_.size()));
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    const std::string name = "group " + std::to_string(ids[k]);
    if (groups_[k].group_id != ids[k] || groups_[k].prompt_token_ids.empty())
      return DataLoss(name + ": another group, or one without a prompt");
    for (const Completion& completion : groups_[k].completions) {
      const std::size_t row = group_rows_[k] + static_cast<std::size_t>(completion.index);
      const std::int32_t length =
          completion.outcome == Outcome::kUnscorable ? 0 : TrainedLength(completion);
      if (row < assignment_.lengths.size() && assignment_.lengths[row] == length) continue;
      return DataLoss(name + ": completion " + std::to_string(completion.index) +
                      " is not the one that was planned");
    }
  }
  return OkStatus();
}

// Over all completions, those of constant groups that are not run included.
void Trainer::AddSamplingEntropy() {
  std::vector<float> logprobs;
  for (const Group& group : groups_) {
    for (const Completion& completion : group.completions) {
      if (completion.outcome != Outcome::kUnscorable) AppendTrained(completion, logprobs);
    }
  }
  for (const float logprob : logprobs) {
    if (!std::isfinite(logprob)) continue;
    statistics_[kSampledNats] -= logprob;
    statistics_[kSampledTokens] += 1;
  }
}

void Trainer::AddResponses() {
  ResponseProbe probe;
  for (const Group& group : groups_) probe.Add(group);
  statistics_[kResponses] = static_cast<double>(probe.responses);
  statistics_[kDistinct] = static_cast<double>(probe.distinct);
  statistics_[kFormatted] = static_cast<double>(probe.formatted);
}

// kl_in: reward. The start model's log-probs of all completions, their KL taken off the rewards,
// advantages anew: rank 0 makes the plan again, whose packing does not depend on rewards, since
// with a KL coefficient every group is run.
Status Trainer::TakeKlOffRewards(StepReport& report) {
  reference_logprobs_.clear();
  const AlgorithmConfig& algorithm = options_.run.algorithm;
  if (algorithm.kl_in != KlPlace::kReward) return OkStatus();
  std::vector<double> kl(assignment_.advantages.size(), 0.0);
  {
    const Stopwatch watch(report.seconds.forward);
    for (std::int32_t round = 0; round < assignment_.rounds; ++round) {
      const MicroBatch batch = Gather(round);
      reference_logprobs_.push_back(ReferenceLogprobs(batch));
      const at::Tensor sampler_M = torch::tensor(batch.sampler_logprobs);
      const at::Tensor reference_M = reference_logprobs_.back().to(at::kCPU);
      const at::Tensor estimate_M = KlEstimate(sampler_M, reference_M, loss_.kl_estimator);
      const at::Tensor kl_M =
          at::where(at::isfinite(sampler_M), estimate_M.to(at::kDouble), 0.0).contiguous();
      const double* next = kl_M.const_data_ptr<double>();
      for (std::size_t i = 0; i < batch.rows.size(); ++i) {
        for (std::int64_t t = 0; t < batch.lengths[i]; ++t) kl[batch.rows[i]] += *next++;
      }
    }
  }
  const Stopwatch watch(report.seconds.reduce);
  const Buffer sums{kl.data(), static_cast<std::int64_t>(kl.size()), DType::kFloat64};
  BUTTRESS_RETURN_IF_ERROR(control_.AllReduceSum(sums)->Wait(timeout_).Annotate("sum of KL"));
  std::string bytes;
  if (control_.rank() == 0) {
    for (std::size_t row = 0; row < kl.size(); ++row)
      plan_.rewards[row] -= algorithm.kl_coef * kl[row];
    BUTTRESS_ASSIGN_OR_RETURN(Assignment assignment,
                              AssignStep(plan_, assignment_options_, gate_, report.batch));
    assignment.entropy_coef = assignment_.entropy_coef;
    bytes = EncodeAssignment(assignment);
  }
  BUTTRESS_ASSIGN_OR_RETURN(bytes, BroadcastBytes(control_, std::move(bytes), 0, timeout_));
  BUTTRESS_ASSIGN_OR_RETURN(assignment_, DecodeAssignment(bytes));
  return OkStatus();
}

// Over all completions, those of groups that are not run included.
Status Trainer::MarkOwnTokens() {
  marks_.clear();
  const AlgorithmConfig& algorithm = options_.run.algorithm;
  if (!MarksTokens(algorithm.loss)) return OkStatus();
  std::vector<MarkedRow> rows;
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    for (const Completion& completion : groups_[k].completions) {
      const std::size_t row = group_rows_[k] + static_cast<std::size_t>(completion.index);
      if (assignment_.token_weights[row] == 0) continue;
      MarkedRow& marked = rows.emplace_back(
          MarkedRow{static_cast<std::int64_t>(row), assignment_.advantages[row], {}});
      AppendTrained(completion, marked.logprobs);
    }
  }
  const RandomKey key{MixSeed(options_.run.seed, HashText("token marks")),
                      static_cast<std::uint64_t>(assignment_.step)};
  BUTTRESS_ASSIGN_OR_RETURN(auto marks, MarkTokens(rows, algorithm, key, control_, timeout_));
  for (std::size_t i = 0; i < rows.size(); ++i)
    marks_[static_cast<std::size_t>(rows[i].row)] = std::move(marks[i]);
  return OkStatus();
}

// This rank's micro-batch number `round`; empty if it has no such.
Trainer::MicroBatch Trainer::Gather(std::int32_t round) const {
  MicroBatch batch;
  for (std::size_t k = 0; k < groups_.size(); ++k) {
    for (const Completion& completion : groups_[k].completions) {
      const std::size_t row = group_rows_[k] + static_cast<std::size_t>(completion.index);
      if (assignment_.micro_batch[row] != round) continue;
      batch.tokens.Add(groups_[k].prompt_token_ids, completion.token_ids, completion.trained_spans);
      batch.rows.push_back(row);
      batch.lengths.push_back(TrainedLength(completion));
      AppendTrained(completion, batch.sampler_logprobs);
      const std::size_t end = batch.sampler_logprobs.size();
      batch.advantages.resize(end, static_cast<float>(assignment_.advantages[row]));
      batch.weights.resize(end, static_cast<float>(assignment_.token_weights[row]));
      batch.constant.resize(end, group_constant_[k] ? 1 : 0);
      if (const auto marks = marks_.find(row); marks != marks_.end()) {
        batch.marked.insert(batch.marked.end(), marks->second.begin(), marks->second.end());
      }
    }
  }
  return batch;
}

// [M], or empty for an empty micro-batch.
at::Tensor Trainer::ReferenceLogprobs(const MicroBatch& batch) const {
  if (batch.tokens.empty()) return at::empty({0});
  const at::NoGradGuard no_grad;
  return batch.tokens
      .Run(*reference_, options_.run.sampling.temperature, options_.learner.logprob_chunk_tokens,
           EntropyMode::kNone)
      .logprobs_M;
}

LossInput Trainer::MakeLossInput(const MicroBatch& batch, const TokenLogprobs& current,
                                 std::int32_t round) const {
  const at::Device device = current.logprobs_M.device();
  LossInput input;
  input.logprobs_M = current.logprobs_M;
  input.entropy_M = current.entropy_M;
  input.sampler_logprobs_M = torch::tensor(batch.sampler_logprobs).to(device);
  input.advantages_M = torch::tensor(batch.advantages).to(device);
  input.weights_M = torch::tensor(batch.weights).to(device);
  input.lengths_C = torch::tensor(batch.lengths).to(device);
  if (!batch.marked.empty()) input.marked_M = torch::tensor(batch.marked).to(device, at::kBool);
  if (!reference_logprobs_.empty()) {
    input.ref_logprobs_M = reference_logprobs_[static_cast<std::size_t>(round)];
  } else if (reference_ != nullptr) {
    input.ref_logprobs_M = ReferenceLogprobs(batch);
  }
  return input;
}

// Forward, loss and backward of this rank's micro-batch number `round`; nothing if it has no such.
void Trainer::RunMicroBatch(std::int32_t round, StepReport& report) {
  MicroBatch batch = Gather(round);
  if (batch.tokens.empty()) return;
  LossOptions options = loss_;
  options.entropy_coef = assignment_.entropy_coef;
  LossOutput loss;
  {
    const Stopwatch watch(report.seconds.forward);
    const TokenLogprobs current = batch.tokens.Run(
        model_, options_.run.sampling.temperature, options_.learner.logprob_chunk_tokens,
        options.entropy_coef > 0 ? EntropyMode::kDifferentiable : EntropyMode::kDetached);
    if (!assignment_.entropy_scale.empty()) AddEntropyAdvantages(current.entropy_M, batch);
    const LossInput input = MakeLossInput(batch, current, round);
    loss = ComputeLoss(input, options);
    if (options.kl_coef > 0) {
      const at::Device device = current.logprobs_M.device();
      const at::Tensor constant_M = torch::tensor(batch.constant).to(device, at::kBool);
      const at::Tensor mass = KlGradientMass(input, options, constant_M).to(at::kCPU);
      statistics_[kKlMass] += mass.const_data_ptr<double>()[0];
      statistics_[kConstantKlMass] += mass.const_data_ptr<double>()[1];
    }
  }
  const Stopwatch watch(report.seconds.backward);
  loss.loss_sum.backward();
  const at::Tensor sums = at::cat({loss.metrics, loss.weight_counts}).to(at::kCPU);
  for (std::size_t i = 0; i < kLossSums; ++i) statistics_[i] += sums.const_data_ptr<double>()[i];
}

// Advantages of tokens by their entropy, which is known only now. Waits for the device.
void Trainer::AddEntropyAdvantages(const at::Tensor& entropy_M, MicroBatch& batch) const {
  const at::Tensor entropy = entropy_M.detach().to(at::kCPU, at::kDouble).contiguous();
  const std::span<const double> all(entropy.const_data_ptr<double>(), batch.advantages.size());
  std::size_t begin = 0;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const std::size_t row = batch.rows[i];
    std::vector<double> of_tokens(static_cast<std::size_t>(batch.lengths[i]));
    TokenAdvantages(assignment_.advantages[row], assignment_.entropy_scale[row],
                    all.subspan(begin, of_tokens.size()), of_tokens);
    for (const double advantage : of_tokens)
      batch.advantages[begin++] = static_cast<float>(advantage);
  }
}

Status Trainer::SumStatistics(StepReport& report) {
  const Buffer sums{statistics_.data(), static_cast<std::int64_t>(statistics_.size()),
                    DType::kFloat64};
  BUTTRESS_RETURN_IF_ERROR(
      control_.AllReduceSum(sums)->Wait(timeout_).Annotate("sum of statistics"));
  report.loss = MakeLossReport(std::span<const double>(statistics_).first(kLossSums));
  report.entropy_coef = assignment_.entropy_coef;
  if (statistics_[kSampledTokens] > 0)
    report.entropy = statistics_[kSampledNats] / statistics_[kSampledTokens];
  report.batch.gradient.all += statistics_[kKlMass];
  report.batch.gradient.kl = statistics_[kConstantKlMass];
  report.responses = {static_cast<std::int64_t>(statistics_[kResponses]),
                      static_cast<std::int64_t>(statistics_[kDistinct]),
                      static_cast<std::int64_t>(statistics_[kFormatted])};
  return OkStatus();
}

// Clip, AdamW, schedule. Rank 0's norm counts, so that ranks on different machines cannot drift
// apart by its last bit.
Status Trainer::UpdateWeights(StepReport& report) {
  report.grad_norm = reducer_.Norm();
  BUTTRESS_RETURN_IF_ERROR(
      control_.Broadcast({&report.grad_norm, 1, DType::kFloat64}, 0)->Wait(timeout_));
  report.lr = LearningRate(options_.run.optim, report.step, options_.run.steps);
  report.skipped = !std::isfinite(report.grad_norm);
  if (report.skipped) {
    ++skipped_in_a_row_;
    if (control_.rank() == 0) {
      Log(kWarn, "gradient is not finite: step skipped on all ranks",
          {{"step", report.step}, {"in_a_row", skipped_in_a_row_}});
    }
    return skipped_in_a_row_ < kMaxSkippedInARow ? OkStatus() : WriteBadBatch();
  }
  skipped_in_a_row_ = 0;
  const double bound = options_.run.optim.clip_grad;
  if (bound > 0 && report.grad_norm > bound) reducer_.Scale(bound / report.grad_norm);
  optimizer_.Step(report.lr);
  return OkStatus();
}

Status Trainer::WriteBadBatch() const {
  const std::string what =
      std::to_string(kMaxSkippedInARow) + " gradients in a row were not finite";
  if (control_.rank() != 0) return DataLoss(what);
  const nlohmann::json json = {{"step", assignment_.step},
                               {"group_ids", assignment_.group_ids},
                               {"group_offsets", assignment_.group_offsets},
                               {"lengths", assignment_.lengths},
                               {"advantages", assignment_.advantages},
                               {"token_weights", assignment_.token_weights}};
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(options_.bad_batch_path, json.dump(1) + "\n"));
  return DataLoss(what + "; the last batch is in " + options_.bad_batch_path +
                  "; lower run.optim.lr, or check the start model for values that are not finite");
}

}  // namespace buttress
