#include "rollout_worker/vllm/weight_pusher.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "lib/base/net/retry.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/config/run_folder.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kMaxReviveMs = 30000;
constexpr milliseconds kPushWaitSlice(200);
// The largest mean difference of log-probs, in nats, between servers and learners with the same
// weights. Kernels and rounding cause a difference. Measured on canaries, vLLM in float32 differed
// by 5e-7 from a learner in float32 (3 layers); vLLM in bfloat16 differed by 0.006 from one in
// bfloat16 (3 and 24 layers) and by 0.01 from one in float32 (3 layers). The bound for bfloat16 is
// wide, because the error grows with the logits: between 16 and 32, adjacent bfloat16 values are
// 1/8 apart.
constexpr double kFloat32Bound = 1e-3;
constexpr double kBfloat16Bound = 0.05;

// vLLM ends if it is told to load a folder that is not there. The publisher keeps a few versions
// and deletes the older ones.
bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

}  // namespace

WeightPusher::WeightPusher(const VllmConfig& config, const std::string& api_key, ServerPool& pool,
                           SampleRunner& runner, PushedWeights initial, InFlight in_flight,
                           std::string out)
    : config_(config),
      in_flight_(in_flight),
      out_(std::move(out)),
      pool_(pool),
      runner_(runner),
      baselines_(pool.size()),
      goal_{std::make_shared<PushedWeights>(std::move(initial)), config.launch.colocate, 1},
      version_(goal_.target->version),
      outcomes_(pool.size()),
      differences_(pool.size()) {
  for (std::size_t i = 0; i < pool.size(); ++i)
    controls_.push_back(std::make_unique<VllmControl>(config, api_key));
  pool_.SetTarget(version_);
  for (std::size_t i = 0; i < pool.size(); ++i) threads_.emplace_back([this, i] { Run(i); });
}

WeightPusher::~WeightPusher() {
  Stop();
  for (std::thread& thread : threads_) thread.join();
}

void WeightPusher::Stop() {
  for (const auto& control : controls_) control->Stop();
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

Status WeightPusher::WaitForStart(std::int64_t patience_ms, std::int64_t ready_ms) {
  const std::int64_t now_ms = RealClock().MonotonicMs();
  const std::int64_t until_ms = now_ms + patience_ms, ready_until_ms = now_ms + ready_ms;
  MutexLock lock(mutex_);
  const auto started = [&]() REQUIRES(mutex_) {
    const std::int64_t at_ms = RealClock().MonotonicMs();
    if (!Refusal().ok() || (served_ && at_ms >= until_ms)) return true;
    return AllTried() && (served_ || at_ms >= ready_until_ms);
  };
  while (!changed_.WaitFor(mutex_, kPushWaitSlice, started)) {
    if (ShutdownRequested()) return Cancelled("interrupted while the vLLM servers start");
  }
  BUTTRESS_RETURN_IF_ERROR(Refusal());
  return served_ ? OkStatus() : FirstFailure();
}

// A server that is down may come up; one with the wrong settings needs a person.
Status WeightPusher::Refusal() const {
  for (const std::optional<Outcome>& outcome : outcomes_) {
    if (outcome.has_value() && !outcome->status.ok() && !WorthRetrying(outcome->status))
      return outcome->status;
  }
  return OkStatus();
}

Status WeightPusher::Push(PushedWeights weights) {
  MutexLock lock(mutex_);
  if (!(weights.version == goal_.target->version)) {
    served_ = false;
    pool_.SetTarget(weights.version);
    SetGoal(std::make_shared<PushedWeights>(std::move(weights)), goal_.sleep);
  }
  if (goal_.sleep) {
    version_ = goal_.target->version;
    return OkStatus();
  }
  interrupted_ = false;
  pushing_ = true;
  const auto done = [this]() REQUIRES(mutex_) {
    return stopped_ || interrupted_ || served_ || AllTried();
  };
  while (!changed_.WaitFor(mutex_, kPushWaitSlice, done)) {
  }
  pushing_ = false;
  if (served_) return OkStatus();
  return stopped_ || interrupted_ ? Cancelled("interrupted while servers load weights")
                                  : FirstFailure();
}

void WeightPusher::SetGoal(Target target, bool sleep) {
  goal_ = {std::move(target), sleep, goal_.number + 1};
  changed_.NotifyAll();
}

bool WeightPusher::Sleep() {
  MutexLock lock(mutex_);
  if (pushing_) return false;
  if (!goal_.sleep) SetGoal(goal_.target, true);
  return pool_.AllSleep();
}

void WeightPusher::Wake() {
  MutexLock lock(mutex_);
  if (goal_.sleep) SetGoal(goal_.target, false);
}

void WeightPusher::Interrupt() {
  MutexLock lock(mutex_);
  interrupted_ = true;
  changed_.NotifyAll();
}

PolicyVersion WeightPusher::version() const {
  MutexLock lock(mutex_);
  return version_;
}

void WeightPusher::AddTo(EngineStats& stats) const {
  MutexLock lock(mutex_);
  stats.canary_difference = *std::max_element(differences_.begin(), differences_.end());
  stats.unchanged_weights = unchanged_weights_;
}

void WeightPusher::Run(std::size_t server) {
  Backoff backoff(
      {.initial_ms = config_.revive_ms, .max_ms = std::max(config_.revive_ms, kMaxReviveMs)},
      HashText("revive" + std::to_string(server)));
  std::uint64_t seen = 0;
  std::int64_t wait_ms = 0;
  while (const std::optional<Goal> goal = NextGoal(seen, wait_ms)) {
    seen = goal->number;
    wait_ms = config_.revive_ms;
    if (IsDue(server, *goal)) {
      const Status status =
          goal->sleep ? PutToSleep(server, *goal->target) : Bring(server, *goal->target);
      Record(server, *goal, status);
      if (status.ok()) backoff.Reset();
      if (!status.ok()) wait_ms = backoff.NextMs();
    } else if (!pool_.Serves(server) && !pool_.Sleeps(server)) {
      RecordLost(server, *goal->target);
    }
  }
}

std::optional<WeightPusher::Goal> WeightPusher::NextGoal(std::uint64_t seen, std::int64_t wait_ms) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, milliseconds(wait_ms),
                   [&]() REQUIRES(mutex_) { return stopped_ || goal_.number != seen; });
  if (stopped_) return std::nullopt;
  return goal_;
}

