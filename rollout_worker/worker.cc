#include "rollout_worker/worker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/experience/codec.h"
#include "lib/weights/manifest.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kMaxPollMs = 10000;
constexpr std::int64_t kMaxQuietMs = 1000;
// Reports of a worker that leaves, each of at most 1 MiB.
constexpr int kMostHandOns = 64;
// For an engine that is to sleep, and the groups that it held back.
constexpr std::int64_t kSendMs = 5000;
// The time for which the worker collects freed room before it offers it, and the pause after an
// Exchange without news.
constexpr milliseconds kGather(50);

Result<WorkerLease> Prepare(const v1::Lease& proto, const Tokenizer& tokenizer) {
  BUTTRESS_ASSIGN_OR_RETURN(Lease lease, FromProto(proto));
  std::vector<PartialCompletion> partials;
  for (const v1::PartialCompletion& begun : proto.partials()) {
    Result<PartialCompletion> partial = FromProto(begun);
    if (partial.ok()) {
      partials.push_back(*std::move(partial));
    } else {
      Log(kWarn, "a completion starts again from its prompt",
          {{"group", lease.ref.group_id}, {"error", partial.status().ToString()}});
    }
  }
  return PrepareLease(std::move(lease), std::move(partials), tokenizer);
}

}  // namespace

WorkerOptions WorkerOptions::From(const RunConfig& config, std::string worker_id) {
  const std::int64_t group_size = config.run.sampling.group_size;
  const std::int64_t running = (config.local.worker.max_running + group_size - 1) / group_size;
  WorkerOptions options;
  options.worker_id = std::move(worker_id);
  options.capacity_groups =
      static_cast<std::size_t>(running + std::max<std::int64_t>(1, running / 8));
  options.hold_back = config.local.worker.vllm.launch.colocate;
  if (options.hold_back) {
    options.capacity_groups =
        std::max(options.capacity_groups, static_cast<std::size_t>(config.run.batch.prompts));
  }
  options.poll_ms = std::clamp<std::int64_t>(config.run.lease_ms / 3, 1, kMaxPollMs);
  options.drain_ms = config.local.worker.drain_ms;
  const AsyncConfig& async = config.run.async;
  // In the other cases a group is sampled again from its prompt.
  const bool continues =
      !config.run.deterministic && !config.run.env.on() && async.in_flight != InFlight::kAbort;
  options.partial_ms = continues ? async.partial_ms : 0;
  options.mask_old = async.old_tokens == OldTokens::kMask;
  return options;
}

Worker::Worker(WorkerParts parts, WorkerOptions options)
    : parts_(parts),
      options_(std::move(options)),
      groups_(options_.worker_id, options_.capacity_groups, options_.mask_old, options_.hold_back),
      weights_(parts.engine, parts.fetcher, groups_, parts.metrics),
      generation_(parts.engine, parts.scoring, groups_, parts.metrics),
      submitter_(parts.submissions, groups_, parts.metrics) {}

Status Worker::Run() {
  const Status registered = parts_.control.Register();
  if (!registered.ok()) return StopRequested() ? OkStatus() : registered;
  parts_.scoring.SetSteps(parts_.control.steps());
  weights_.Start();
  generation_.Start();
  submitter_.Start();
  parts_.metrics.SetState(WorkerState::kRunning);
  const Status status = ExchangeLoop();
  if (status.ok() && !run_ended_) Drain();
  submitter_.Stop();
  generation_.Stop();
  weights_.Stop();
  Cancel(groups_.ReturnAll(ReturnReason::kDraining));
  parts_.metrics.SetState(WorkerState::kStopped);
  return status;
}

void Worker::RequestDrain() {
  drain_requested_ = true;
  groups_.Notify();
}

bool Worker::StopRequested() const { return drain_requested_ || ShutdownRequested(); }

Status Worker::ExchangeLoop() {
  const std::size_t gather = std::max<std::size_t>(1, options_.capacity_groups / 8);
  std::uint64_t seen = 0;
  while (!StopRequested()) {
    BUTTRESS_RETURN_IF_ERROR(generation_.engine_status());
    groups_.WaitForRoom(gather, kGather);
    const Result<bool> news = Exchange();
    if (StopRequested()) break;  // a stop cancels the call
    if (!news.ok()) return news.status();
    if (run_ended_) {
      Log(kInfo, "the run has ended");
      return OkStatus();
    }
    // The coordinator answers at once for as long as the newest weights are not loaded.
    const milliseconds pause =
        awaits_weights_ ? std::max(kGather, milliseconds(QuietMs())) : kGather;
    if (!*news) seen = groups_.WaitForChange(seen, pause);
  }
  return OkStatus();
}

