#include "rollout_worker/held_groups.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/random.h"
#include "lib/experience/codec.h"

namespace buttress {
namespace {

bool SameWeights(const PolicyVersion& a, const PolicyVersion& b) {
  return a.learner_epoch == b.learner_epoch && a.step == b.step;
}

bool MaySample(const Lease& lease, const PolicyVersion& loaded) {
  return lease.exact_version ? SameWeights(loaded, lease.min_version)
                             : !OlderThan(loaded, lease.min_version);
}

}  // namespace

SampleRequest WorkerLease::RequestFor(std::int32_t index) const {
  SampleRequest request;
  request.id = {lease.ref.group_id, lease.ref.lease_epoch, index};
  request.prompt_token_ids = lease.prompt_token_ids;
  request.sampling = lease.sampling;
  request.min_version = lease.min_version;
  request.sampling.seed = MixSeed(lease.sampling.seed, static_cast<std::uint64_t>(index));
  return request;
}

Result<WorkerLease> PrepareLease(Lease lease, const Tokenizer& tokenizer) {
  for (const std::int32_t token : lease.prompt_token_ids) {
    if (token < tokenizer.vocab_size()) continue;
    return InvalidArgument(
        fmt::format("prompt '{}' contains token {}; the tokenizer of this worker has {} tokens",
                    lease.prompt_id, token, tokenizer.vocab_size()));
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::string prompt_text,
                            tokenizer.Decode(lease.prompt_token_ids, SpecialTokens::kKeep));
  return WorkerLease{std::move(lease), std::move(prompt_text)};
}

template <class Predicate>
void HeldGroups::ReturnWaitingIf(ReturnReason reason, Predicate predicate) {
  for (auto it = held_.begin(); it != held_.end();) {
    const Held& held = it->second;
    if (held.phase != Phase::kWaiting || !predicate(held.work.lease)) {
      ++it;
      continue;
    }
    returned_[held.work.lease.ref] = reason;
    it = held_.erase(it);
    NotifyLocked();
  }
}

bool HeldGroups::Add(WorkerLease work) {
  MutexLock lock(mutex_);
  const LeaseRef ref = work.lease.ref;
  if (held_.contains(ref.group_id) || returned_.contains(ref) || held_.size() >= capacity_)
    return false;
  Held held;
  held.missing = work.lease.completions;
  held.scored.resize(static_cast<std::size_t>(held.missing));
  held.retried.resize(static_cast<std::size_t>(held.missing));
  held.work = std::move(work);
  held_.emplace(ref.group_id, std::move(held));
  NotifyLocked();
  return true;
}

std::vector<SampleRequest> HeldGroups::StartRunnable(const PolicyVersion& loaded) {
  MutexLock lock(mutex_);
  ReturnWaitingIf(ReturnReason::kWeightsUnavailable, [&](const Lease& lease) {
    return lease.exact_version && OlderThan(lease.min_version, loaded);
  });
  std::vector<SampleRequest> requests;
  for (auto& [group_id, held] : held_) {
    if (held.phase != Phase::kWaiting || !MaySample(held.work.lease, loaded)) continue;
    held.phase = Phase::kSampling;
    for (std::int32_t i = 0; i < held.work.lease.completions; ++i)
      requests.push_back(held.work.RequestFor(i));
  }
  return requests;
}

const HeldGroups::Held* HeldGroups::FindSampling(const SampleId& id) const {
  const auto found = held_.find(id.group_id);
  if (found == held_.end()) return nullptr;
  const Held& held = found->second;
  if (held.work.lease.ref != id.lease() || held.phase != Phase::kSampling) return nullptr;
  if (id.index < 0 || id.index >= held.work.lease.completions) return nullptr;
  return held.scored[static_cast<std::size_t>(id.index)].has_value() ? nullptr : &held;
}

bool HeldGroups::IsWanted(const SampleId& id) const {
  MutexLock lock(mutex_);
  return FindSampling(id) != nullptr;
}

std::optional<ScoreRequest> HeldGroups::MakeScoreRequest(EngineResult result) const {
  MutexLock lock(mutex_);
  const Held* held = FindSampling(result.id);
  if (held == nullptr) return std::nullopt;
  const Lease& lease = held->work.lease;
  ScoreRequest request;
  request.id = result.id;
  request.source = lease.source;
  request.prompt = held->work.prompt_text;
  request.answer = lease.answer;
  request.extra_json = lease.extra_json;
  request.completion = std::move(result.completion);
  request.completion.index = result.id.index;
  return request;
}

std::optional<SampleRequest> HeldGroups::Retry(const SampleId& id) {
  MutexLock lock(mutex_);
  if (FindSampling(id) == nullptr) return std::nullopt;
  Held& held = held_.at(id.group_id);
  const auto index = static_cast<std::size_t>(id.index);
  if (held.retried[index]) return std::nullopt;
  held.retried[index] = true;
  return held.work.RequestFor(id.index);
}

void HeldGroups::AddScored(ScoredCompletion scored) {
  MutexLock lock(mutex_);
  if (FindSampling(scored.id) == nullptr) return;
  Held& held = held_.at(scored.id.group_id);
  held.scored[static_cast<std::size_t>(scored.id.index)] = std::move(scored.completion);
  if (--held.missing > 0) return;
  held.encoded = Encode(held);
  held.encoded_bytes = held.encoded.bytes.size();
  held.phase = Phase::kComplete;
  NotifyLocked();
}

EncodedGroup HeldGroups::Encode(Held& held) const {
  Lease& lease = held.work.lease;
  Group group;
  group.group_id = lease.ref.group_id;
  group.prompt_id = std::move(lease.prompt_id);
  group.source = std::move(lease.source);
  group.prompt_token_ids = std::move(lease.prompt_token_ids);
  group.worker_id = worker_id_;
  for (std::optional<Completion>& completion : held.scored)
    group.completions.push_back(*std::move(completion));
  return EncodedGroup::Of(group);
}

std::optional<CompleteGroup> HeldGroups::WaitForComplete(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  auto next = held_.end();
  const auto complete = [&]() REQUIRES(mutex_) {
    next = std::find_if(held_.begin(), held_.end(),
                        [](const auto& entry) { return entry.second.phase == Phase::kComplete; });
    return next != held_.end();
  };
  if (!changed_.WaitFor(mutex_, timeout, complete)) return std::nullopt;
  Held& held = next->second;
  held.phase = Phase::kSubmitting;
  return CompleteGroup{held.work.lease.ref, std::move(held.encoded)};
}

void HeldGroups::Requeue(CompleteGroup group) {
  MutexLock lock(mutex_);
  const auto held = Find(group.ref);
  if (held == held_.end()) return;
  held->second.encoded = std::move(group.group);
  held->second.phase = Phase::kComplete;
  NotifyLocked();
}

void HeldGroups::Finish(const LeaseRef& ref) {
  MutexLock lock(mutex_);
  const auto held = Find(ref);
  if (held != held_.end()) Erase(held);
  finished_.push_back(ref);
  NotifyLocked();
}

std::vector<SampleId> HeldGroups::Return(const LeaseRef& ref, ReturnReason reason) {
  MutexLock lock(mutex_);
  returned_[ref] = reason;
  const auto held = Find(ref);
  std::vector<SampleId> unfinished;
  if (held != held_.end()) unfinished = Erase(held);
  NotifyLocked();
  return unfinished;
}

std::vector<SampleId> HeldGroups::Revoke(const LeaseRef& ref) {
  MutexLock lock(mutex_);
  const auto held = Find(ref);
  if (held == held_.end()) return {};
  NotifyLocked();
  return Erase(held);
}

std::vector<SampleId> HeldGroups::RevokeOlder(const LeaseRef& ref) {
  MutexLock lock(mutex_);
  const auto held = held_.find(ref.group_id);
  if (held == held_.end() || held->second.work.lease.ref.lease_epoch >= ref.lease_epoch) return {};
  NotifyLocked();
  return Erase(held);
}

std::vector<SampleId> HeldGroups::ReturnAll(ReturnReason reason) {
  MutexLock lock(mutex_);
  std::vector<SampleId> unfinished;
  while (!held_.empty()) {
    returned_[held_.begin()->second.work.lease.ref] = reason;
    const std::vector<SampleId> samples = Erase(held_.begin());
    unfinished.insert(unfinished.end(), samples.begin(), samples.end());
  }
  NotifyLocked();
  return unfinished;
}

void HeldGroups::ReturnWaiting(ReturnReason reason) {
  MutexLock lock(mutex_);
  ReturnWaitingIf(reason, [](const Lease&) { return true; });
}

bool HeldGroups::NeedsExactly(const PolicyVersion& loaded) const {
  MutexLock lock(mutex_);
  return std::any_of(held_.begin(), held_.end(), [&](const auto& entry) {
    const Held& held = entry.second;
    const Lease& lease = held.work.lease;
    const bool unsampled = held.phase == Phase::kWaiting || held.phase == Phase::kSampling;
    return unsampled && lease.exact_version && SameWeights(lease.min_version, loaded);
  });
}

void HeldGroups::Fill(v1::ExchangeRequest& request) const {
  MutexLock lock(mutex_);
  for (const auto& [group_id, held] : held_) *request.add_held() = ToProto(held.work.lease.ref);
  for (const LeaseRef& ref : finished_) *request.add_finished() = ToProto(ref);
  for (const auto& [ref, reason] : returned_)
    *request.add_returned() = ToProto(ReturnedLease{ref, reason});
}

void HeldGroups::MarkReported(const v1::ExchangeRequest& request) {
  MutexLock lock(mutex_);
  std::set<LeaseRef> finished;
  for (const v1::LeaseRef& ref : request.finished()) finished.insert(FromProto(ref));
  std::erase_if(finished_, [&](const LeaseRef& ref) { return finished.contains(ref); });
  for (const v1::ReturnedLease& returned : request.returned())
    returned_.erase(FromProto(returned.ref()));
}

GroupCounts HeldGroups::counts() const {
  MutexLock lock(mutex_);
  GroupCounts counts;
  counts.held = held_.size();
  for (const auto& [group_id, held] : held_) {
    if (held.phase == Phase::kWaiting) ++counts.waiting;
    if (held.phase == Phase::kComplete || held.phase == Phase::kSubmitting) ++counts.unsent;
    counts.spool_bytes += static_cast<std::int64_t>(held.encoded_bytes);
  }
  return counts;
}

std::size_t HeldGroups::room() const {
  MutexLock lock(mutex_);
  return capacity_ - held_.size();
}

std::uint64_t HeldGroups::WaitForChange(std::uint64_t seen,
                                        std::chrono::milliseconds timeout) const {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout, [&]() REQUIRES(mutex_) { return change_ != seen; });
  return change_;
}

void HeldGroups::WaitForRoom(std::size_t room, std::chrono::milliseconds timeout) const {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout, [&]() REQUIRES(mutex_) {
    return capacity_ - held_.size() >= room || !returned_.empty();
  });
}

void HeldGroups::Notify() {
  MutexLock lock(mutex_);
  NotifyLocked();
}

HeldGroups::Groups::iterator HeldGroups::Find(const LeaseRef& ref) {
  const auto found = held_.find(ref.group_id);
  return found != held_.end() && found->second.work.lease.ref == ref ? found : held_.end();
}

std::vector<SampleId> HeldGroups::Erase(Groups::iterator entry) {
  const Held& held = entry->second;
  const LeaseRef ref = held.work.lease.ref;
  std::vector<SampleId> unfinished;
  if (held.phase == Phase::kSampling) {
    for (std::int32_t i = 0; i < held.work.lease.completions; ++i) {
      if (!held.scored[static_cast<std::size_t>(i)].has_value())
        unfinished.push_back({ref.group_id, ref.lease_epoch, i});
    }
  }
  held_.erase(entry);
  return unfinished;
}

void HeldGroups::NotifyLocked() {
  ++change_;
  changed_.NotifyAll();
}

}  // namespace buttress
