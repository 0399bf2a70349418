#include "tests/support/fakes/fake_engine.h"

#include "lib/base/text/random.h"
#include "tests/support/patience.h"

namespace buttress {
namespace {

constexpr std::uint64_t kVocabulary = 100;
constexpr std::uint64_t kLongest = 4;

}  // namespace

void FakeEngine::Stall(bool stalled) {
  MutexLock lock(mutex_);
  stalled_ = stalled;
  CompleteAll();
}

void FakeEngine::FailNext(int count, Status error) {
  MutexLock lock(mutex_);
  fail_ = count;
  error_ = std::move(error);
}

void FakeEngine::SetAvailable(bool available) {
  MutexLock lock(mutex_);
  available_ = available;
  CompleteAll();
}

void FakeEngine::TruncateNext(int count) {
  MutexLock lock(mutex_);
  truncate_ = count;
}

void FakeEngine::FailUpdates(int count) {
  MutexLock lock(mutex_);
  fail_updates_ = count;
}

bool FakeEngine::WaitForInFlight(std::size_t count) {
  MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, kPatience,
                          [&]() REQUIRES(mutex_) { return in_flight_.size() == count; });
}

void FakeEngine::LetSleep(bool sleeps) {
  MutexLock lock(mutex_);
  sleeps_ = sleeps;
}

bool FakeEngine::WaitForSleep() {
  MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, kPatience, [this]() REQUIRES(mutex_) { return asked_to_sleep_; });
}

bool FakeEngine::Sleep() {
  MutexLock lock(mutex_);
  asked_to_sleep_ = true;
  changed_.NotifyAll();
  return sleeps_;
}

std::vector<PolicyVersion> FakeEngine::updates() const {
  MutexLock lock(mutex_);
  return updates_;
}

std::set<SampleId> FakeEngine::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

Status FakeEngine::Submit(SampleRequest request) {
  MutexLock lock(mutex_);
  const SampleId id = request.id;
  in_flight_.emplace(id, std::move(request));
  CompleteAll();
  changed_.NotifyAll();
  return OkStatus();
}

void FakeEngine::Cancel(SampleId id) {
  MutexLock lock(mutex_);
  const auto found = in_flight_.find(id);
  if (found == in_flight_.end()) return;
  EngineResult result;
  result.id = id;
  result.finish_reason = FinishReason::kAbort;
  in_flight_.erase(found);
  results_.push_back(std::move(result));
  cancelled_.insert(id);
  changed_.NotifyAll();
}

std::vector<EngineResult> FakeEngine::Poll(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout, [this]() REQUIRES(mutex_) { return !results_.empty(); });
  std::vector<EngineResult> results(std::make_move_iterator(results_.begin()),
                                    std::make_move_iterator(results_.end()));
  results_.clear();
  return results;
}

Status FakeEngine::UpdateWeights(const WeightManifest& manifest) {
  MutexLock lock(mutex_);
  if (fail_updates_ > 0) {
    --fail_updates_;
    ++refused_updates_;
    return Unavailable("told to refuse weights");
  }
  version_ = manifest.version;
  updates_.push_back(version_);
  return OkStatus();
}

PolicyVersion FakeEngine::version() const {
  MutexLock lock(mutex_);
  return version_;
}

EngineStats FakeEngine::stats() const {
  MutexLock lock(mutex_);
  EngineStats stats;
  stats.running = static_cast<std::int64_t>(in_flight_.size());
  stats.unchanged_weights = refused_updates_;
  stats.canary_difference = static_cast<double>(refused_updates_) / 4;
  stats.available = available_;
  stats.servers = servers_;
  return stats;
}

void FakeEngine::SetServers(std::vector<ServerState> servers) {
  MutexLock lock(mutex_);
  servers_ = std::move(servers);
}

EngineResult FakeEngine::Complete(const SampleRequest& request) {
  EngineResult result;
  result.id = request.id;
  if (!available_) {
    result.finish_reason = FinishReason::kAbort;
    result.status = Unavailable("no server serves");
    return result;
  }
  if (fail_ > 0) {
    --fail_;
    result.finish_reason = FinishReason::kError;
    result.status = error_;
    return result;
  }
  RandomStream random({request.sampling.seed, 0});
  const std::uint64_t length = 1 + random.Below(kLongest);
  for (std::uint64_t i = 0; i < length; ++i) {
    result.token_ids.push_back(static_cast<std::int32_t>(random.Below(kVocabulary)));
    result.logprobs.push_back(-1.0F);
  }
  result.segments = {{0, version_}};
  result.finish_reason = truncate_ > 0 ? FinishReason::kLength : FinishReason::kStop;
  if (truncate_ > 0) --truncate_;
  return result;
}

void FakeEngine::CompleteAll() {
  if (stalled_ && available_) return;
  for (const auto& [id, request] : in_flight_) results_.push_back(Complete(request));
  in_flight_.clear();
  changed_.NotifyAll();
}

}  // namespace buttress