Result<bool> Worker::Exchange() {
  const bool draining = StopRequested();
  const bool unable =
      weights_.failing_ms() > options_.weights_patience_ms || !parts_.engine.stats().available;
  if (unable) groups_.ReturnWaiting(ReturnReason::kWeightsUnavailable);
  v1::ExchangeRequest request;
  ReportPartials(request);
  groups_.Fill(request);
  parts_.controls.Report(request);
  request.set_draining(draining);
  request.set_capacity(draining || unable ? 0 : static_cast<std::uint32_t>(groups_.room()));
  *request.mutable_loaded_version() = ToProto(parts_.engine.version());
  *request.mutable_time() = Time();
  *request.mutable_tokens() = Tokens();
  request.set_wait_ms(static_cast<std::uint32_t>(WaitMs(request)));
  const Result<v1::ExchangeResponse> response = parts_.control.Exchange(request);
  if (!response.ok()) return response.status();
  groups_.MarkReported(request);
  parts_.controls.MarkReported(request);
  const bool news = Apply(*response);
  if (news) news_ms_ = RealClock().MonotonicMs();
  const GroupCounts counts = groups_.counts();
  parts_.metrics.leases_held.Set(static_cast<double>(counts.held));
  parts_.metrics.spool_bytes.Set(static_cast<double>(counts.spool_bytes));
  return news;
}

bool Worker::ReportPartials(v1::ExchangeRequest& request) {
  const std::int64_t now = RealClock().MonotonicMs();
  const std::uint64_t epoch = parts_.control.coordinator_epoch();
  const bool restarted = epoch != coordinator_epoch_;
  const bool due = now - partials_ms_ >= options_.partial_ms || restarted || StopRequested();
  if (options_.partial_ms == 0 || !due) return false;
  if (restarted) groups_.ForgetPartials();
  coordinator_epoch_ = epoch;
  const bool all = groups_.ReportPartials(parts_.engine.Unfinished(), request);
  if (all) partials_ms_ = now;
  return !all;
}

// An eighth of the time without news: a worker that waits for minutes does not ask many times a
// second, and one that has just got something asks again at once.
std::int64_t Worker::QuietMs() const {
  return std::min(kMaxQuietMs, (RealClock().MonotonicMs() - news_ms_) / 8);
}

// A call that waits cannot offer room that becomes free meanwhile, so without room it is short.
std::int64_t Worker::WaitMs(const v1::ExchangeRequest& request) const {
  if (request.draining()) return 0;
  std::int64_t wait_ms = request.capacity() > 0 ? options_.poll_ms : QuietMs();
  if (options_.partial_ms > 0) wait_ms = std::min(wait_ms, options_.partial_ms);
  return std::min(wait_ms, options_.poll_ms);
}

bool Worker::Apply(const v1::ExchangeResponse& response) {
  bool news = response.leases_size() > 0 || response.revoked_size() > 0;
  for (const v1::LeaseRef& ref : response.revoked()) Cancel(groups_.Revoke(FromProto(ref)));
  awaits_weights_ = response.has_weights();
  if (response.has_weights()) {
    Result<WeightManifest> manifest = ManifestFromProto(response.weights());
    if (manifest.ok()) {
      awaits_weights_ = !weights_.Request(*std::move(manifest));
      news = news || !awaits_weights_;
    } else {
      parts_.metrics.CountWeightFailure(WeightStage::kChecksum);
      Log(kWarn, "the announced manifest is malformed", {{"error", manifest.status().ToString()}});
    }
  }
  for (const v1::Lease& lease : response.leases()) AddLease(lease);
  run_ended_ = response.run_state() == v1::RUN_STATE_FINISHED ||
               response.run_state() == v1::RUN_STATE_STOPPED;
  if (response.order() == v1::WORKER_ORDER_DRAIN && !drain_requested_) {
    Log(kInfo, "an operator drains this worker");
    RequestDrain();
  }
  return news;
}