bool WeightPusher::IsDue(std::size_t server, const Goal& goal) const {
  const bool needs_weights = pool_.NeedsWeights(server, goal.target->version);
  if (!goal.sleep) return needs_weights;
  return pool_.Serves(server) || (needs_weights && !pool_.Sleeps(server));
}

// A server that was lost may be another process. vLLM can bring no weights below its adapters, so
// that a server with adapters keeps them.
Status WeightPusher::PutToSleep(std::size_t server, const PushedWeights& weights) {
  ServerInfo info = pool_.Info(server);
  if (!pool_.Serves(server)) {
    BUTTRESS_ASSIGN_OR_RETURN(info, controls_[server]->Probe(info.url));
  }
  if (!pool_.BeginUpdate(server)) return Unavailable(info.url + " failed again before it slept");
  const Status asleep =
      controls_[server]->Sleep(info.url, /*keeps_weights=*/weights.kind != WeightsKind::kModel);
  if (asleep.code() == StatusCode::kCancelled) return asleep;
  if (!asleep.ok()) {
    RestartStuck(info.url);
    pool_.MarkLost(server, asleep);
    return asleep;
  }
  if (!pool_.FallAsleep(server, info)) return Unavailable(info.url + " failed as it fell asleep");
  Log(kInfo, "a vLLM server sleeps", {{"server", info.url}});
  return OkStatus();
}

// Probes a lost server before anything else, so that a server that hangs is found out while it is
// still lost, and samples do not wait for it.
Status WeightPusher::Bring(std::size_t server, const PushedWeights& weights) {
  if (!IsFolder(weights.folder)) {
    return Unavailable(weights.folder + " was deleted, or is not visible here; policy " +
                       ToString(weights.version) + " waits for a newer version");
  }
  ServerInfo info = pool_.Info(server);
  bool loaded = false;
  if (!pool_.Serves(server)) {
    const std::int64_t started_at_ms = info.started_at_ms;
    BUTTRESS_ASSIGN_OR_RETURN(info, controls_[server]->Probe(info.url));
    if (!info.asleep) {
      Log(kInfo, "vLLM server",
          {{"server", info.url},
           {"vllm", info.version},
           {"model", info.model},
           {"concurrency", info.concurrency}});
    }
    // The process that has proven this version is still there: it only failed to answer for a time.
    loaded = started_at_ms != 0 && info.started_at_ms == started_at_ms &&
             pool_.Served(server) == weights.version && !info.asleep;
  }
  const bool adapters = weights.kind == WeightsKind::kAdapters;
  BUTTRESS_ASSIGN_OR_RETURN(
      const VllmWeights way,
      ChooseTransfer(config_, info.transfer, weights.kind != WeightsKind::kModel, info.url));
  if (adapters) info.model = kAdapterModel;
  if (!pool_.BeginUpdate(server))
    return Unavailable(info.url + " failed again before it loaded weights");
  Status status;
  if (!loaded && weights.kind != WeightsKind::kStarted) status = Load(server, info, weights, way);
  if (info.asleep && weights.kind == WeightsKind::kStarted)
    status = controls_[server]->WakeUp(info.url);
  if (status.ok()) status = Prove(server, info, weights);
  if (!status.ok()) {
    if (status.code() != StatusCode::kCancelled) pool_.MarkLost(server, status);
    return status;
  }
  runner_.Continue(server, weights.version);
  if (!pool_.Serve(server, info, weights.version))
    return Unavailable(info.url + " failed again while it loaded weights");
  runner_.Wake();
  return OkStatus();
}

