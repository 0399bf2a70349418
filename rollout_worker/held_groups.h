// The groups that the worker holds, from lease to acknowledgement. Bookkeeping only: it calls
// neither the engine nor the network.
//
//   Add ──► waiting ──StartRunnable──► sampling ──AddScored──► complete ──WaitForComplete──►
//   submitting ──Finish──► (finished, reported)
//
//   Requeue takes a submitting group back to complete. ReportPartials tells the coordinator what a
//   sampling group has, so that it outlives this worker. Return takes a group of any phase to
//   (returned, reported); Revoke forgets it.
//
// Bound: as many unscored completions as `capacity` groups have, and `capacity` groups that are
// complete. So the end of each completion makes room, and a few long ones do not keep others from
// the engine. Groups that become complete after room() was asked for take no place from it: Add
// rejects leases from twice that many unscored completions on. A finished or returned lease is kept
// until an Exchange has reported it.
//
// Where the engine shares the GPU of the learner, complete groups are held back until it has left
// it: the last group of a step lets the learner train.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/thread/sync.h"
#include "lib/experience/lease.h"
#include "lib/experience/partial.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/scoring/scoring_pool.h"

namespace buttress {

// A lease that this worker can sample.
struct WorkerLease {
  Lease lease;
  std::string prompt_text;  // for the verifier; includes special tokens
  std::map<std::int32_t, PartialCompletion> begun = {};  // completions to continue, by index
  std::shared_ptr<const EpisodeTask> task = nullptr;     // of its episodes, where run.env is on

  // Returns the request for completion `index`. Its seed depends only on the group's seed and the
  // index.
  SampleRequest RequestFor(std::int32_t index) const;
};

// Decodes the prompt. Of `partials` those are continued that fit the lease; a last token that ends
// one without a report of the end is sampled again. kInvalidArgument if the tokenizer lacks one of
// the prompt's tokens.
Result<WorkerLease> PrepareLease(Lease lease, std::vector<PartialCompletion> partials,
                                 const Tokenizer& tokenizer);

struct CompleteGroup {
  LeaseRef ref;
  EncodedGroup group;
  std::int64_t tokens = 0;
};

struct GroupCounts {
  std::size_t held = 0;
  std::size_t waiting = 0;
  std::size_t unsent = 0;  // completely scored
  std::int64_t spool_bytes = 0;
};

// Tokens that ended here, since the start.
struct TokenCounts {
  std::int64_t cut = 0;      // of completions that nobody wants, and of leases that ended
  std::int64_t refused = 0;  // of groups that the coordinator refused
  // Of completions that came to this worker complete: sampled, but not by its engine.
  std::int64_t received = 0;
  // Of returned leases, which the coordinator keeps: they count where their completion ends, and
  // neither as generated nor as cut here.
  std::int64_t handed_on = 0;
};

// Thread-safe.
class HeldGroups {
 public:
  // With `mask_old`, tokens that are older than their lease allows are outside of the trained spans
  // (OldTokens::kMask). With `hold_back`, complete groups wait for Release.
  HeldGroups(std::string worker_id, std::size_t capacity, bool mask_old = false,
             bool hold_back = false)
      : worker_id_(std::move(worker_id)),
        capacity_(capacity),
        mask_old_(mask_old),
        hold_back_(hold_back) {}

  // Returns false if the group is held already or there is no room; the coordinator then sends the
  // lease again.
  bool Add(WorkerLease lease);

  // Moves every waiting group that `loaded` may sample to sampling and returns their requests,
  // oldest group first. Returns the lease of every waiting group that needs exactly an older
  // version than `loaded`, because the worker can never sample it.
  std::vector<SampleRequest> StartRunnable(const PolicyVersion& loaded);

  // Returns false if the sample's group is no longer held under its lease, or the sample is scored
  // already.
  bool IsWanted(const SampleId& id) const;

  // Adds a completion that the engine finished and returns the request to score it: at once, or
  // where `scoring` wants groups that of the whole group with its last completion. Returns nullopt
  // before that, and for a completion that is no longer wanted.
  std::optional<ScoreRequest> AddSampled(EngineResult result, const ScoringPool& scoring);

  // Returns the request that repeats a failed sample. Returns nullopt for the second failure of the
  // same sample, after which the caller returns the lease.
  std::optional<SampleRequest> Retry(const SampleId& id);

  // Adds a scored completion. The last one of a group makes the group complete.
  void AddScored(ScoredCompletion scored);

  bool holds_back() const { return hold_back_; }

  // Lets WaitForComplete hand out groups until another one is added. Does nothing while a group is
  // not sampled.
  void Release();

  // Moves the oldest complete group to submitting. Waits up to `timeout` for one; nullopt if none
  // is complete by then, or they are held back.
  std::optional<CompleteGroup> WaitForComplete(std::chrono::milliseconds timeout);
  // Moves a group whose submission failed back to complete.
  void Requeue(CompleteGroup group);
  // Records that the coordinator has answered the submission, and whether it has the group now.
  void Finish(const CompleteGroup& group, bool accepted);
  // Returns the lease of a group that the coordinator calls wrong.
  void ReturnRefused(const CompleteGroup& group);
  // Counts tokens that the engine sampled for nothing.
  void CountCut(std::int64_t tokens);
  // Records that a completion which ended before it came here is taken for one of the engine.
  void CountReceived(std::int64_t tokens);
  // Records that the tokens of a sample that has failed are counted, or that the engine has never
  // had it. AddSampled does so for a sample that has finished.
  void CountHandedOn(const SampleId& id, bool sampled);

