#include "rollout_worker/submitter.h"

#include <string>

#include "lib/base/log.h"

namespace buttress {
namespace {

// More than one, so that the coordinator has something to commit together while it waits for its
// disk.
constexpr int kThreads = 8;
constexpr std::chrono::milliseconds kStopPoll(50);

bool WorthTryingAgain(const Status& status) {
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
    const std::optional<CompleteGroup> group = groups_.NextComplete(kStopPoll);
    if (group.has_value()) Submit(*group, backoff);
  }
}

void Submitter::Submit(const CompleteGroup& group, Backoff& backoff) {
  const Result<v1::SubmitResult> result = session_.Submit(group.key, group.group);
  if (result.ok()) {
    backoff.Reset();
    if (*result != v1::SUBMIT_RESULT_ACCEPTED && *result != v1::SUBMIT_RESULT_DUPLICATE) {
      Log(kInfo, "group came too late",
          {{"group", group.key.group_id}, {"result", v1::SubmitResult_Name(*result)}});
    }
    groups_.Finish(group.key);
    return;
  }
  if (WorthTryingAgain(result.status())) {
    metrics_.submit_retries.Increment();
    stop_.WaitFor(std::chrono::milliseconds(backoff.NextMs()));
    groups_.RetrySubmit(group.key);
    return;
  }
  Log(kError, "the coordinator refuses a group; its lease is given back",
      {{"group", group.key.group_id}, {"error", result.status().ToString()}});
  groups_.Return(group.key, v1::RETURN_REASON_ENGINE_FAILED);
}

}  // namespace buttress
