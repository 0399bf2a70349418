// The groups that the worker holds, from lease to acknowledgement. Bookkeeping only: no engine, no
// network.
//
//   Add ──► waiting ──TakeRunnable──► sampling ──last Score──► complete ──NextComplete──► submitting ──Finish──► (finished, reported)
//             │                          │                        ▲                          │
//             │                          │                        └──────RetrySubmit─────────┘
//             └── Return (reason), Revoke: at any point ──► (returned, reported) or forgotten
//
// Bound: `capacity` groups in any state; Add refuses more. What is finished or returned is kept
// until an Exchange has reported it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/sync.h"
#include "lib/rpc/coordinator_client.h"
#include "rollout_worker/lease.h"
#include "rollout_worker/scoring_pool.h"

namespace buttress {

struct CompleteGroup {
  LeaseKey key;
  EncodedGroup group;
};

struct GroupCounts {
  std::size_t held = 0;
  std::size_t waiting = 0;
  std::size_t unsent = 0;  // complete or submitting
  std::int64_t spool_bytes = 0;
};

// Thread-safe.
class HeldGroups {
 public:
  HeldGroups(std::string worker_id, std::size_t capacity)
      : worker_id_(std::move(worker_id)), capacity_(capacity) {}

  // False if its group is held already or there is no room; the coordinator then sends it again.
  bool Add(WorkerLease lease);

  // Requests of all waiting groups that `loaded` may sample, oldest group first; they are sampling
  // now. Groups that it can never sample, because they want exactly an older version, are given
  // back.
  std::vector<SampleRequest> TakeRunnable(const PolicyVersion& loaded);

  // False once the group is revoked, returned or newer: drop the sample.
  bool Wants(const SampleId& id) const;

  // What the scoring pool needs for a completion that the engine finished; nothing if it is not
  // wanted.
  std::optional<ScoreRequest> ToScore(const EngineResult& result) const;

  // A sample failed: the request to try again, the first time; afterwards nothing, and the caller
  // returns the group.
  std::optional<SampleRequest> Retry(const SampleId& id);

  // A scored completion; the group becomes complete with its last one.
  void Score(ScoredCompletion scored);

  // The oldest complete group, which is submitting now; waits up to `timeout` for one.
  std::optional<CompleteGroup> NextComplete(std::chrono::milliseconds timeout);
  void RetrySubmit(const LeaseKey& key);
  void Finish(const LeaseKey& key);

  // These return the samples that the engine should cancel.
  std::vector<SampleId> Return(const LeaseKey& key, v1::ReturnReason reason);
  std::vector<SampleId> Revoke(const LeaseKey& key);
  // Revoke for a lease of the same group with an older epoch.
  std::vector<SampleId> RevokeOlder(const LeaseKey& key);
  std::vector<SampleId> ReturnAll(v1::ReturnReason reason);
  // Return for all groups that wait; nothing of them is in the engine.
  void ReturnWaiting(v1::ReturnReason reason);

  // True while groups that want exactly `loaded` are not sampled to the end: the weights must stay.
  bool NeedsExactly(const PolicyVersion& loaded) const;

  // Fills held, finished and returned. Reported(request) forgets what that request has told.
  void Describe(v1::ExchangeRequest& request) const;
  void Reported(const v1::ExchangeRequest& request);

  GroupCounts counts() const;
  std::size_t room() const;

  // Rises with every change. Waits until it is not `seen` any more or `timeout` has passed, and
  // returns it.
  std::uint64_t WaitForChange(std::uint64_t seen, std::chrono::milliseconds timeout) const;
  // Waits until at least `room` groups fit, something is to be returned, or `timeout` has passed.
  void WaitForRoom(std::size_t room, std::chrono::milliseconds timeout) const;
  // Wakes WaitForChange, for changes elsewhere (weights are loaded).
  void Touch();

 private:
  enum class Phase { kWaiting, kSampling, kComplete, kSubmitting };

  struct Held {
    WorkerLease lease;
    Phase phase = Phase::kWaiting;
    std::vector<std::optional<Completion>> scored;  // [n]
    std::vector<bool> retried;                      // [n]
    std::int32_t missing = 0;
    EncodedGroup encoded;
  };

  const Held* FindSampling(const SampleId& id) const REQUIRES(mutex_);
  std::map<std::uint64_t, Held>::iterator Find(const LeaseKey& key) REQUIRES(mutex_);
  std::vector<SampleId> Drop(std::map<std::uint64_t, Held>::iterator held) REQUIRES(mutex_);
  EncodedGroup Encode(Held& held) const REQUIRES(mutex_);
  // Return for waiting groups that `gone` holds for.
  template <class Predicate>
  void ReturnWaitingIf(v1::ReturnReason reason, Predicate gone) REQUIRES(mutex_);
  void Changed() REQUIRES(mutex_);

  const std::string worker_id_;
  const std::size_t capacity_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::map<std::uint64_t, Held> held_ GUARDED_BY(mutex_);  // by group id
  std::map<LeaseKey, v1::ReturnReason> returned_ GUARDED_BY(mutex_);
  std::vector<LeaseKey> finished_ GUARDED_BY(mutex_);
  std::uint64_t change_ GUARDED_BY(mutex_) = 0;
};

}  // namespace buttress
