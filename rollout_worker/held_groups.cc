#include "rollout_worker/held_groups.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/text/random.h"
#include "lib/experience/codec.h"
#include "lib/experience/group.h"

namespace buttress {
namespace {

bool SameWeights(const PolicyVersion& a, const PolicyVersion& b) {
  return a.learner_epoch == b.learner_epoch && a.step == b.step;
}

bool MaySample(const Lease& lease, const PolicyVersion& loaded) {
  return lease.exact_version ? SameWeights(loaded, lease.min_version)
                             : !OlderThan(loaded, lease.min_version);
}

using ScoredCompletions = std::vector<std::optional<ScoredCompletion>>;

void AppendCompletion(const ScoredCompletion& scored, v1::Group& group) {
  const auto& [sample, verdict, second_outcome] = scored;
  AppendTokens(group, sample.token_ids, sample.logprobs, sample.finish_reason);
  std::vector<double> components;
  if (verdict.outcome != Outcome::kUnscorable) {
    for (const VerdictPart& part : verdict.parts) components.push_back(part.raw_reward);
  }
  AppendReward(*group.mutable_head(), verdict.outcome, verdict.raw_reward, TotalReward(verdict),
               components);
  group.add_unscorable_reasons(verdict.unscorable_reason);
  group.add_extracted_answers(verdict.given);
  group.add_second_outcomes(static_cast<v1::Outcome>(second_outcome));
}

// Fills the versions, and the segments if there are several.
void AppendVersions(const ScoredCompletions& completions, v1::Group& group) {
  std::vector<PolicyVersion> versions;
  for (const auto& scored : completions) {
    for (const Segment& segment : scored->sample.segments) versions.push_back(segment.version);
  }
  std::ranges::sort(versions, OlderThan);
  const auto same = std::ranges::unique(versions);
  versions.erase(same.begin(), same.end());
  for (const PolicyVersion& version : versions)
    *group.mutable_head()->add_versions() = ToProto(version);
  if (versions.size() < 2) return;
  for (std::size_t i = 0; i < completions.size(); ++i) {
    for (const Segment& segment : completions[i]->sample.segments) {
      v1::Segment& added = *group.add_segments();
      added.set_completion(static_cast<std::int32_t>(i));
      added.set_first_token(segment.first_token);
      added.set_version(static_cast<std::int32_t>(
          std::ranges::lower_bound(versions, segment.version, OlderThan) - versions.begin()));
    }
  }
}

// REQUIRES: all completions are scored.
v1::Group GroupOf(const Lease& lease, const std::string& worker_id,
                  const ScoredCompletions& completions) {
  v1::Group group;
  v1::GroupHead& head = *group.mutable_head();
  head.set_group_id(lease.ref.group_id);
  head.set_prompt_id(lease.prompt_id);
  head.set_source(lease.source);
  head.set_worker_id(worker_id);
  head.set_prompt_tokens(static_cast<std::int32_t>(lease.prompt_token_ids.size()));
  group.mutable_prompt_token_ids()->Add(lease.prompt_token_ids.begin(),
                                        lease.prompt_token_ids.end());
  *group.mutable_sampling() = ToProto(lease.sampling);
  // The parts of all scorable ones are the same.
  const auto scorable = std::ranges::find_if(completions, [](const auto& scored) {
    return scored->verdict.outcome != Outcome::kUnscorable;
  });
  for (const VerdictPart& part :
       scorable == completions.end() ? std::vector<VerdictPart>() : (*scorable)->verdict.parts) {
    head.add_component_names(part.name);
    head.add_component_weights(part.weight);
  }
  for (const auto& scored : completions) AppendCompletion(*scored, group);
  AppendVersions(completions, group);
  const auto is_empty = [](const std::string& text) { return text.empty(); };
  if (std::ranges::all_of(group.unscorable_reasons(), is_empty)) group.clear_unscorable_reasons();
  if (std::ranges::all_of(group.extracted_answers(), is_empty)) group.clear_extracted_answers();
  if (std::ranges::all_of(group.second_outcomes(), [](int outcome) { return outcome == 0; }))
    group.clear_second_outcomes();
  return group;
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

std::optional<ScoreRequest> HeldGroups::AddSampled(EngineResult result,
                                                   const ScoringPool& scoring) {
  MutexLock lock(mutex_);
  const auto tokens = static_cast<std::int64_t>(result.token_ids.size());
  if (FindSampling(result.id) == nullptr) {
    tokens_.cut += tokens;
    return std::nullopt;
  }
  Held& held = held_.at(result.id.group_id);
  held.tokens += tokens;
  const Lease& lease = held.work.lease;
  held.sampled.push_back(std::move(result));
  const std::size_t needed = scoring.WantsGroups(lease.source) ? held.scored.size() : 1;
  if (held.sampled.size() < needed) return std::nullopt;
  ScoreRequest request;
  request.sampling = lease.sampling;
  request.source = lease.source;
  request.prompt = held.work.prompt_text;
  request.answer = lease.answer;
  request.extra_json = lease.extra_json;
  request.samples = std::exchange(held.sampled, {});
  std::ranges::sort(request.samples, {}, &EngineResult::id);
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
  const SampleId id = scored.sample.id;
  Lease lease;
  ScoredCompletions completions;
  {
    MutexLock lock(mutex_);
    if (FindSampling(id) == nullptr) return;
    Held& held = held_.at(id.group_id);
    held.scored[static_cast<std::size_t>(id.index)] = std::move(scored);
    if (--held.missing > 0) return;
    held.phase = Phase::kEncoding;
    lease = held.work.lease;
    completions = std::move(held.scored);
  }
  // Without the mutex, because a long group takes milliseconds, and it may be revoked meanwhile.
  EncodedGroup encoded = EncodedGroup::Of(GroupOf(lease, worker_id_, completions));
  MutexLock lock(mutex_);
  const auto found = Find(lease.ref);
  if (found == held_.end() || found->second.phase != Phase::kEncoding) return;
  Held& held = found->second;
  held.encoded = std::move(encoded);
  held.encoded_bytes = held.encoded.bytes.size();
  held.phase = Phase::kComplete;
  NotifyLocked();
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
  return CompleteGroup{held.work.lease.ref, std::move(held.encoded), held.tokens};
}

void HeldGroups::Requeue(CompleteGroup group) {
  MutexLock lock(mutex_);
  const auto held = Find(group.ref);
  if (held == held_.end()) {
    tokens_.cut += group.tokens;
    return;
  }
  held->second.encoded = std::move(group.group);
  held->second.phase = Phase::kComplete;
  NotifyLocked();
}

void HeldGroups::Finish(const CompleteGroup& group, bool accepted) {
  MutexLock lock(mutex_);
  const auto held = Find(group.ref);
  if (held != held_.end()) Erase(held);
  if (!accepted) tokens_.refused += group.tokens;
  finished_.push_back(group.ref);
  NotifyLocked();
}

void HeldGroups::ReturnRefused(const CompleteGroup& group) {
  Return(group.ref, ReturnReason::kEngineFailed);
  MutexLock lock(mutex_);
  tokens_.refused += group.tokens;
}

void HeldGroups::CountCut(std::int64_t tokens) {
  MutexLock lock(mutex_);
  tokens_.cut += tokens;
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
    if (held.phase > Phase::kSampling) ++counts.unsent;
    counts.spool_bytes += static_cast<std::int64_t>(held.encoded_bytes);
  }
  return counts;
}

TokenCounts HeldGroups::token_counts() const {
  MutexLock lock(mutex_);
  return tokens_;
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
  // Those of a group on its way are counted once it is answered.
  if (held.phase != Phase::kSubmitting) tokens_.cut += held.tokens;
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