  // These functions return the samples that the engine should cancel.
  std::vector<SampleId> Return(const LeaseRef& ref, ReturnReason reason);
  std::vector<SampleId> Revoke(const LeaseRef& ref);
  // Revokes the lease of the same group if its epoch is older than that of `ref`.
  std::vector<SampleId> RevokeOlder(const LeaseRef& ref);
  // ReturnUnsampled leaves the groups that are sampled.
  std::vector<SampleId> ReturnUnsampled(ReturnReason reason);
  std::vector<SampleId> ReturnAll(ReturnReason reason);

  // Returns the leases of all waiting groups. The engine has no sample of them.
  void ReturnWaiting(ReturnReason reason);

  // Returns true while a group that may only be sampled by `loaded` is not sampled completely, so
  // that the weights must not change.
  bool NeedsExactly(const PolicyVersion& loaded) const;

  // Adds to `request` the tokens that the coordinator does not have yet: of `unfinished` samples of
  // the engine, of the completions that have ended in groups that have not, and those that a lease
  // brought; 1 MiB at most.
  // Returns whether all found room. MarkReported completes it.
  bool ReportPartials(std::span<const EngineResult> unfinished, v1::ExchangeRequest& request);
  // Records that the coordinator has lost what was reported.
  void ForgetPartials();

  // Fills the fields held, finished and returned of `request`.
  void Fill(v1::ExchangeRequest& request) const;
  // Forgets the finished and returned leases that `request` has reported.
  void MarkReported(const v1::ExchangeRequest& request);

  GroupCounts counts() const;
  TokenCounts token_counts() const;
  // Returns how many more groups fit.
  std::size_t room() const;

  // Waits until the change counter differs from `seen` or `timeout` has passed, and returns the
  // counter. Every change of the groups raises it.
  std::uint64_t WaitForChange(std::uint64_t seen, std::chrono::milliseconds timeout) const;
  // Waits until `room` more groups fit, a lease is to be returned, or `timeout` has passed.
  void WaitForRoom(std::size_t room, std::chrono::milliseconds timeout) const;
  // Raises the change counter on behalf of a change elsewhere, such as loaded weights.
  void Notify();

 private:
  enum class Phase { kWaiting, kSampling, kEncoding, kComplete, kSubmitting };  // in this order

  struct Held {
    WorkerLease work;
    Phase phase = Phase::kWaiting;
    std::vector<EngineResult> sampled;                    // and not yet handed out to be scored
    std::vector<EngineResult> scoring;                    // copies of those that are
    std::vector<std::optional<ScoredCompletion>> scored;  // [n]
    std::vector<bool> retried;                            // [n]
    std::vector<std::int32_t> reported;                   // [n] tokens that the coordinator keeps
    std::int32_t missing = 0;                             // completions that are not scored
    EncodedGroup encoded;                                 // while complete
    std::size_t encoded_bytes = 0;                        // while complete or submitting
    std::int64_t tokens = 0;                              // of the completions
  };

  using Groups = std::map<std::uint64_t, Held>;  // by group id

  // Tokens of a sample that are on their way to the coordinator.
  struct Report {
    SampleId id;
    bool retried = false;  // Held::retried then
    std::int32_t end = 0;
  };

  // Returns the part of the sample that is not reported yet, at most `most` tokens of it.
  static std::optional<PartialCompletion> Unreported(Held& held, const EngineResult& sample,
                                                     std::int32_t most);
  // Returns the leases of the groups up to `last`.
  std::vector<SampleId> ReturnUpTo(Phase last, ReturnReason reason);
  // Erases a group that the coordinator is told to lease again.
  std::vector<SampleId> HandOn(Groups::iterator held, ReturnReason reason) REQUIRES(mutex_);

  const Held* FindSampling(const SampleId& id) const REQUIRES(mutex_);
  Groups::iterator Find(const LeaseRef& ref) REQUIRES(mutex_);
  std::vector<SampleId> Erase(Groups::iterator held) REQUIRES(mutex_);
  // Returns the leases of the waiting groups for which `predicate` holds.
  template <class Predicate>
  void ReturnWaitingIf(ReturnReason reason, Predicate predicate) REQUIRES(mutex_);
  std::size_t TakenLocked() const REQUIRES(mutex_);
  std::size_t RoomLocked() const REQUIRES(mutex_);
  void EndHandedOn(const SampleId& id, bool sampled) REQUIRES(mutex_);
  void NotifyLocked() REQUIRES(mutex_);

  const std::string worker_id_;
  const std::size_t capacity_;
  const bool mask_old_;
  const bool hold_back_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  Groups held_ GUARDED_BY(mutex_);
  std::map<LeaseRef, ReturnReason> returned_ GUARDED_BY(mutex_);
  std::vector<LeaseRef> finished_ GUARDED_BY(mutex_);
  TokenCounts tokens_ GUARDED_BY(mutex_);
  std::vector<Report> reports_ GUARDED_BY(mutex_);
  // Reported tokens of samples whose lease was returned, until the engine has ended them.
  std::map<SampleId, std::int32_t> handed_on_ GUARDED_BY(mutex_);
  bool released_ GUARDED_BY(mutex_) = false;
  std::uint64_t change_ GUARDED_BY(mutex_) = 0;
};

}  // namespace buttress
