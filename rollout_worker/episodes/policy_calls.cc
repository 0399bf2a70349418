#include "rollout_worker/episodes/policy_calls.h"

#include <algorithm>
#include <utility>

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPoll(20);
constexpr std::chrono::milliseconds kIdle(100);

}  // namespace

PolicyCalls::PolicyCalls(InferenceEngine& engine) : engine_(engine) {
  thread_ = std::thread([this] { Run(); });
}

PolicyCalls::~PolicyCalls() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

SampleId PolicyCalls::Start(SampleRequest request, Done done) {
  request.task = nullptr;
  {
    MutexLock lock(mutex_);
    request.id.lease_epoch = next_++;
    open_.emplace(request.id, std::move(done));
    changed_.NotifyAll();
  }
  const SampleId id = request.id;
  Submit(std::move(request));
  return id;
}

void PolicyCalls::Submit(SampleRequest request) {
  const Status status = engine_.Submit(request);
  if (status.ok()) return;
  MutexLock lock(mutex_);
  if (status.code() == StatusCode::kResourceExhausted) {
    refused_.push_back(std::move(request));
  } else {
    EndLocked(request.id, FinishReason::kError, status);
  }
}

void PolicyCalls::EndLocked(const SampleId& id, FinishReason reason, Status status) {
  EngineResult result;
  result.id = id;
  result.finish_reason = reason;
  result.status = std::move(status);
  ended_.push_back(std::move(result));
  changed_.NotifyAll();
}

void PolicyCalls::Cancel(const SampleId& id) {
  {
    MutexLock lock(mutex_);
    const auto refused = std::ranges::find(refused_, id, &SampleRequest::id);
    if (refused != refused_.end()) {
      refused_.erase(refused);
      return EndLocked(id, FinishReason::kAbort, Cancelled("cancelled"));
    }
  }
  engine_.Cancel(id);
}

void PolicyCalls::Deliver(EngineResult result) {
  Done done;
  {
    MutexLock lock(mutex_);
    const auto found = open_.find(result.id);
    if (found == open_.end()) return CountLost(static_cast<std::int64_t>(result.token_ids.size()));
    done = std::move(found->second);
    open_.erase(found);
  }
  done(std::move(result));
}

void PolicyCalls::Run() {
  while (!stop_) {
    std::vector<EngineResult> results;
    std::deque<SampleRequest> again;
    {
      MutexLock lock(mutex_);
      changed_.WaitFor(mutex_, kIdle,
                       [this]() REQUIRES(mutex_) { return stop_ || !open_.empty(); });
      results.swap(ended_);
      again.swap(refused_);
      if (open_.empty()) continue;
    }
    for (SampleRequest& request : again) Submit(std::move(request));
    for (EngineResult& result : engine_.Poll(results.empty() ? kPoll : kPoll * 0))
      results.push_back(std::move(result));
    for (EngineResult& result : results) Deliver(std::move(result));
  }
}

}  // namespace buttress