Status WeightPusher::Load(std::size_t server, const ServerInfo& info, const PushedWeights& weights,
                          VllmWeights way) {
  const bool keep = in_flight_ == InFlight::kKeepKv;
  if (in_flight_ == InFlight::kDrain) runner_.Drain(server);
  Status pushed = controls_[server]->PushWeights(
      info, {weights.folder, way, ToString(weights.version), keep},
      [&] { keep ? runner_.Hold(server) : runner_.Interrupt(server); });
  const bool sleeps_on = info.asleep && pushed.code() == StatusCode::kDeadlineExceeded;
  if (IsStuckInNccl(way, pushed) || sleeps_on) RestartStuck(info.url);
  return pushed;
}

void WeightPusher::RestartStuck(const std::string& url) const {
  Status asked = FailedPrecondition("the run did not start it; restart it by hand");
  if (config_.launch.on() && !out_.empty())
    asked = WriteFileAtomic(VllmRestartPath(out_, url.substr(url.rfind(':') + 1)), url + "\n");
  Log(kError, "a vLLM server is stuck",
      {{"server", url}, {"restart", asked.ok() ? "asked for" : asked.ToString()}});
}

Status WeightPusher::Prove(std::size_t server, const ServerInfo& info,
                           const PushedWeights& weights) {
  if (weights.canaries.empty()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(
      Canaries shown, controls_[server]->MeasureCanaries(info, weights.canaries,
                                                         "canary-" + ToString(weights.version)));
  VersionCanaries now{weights.version, weights.canaries, std::move(shown)};
  const CanaryProof proof = ProveVersion(now, baselines_[server], Bound(info, weights), info.url);
  if (proof.status.ok() && proof.moved) baselines_[server] = std::move(now);
  if (proof.unchanged) {
    Log(kError, "a vLLM server did not change its weights",
        {{"server", info.url}, {"error", proof.status.message()}});
  }
  MutexLock lock(mutex_);
  differences_[server] = proof.difference;
  unchanged_weights_ += proof.unchanged ? 1 : 0;
  if (proof.status.ok() && OlderThan(version_, weights.version)) version_ = weights.version;
  return proof.status;
}

double WeightPusher::Bound(const ServerInfo& info, const PushedWeights& weights) const {
  if (config_.canary_nats > 0) return config_.canary_nats;
  return info.float32 && weights.float32 ? kFloat32Bound : kBfloat16Bound;
}

void WeightPusher::Record(std::size_t server, const Goal& goal, const Status& status) {
  const PushedWeights& weights = *goal.target;
  const std::string url = pool_.Info(server).url;
  MutexLock lock(mutex_);
  outcomes_[server] = Outcome{weights.version, status};
  if (status.ok()) {
    if (OlderThan(version_, weights.version)) version_ = weights.version;
    served_ = served_ || weights.version == goal_.target->version;
    if (!goal.sleep) {
      Log(kInfo, "vLLM serves new weights",
          {{"policy", ToString(weights.version)},
           {"server", url},
           {"canary_difference", differences_[server]}});
    }
  } else if (!stopped_) {
    Log(kWarn, "a vLLM server does not serve the newest weights yet",
        {{"server", url}, {"error", status.ToString()}});
  }
  changed_.NotifyAll();
}

void WeightPusher::RecordLost(std::size_t server, const PushedWeights& weights) {
  const Status why = pool_.last_failure();
  MutexLock lock(mutex_);
  if (outcomes_[server].has_value() && outcomes_[server]->version == weights.version) return;
  outcomes_[server] =
      Outcome{weights.version, Unavailable("no vLLM server serves: " + why.ToString())};
  changed_.NotifyAll();
}

bool WeightPusher::AllTried() const {
  const PolicyVersion& target = goal_.target->version;
  return std::ranges::all_of(outcomes_, [&](const std::optional<Outcome>& outcome) {
    return outcome.has_value() && outcome->version == target;
  });
}

Status WeightPusher::FirstFailure() const {
  const auto failed = std::ranges::find_if(
      outcomes_, [](const std::optional<Outcome>& outcome) { return !outcome->status.ok(); });
  return failed == outcomes_.end() ? OkStatus() : (*failed)->status;
}

}  // namespace buttress