v1::WorkerTime Worker::Time() const {
  v1::WorkerTime time;
  time.set_up_seconds(MonotonicSeconds() - started_);
  time.set_generating_seconds(generation_.seconds(WaitReason::kEngine));
  time.set_scoring_seconds(generation_.seconds(WaitReason::kVerifier));
  time.set_no_lease_seconds(generation_.seconds(WaitReason::kNoLease));
  time.set_wait_weights_seconds(generation_.seconds(WaitReason::kWeights));
  time.set_submitting_seconds(generation_.seconds(WaitReason::kSubmit));
  time.set_loading_weights_seconds(weights_.loading_seconds());
  return time;
}

v1::WorkerTokens Worker::Tokens() const {
  // In this order, so that no token is cut before it is generated.
  const TokenCounts counts = groups_.token_counts();
  const EngineStats stats = parts_.engine.stats();
  v1::WorkerTokens tokens;
  tokens.set_generated(
      static_cast<std::uint64_t>(stats.generated_tokens + counts.received - counts.handed_on));
  tokens.set_cut(static_cast<std::uint64_t>(stats.cut_tokens + counts.cut - counts.handed_on));
  tokens.set_refused(static_cast<std::uint64_t>(counts.refused));
  return tokens;
}

void Worker::AddLease(const v1::Lease& proto) {
  const LeaseRef ref = FromProto(proto.ref());
  Result<WorkerLease> work = Prepare(proto, parts_.tokenizer);
  if (work.ok()) {
    if (proto.control()) parts_.controls.Score(work->lease, work->prompt_text);
    Cancel(groups_.RevokeOlder(ref));
    groups_.Add(*std::move(work));
    return;
  }
  Log(kWarn, "the worker returns a lease that it cannot sample",
      {{"group", ref.group_id}, {"error", work.status().ToString()}});
  groups_.Return(ref, ReturnReason::kEngineFailed);
}

void Worker::Drain() {
  parts_.metrics.SetState(WorkerState::kDraining);
  groups_.ReturnWaiting(ReturnReason::kDraining);
  Log(kInfo, "draining", {{"groups", groups_.counts().held}, {"budget_ms", options_.drain_ms}});
  Finish(options_.drain_ms);
  if (options_.hold_back) {
    HandOn();
    Cancel(groups_.ReturnUnsampled(ReturnReason::kDraining));
    Finish(kSendMs);
  }
  submitter_.Stop();
  HandOn();
  Cancel(groups_.ReturnAll(ReturnReason::kDraining));
  const Status status = Exchange().status();
  if (!status.ok())
    Log(kWarn, "leases could not be returned; they will expire", {{"error", status.ToString()}});
}

void Worker::Finish(std::int64_t budget_ms) {
  const std::int64_t deadline = RealClock().MonotonicMs() + budget_ms;
  std::int64_t next_exchange = 0;
  std::uint64_t seen = 0;
  while (groups_.counts().held > 0 && RealClock().MonotonicMs() < deadline && !run_ended_) {
    if (RealClock().MonotonicMs() >= next_exchange) {
      const Status status = Exchange().status();
      if (!status.ok())
        Log(kWarn, "the coordinator does not know that this worker drains",
            {{"error", status.ToString()}});
      next_exchange = RealClock().MonotonicMs() + options_.poll_ms;
    }
    seen = groups_.WaitForChange(seen, kGather);
  }
}

// Reports all that the unfinished groups have, so that other workers continue them. The engine
// samples on meanwhile, hence the bound.
void Worker::HandOn() {
  for (int calls = 0; calls < kMostHandOns && options_.partial_ms > 0; ++calls) {
    v1::ExchangeRequest request;
    const bool more = ReportPartials(request);
    if (request.partials().empty()) return;
    groups_.Fill(request);
    request.set_draining(true);
    *request.mutable_loaded_version() = ToProto(parts_.engine.version());
    *request.mutable_tokens() = Tokens();
    *request.mutable_time() = Time();
    if (!parts_.control.Exchange(request).ok()) return;
    groups_.MarkReported(request);
    if (!more) return;
  }
}

void Worker::Cancel(const std::vector<SampleId>& samples) {
  for (const SampleId& sample : samples) parts_.engine.Cancel(sample);
}

}  // namespace buttress
