#include "rollout_worker/submitter.h"

#include "lib/base/report/log.h"

namespace buttress {
namespace {

// With several groups in flight the coordinator commits them in one transaction.
constexpr int kThreads = 8;
constexpr std::chrono::milliseconds kStopPoll(50);

// Returns true for failures of the call; false if the coordinator refuses the group itself.
bool IsTransient(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kResourceExhausted:
    case StatusCode::kCancelled:
    case StatusCode::kNotFound:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Submitter::Start() {
  for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
}

void Submitter::Stop() {
  stop_.Stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Submitter::Run() {
  Backoff backoff({}, HashText("submit"));
  while (!stop_.stopped()) {
    if (auto group = groups_.WaitForComplete(kStopPoll)) Submit(*std::move(group), backoff);
  }
}

void Submitter::Submit(CompleteGroup group, Backoff& backoff) {
  const Result<v1::SubmitResult> result = session_.Submit(group.ref, group.group);
  if (result.ok()) {
    backoff.Reset();
    const bool accepted =
        *result == v1::SUBMIT_RESULT_ACCEPTED || *result == v1::SUBMIT_RESULT_DUPLICATE;
    if (!accepted) {
      Log(kInfo, "the coordinator dropped a late group",
          {{"group", group.ref.group_id}, {"result", v1::SubmitResult_Name(*result)}});
    }
    groups_.Finish(group, accepted);
    return;
  }
  if (IsTransient(result.status())) {
    metrics_.submit_retries.Increment();
    stop_.WaitFor(std::chrono::milliseconds(backoff.NextMs()));
    groups_.Requeue(std::move(group));
    return;
  }
  Log(kError, "the coordinator refuses a group; the worker returns its lease",
      {{"group", group.ref.group_id}, {"error", result.status().ToString()}});
  groups_.ReturnRefused(group);
}

}  // namespace buttress
