#include "rollout_worker/held_groups.h"

#include <algorithm>
#include <set>

namespace buttress {
namespace {

bool SameWeights(const PolicyVersion& a, const PolicyVersion& b) {
  return a.learner_epoch == b.learner_epoch && a.step == b.step;
}

bool MaySample(const WorkerLease& lease, const PolicyVersion& loaded) {
  return lease.exact_version ? SameWeights(loaded, lease.min_version)
                             : !OlderThan(loaded, lease.min_version);
}

}  // namespace

template <class Predicate>
void HeldGroups::ReturnWaitingIf(v1::ReturnReason reason, Predicate gone) {
  for (auto it = held_.begin(); it != held_.end();) {
    if (it->second.phase != Phase::kWaiting || !gone(it->second.lease)) {
      ++it;
      continue;
    }
    returned_[it->second.lease.key] = reason;
    it = held_.erase(it);
    Changed();
  }
}

bool HeldGroups::Add(WorkerLease lease) {
  MutexLock lock(mutex_);
  if (held_.contains(lease.key.group_id) || returned_.contains(lease.key) ||
      held_.size() >= capacity_)
    return false;
  Held held;
  held.missing = lease.completions;
  held.scored.resize(static_cast<std::size_t>(lease.completions));
  held.retried.resize(static_cast<std::size_t>(lease.completions));
  const std::uint64_t group_id = lease.key.group_id;
  held.lease = std::move(lease);
  held_.emplace(group_id, std::move(held));
  Changed();
  return true;
}

std::vector<SampleRequest> HeldGroups::TakeRunnable(const PolicyVersion& loaded) {
  MutexLock lock(mutex_);
  ReturnWaitingIf(v1::RETURN_REASON_WEIGHTS_UNAVAILABLE, [&](const WorkerLease& lease) {
    return lease.exact_version && OlderThan(lease.min_version, loaded);
  });
  std::vector<SampleRequest> requests;
  for (auto& [group_id, held] : held_) {
    if (held.phase != Phase::kWaiting || !MaySample(held.lease, loaded)) continue;
    held.phase = Phase::kSampling;
    for (std::int32_t i = 0; i < held.lease.completions; ++i)
      requests.push_back(held.lease.RequestFor(i));
  }
  return requests;
}

const HeldGroups::Held* HeldGroups::FindSampling(const SampleId& id) const {
  const auto found = held_.find(id.group_id);
  if (found == held_.end() || found->second.lease.key != KeyOf(id) ||
      found->second.phase != Phase::kSampling)
    return nullptr;
  if (id.index < 0 || id.index >= found->second.lease.completions) return nullptr;
  return found->second.scored[static_cast<std::size_t>(id.index)].has_value() ? nullptr
                                                                              : &found->second;
}

bool HeldGroups::Wants(const SampleId& id) const {
  MutexLock lock(mutex_);
  return FindSampling(id) != nullptr;
}

std::optional<ScoreRequest> HeldGroups::ToScore(const EngineResult& result) const {
  MutexLock lock(mutex_);
  const Held* held = FindSampling(result.id);
  if (held == nullptr) return std::nullopt;
  ScoreRequest request;
  request.id = result.id;
  request.source = held->lease.source;
  request.prompt = held->lease.prompt_text;
  request.answer = held->lease.answer;
  request.extra_json = held->lease.extra_json;
  request.completion = result.completion;
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
  return held.lease.RequestFor(id.index);
}

void HeldGroups::Score(ScoredCompletion scored) {
  MutexLock lock(mutex_);
  if (FindSampling(scored.id) == nullptr) return;
  Held& held = held_.at(scored.id.group_id);
  held.scored[static_cast<std::size_t>(scored.id.index)] = std::move(scored.completion);
  if (--held.missing > 0) return;
  held.encoded = Encode(held);
  held.phase = Phase::kComplete;
  Changed();
}

EncodedGroup HeldGroups::Encode(Held& held) const {
  Group group;
  group.group_id = held.lease.key.group_id;
  group.prompt_id = held.lease.prompt_id;
  group.source = held.lease.source;
  group.prompt_token_ids = held.lease.prompt_token_ids;
  group.worker_id = worker_id_;
  for (std::optional<Completion>& completion : held.scored)
    group.completions.push_back(std::move(*completion));
  return EncodedGroup::Of(group);
}

std::optional<CompleteGroup> HeldGroups::NextComplete(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  auto next = held_.end();
  const auto complete = [&] {
    next = std::find_if(held_.begin(), held_.end(),
                        [](const auto& entry) { return entry.second.phase == Phase::kComplete; });
    return next != held_.end();
  };
  if (!changed_.WaitFor(mutex_, timeout, complete)) return std::nullopt;
  next->second.phase = Phase::kSubmitting;
  return CompleteGroup{next->second.lease.key, next->second.encoded};
}

void HeldGroups::RetrySubmit(const LeaseKey& key) {
  MutexLock lock(mutex_);
  const auto held = Find(key);
  if (held == held_.end()) return;
  held->second.phase = Phase::kComplete;
  Changed();
}

void HeldGroups::Finish(const LeaseKey& key) {
  MutexLock lock(mutex_);
  const auto held = Find(key);
  if (held != held_.end()) Drop(held);
  finished_.push_back(key);
  Changed();
}

std::vector<SampleId> HeldGroups::Return(const LeaseKey& key, v1::ReturnReason reason) {
  MutexLock lock(mutex_);
  returned_[key] = reason;
  const auto held = Find(key);
  std::vector<SampleId> dropped;
  if (held != held_.end()) dropped = Drop(held);
  Changed();
  return dropped;
}

std::vector<SampleId> HeldGroups::Revoke(const LeaseKey& key) {
  MutexLock lock(mutex_);
  const auto held = Find(key);
  if (held == held_.end()) return {};
  Changed();
  return Drop(held);
}

std::vector<SampleId> HeldGroups::RevokeOlder(const LeaseKey& key) {
  MutexLock lock(mutex_);
  const auto held = held_.find(key.group_id);
  if (held == held_.end() || held->second.lease.key.lease_epoch >= key.lease_epoch) return {};
  Changed();
  return Drop(held);
}

std::vector<SampleId> HeldGroups::ReturnAll(v1::ReturnReason reason) {
  MutexLock lock(mutex_);
  std::vector<SampleId> dropped;
  while (!held_.empty()) {
    returned_[held_.begin()->second.lease.key] = reason;
    const std::vector<SampleId> samples = Drop(held_.begin());
    dropped.insert(dropped.end(), samples.begin(), samples.end());
  }
  Changed();
  return dropped;
}

void HeldGroups::ReturnWaiting(v1::ReturnReason reason) {
  MutexLock lock(mutex_);
  ReturnWaitingIf(reason, [](const WorkerLease&) { return true; });
}

bool HeldGroups::NeedsExactly(const PolicyVersion& loaded) const {
  MutexLock lock(mutex_);
  return std::any_of(held_.begin(), held_.end(), [&](const auto& entry) {
    const Held& held = entry.second;
    const bool unsampled = held.phase == Phase::kWaiting || held.phase == Phase::kSampling;
    return unsampled && held.lease.exact_version && SameWeights(held.lease.min_version, loaded);
  });
}

void HeldGroups::Describe(v1::ExchangeRequest& request) const {
  MutexLock lock(mutex_);
  for (const auto& [group_id, held] : held_) *request.add_held() = ToProto(held.lease.key);
  for (const LeaseKey& key : finished_) *request.add_finished() = ToProto(key);
  for (const auto& [key, reason] : returned_) {
    v1::ReturnedLease& returned = *request.add_returned();
    *returned.mutable_ref() = ToProto(key);
    returned.set_reason(reason);
  }
}

void HeldGroups::Reported(const v1::ExchangeRequest& request) {
  MutexLock lock(mutex_);
  std::set<LeaseKey> finished;
  for (const v1::LeaseRef& ref : request.finished()) finished.insert(KeyFromProto(ref));
  std::erase_if(finished_, [&](const LeaseKey& key) { return finished.contains(key); });
  for (const v1::ReturnedLease& returned : request.returned())
    returned_.erase(KeyFromProto(returned.ref()));
}

GroupCounts HeldGroups::counts() const {
  MutexLock lock(mutex_);
  GroupCounts counts;
  counts.held = held_.size();
  for (const auto& [group_id, held] : held_) {
    if (held.phase == Phase::kWaiting) ++counts.waiting;
    if (held.phase == Phase::kComplete || held.phase == Phase::kSubmitting) ++counts.unsent;
    counts.spool_bytes += static_cast<std::int64_t>(held.encoded.bytes.size());
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
  changed_.WaitFor(mutex_, timeout, [&] { return change_ != seen; });
  return change_;
}

void HeldGroups::WaitForRoom(std::size_t room, std::chrono::milliseconds timeout) const {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout,
                   [&] { return capacity_ - held_.size() >= room || !returned_.empty(); });
}

void HeldGroups::Touch() {
  MutexLock lock(mutex_);
  Changed();
}

std::map<std::uint64_t, HeldGroups::Held>::iterator HeldGroups::Find(const LeaseKey& key) {
  const auto found = held_.find(key.group_id);
  return found != held_.end() && found->second.lease.key == key ? found : held_.end();
}

std::vector<SampleId> HeldGroups::Drop(std::map<std::uint64_t, Held>::iterator held) {
  std::vector<SampleId> samples;
  if (held->second.phase == Phase::kSampling) {
    for (std::int32_t i = 0; i < held->second.lease.completions; ++i) {
      if (held->second.scored[static_cast<std::size_t>(i)].has_value()) continue;
      samples.push_back({held->second.lease.key.group_id, held->second.lease.key.lease_epoch, i});
    }
  }
  held_.erase(held);
  return samples;
}

void HeldGroups::Changed() {
  ++change_;
  changed_.NotifyAll();
}

}  // namespace buttress
