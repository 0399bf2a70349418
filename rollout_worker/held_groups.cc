#include "rollout_worker/held_groups.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/text/random.h"
#include "lib/experience/codec.h"
#include "rollout_worker/scored_group.h"

namespace buttress {
namespace {

bool SameWeights(const PolicyVersion& a, const PolicyVersion& b) {
  return a.learner_epoch == b.learner_epoch && a.step == b.step;
}

// Versions only rise within a completion.
bool MaySample(const WorkerLease& work, const PolicyVersion& loaded) {
  const Lease& lease = work.lease;
  if (lease.exact_version) return SameWeights(loaded, lease.min_version);
  return !OlderThan(loaded, lease.min_version) &&
         std::ranges::none_of(work.begun, [&](const auto& entry) {
           return OlderThan(loaded, entry.second.segments.back().version);
         });
}

// Whether the tokens can begin a completion of the lease.
bool Fits(const PartialCompletion& partial, const Lease& lease, std::int32_t vocab_size) {
  return !lease.exact_version && partial.completion < lease.completions &&
         partial.first_token == 0 && partial.end() <= lease.sampling.max_tokens &&
         std::ranges::all_of(partial.token_ids,
                             [vocab_size](std::int32_t id) { return id < vocab_size; });
}

// Whether the last token ends the completion, although the report does not say so.
bool EndsUnsaid(const PartialCompletion& partial, const SamplingParams& sampling) {
  if (partial.ended()) return false;
  const auto& stops = sampling.stop_token_ids;
  return partial.end() == sampling.max_tokens ||
         (partial.end() > sampling.min_tokens &&
          std::ranges::find(stops, partial.token_ids.back()) != stops.end());
}

// Tokens of one report: 8 bytes each, 1 MiB.
constexpr std::int32_t kMostReportedTokens = 1 << 17;

}  // namespace

SampleRequest WorkerLease::RequestFor(std::int32_t index) const {
  SampleRequest request;
  request.id = {lease.ref.group_id, lease.ref.lease_epoch, index};
  request.prompt_token_ids = lease.prompt_token_ids;
  request.sampling = lease.sampling;
  request.min_version = lease.min_version;
  request.sampling.seed = MixSeed(lease.sampling.seed, static_cast<std::uint64_t>(index));
  if (const auto found = begun.find(index); found != begun.end()) request.begun = found->second;
  request.task = task;
  return request;
}

Result<WorkerLease> PrepareLease(Lease lease, std::vector<PartialCompletion> partials,
                                 const Tokenizer& tokenizer) {
  for (const std::int32_t token : lease.prompt_token_ids) {
    if (token < tokenizer.vocab_size()) continue;
    return InvalidArgument(
        fmt::format("prompt '{}' contains token {}; the tokenizer of this worker has {} tokens",
                    lease.prompt_id, token, tokenizer.vocab_size()));
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::string prompt_text,
                            tokenizer.Decode(lease.prompt_token_ids, SpecialTokens::kKeep));
  WorkerLease work{std::move(lease), std::move(prompt_text)};
  work.task = std::make_shared<const EpisodeTask>(EpisodeTask{
      work.lease.prompt_id, work.lease.source, work.lease.extra_json, work.lease.answer});
  for (PartialCompletion& partial : partials) {
    if (!Fits(partial, work.lease, tokenizer.vocab_size())) continue;
    if (EndsUnsaid(partial, work.lease.sampling)) partial.Cut(partial.end() - 1);
    if (partial.token_ids.empty()) continue;
    work.begun.insert_or_assign(partial.completion, std::move(partial));
  }
  return work;
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
  if (held_.contains(ref.group_id) || returned_.contains(ref) || TakenLocked() >= 2 * capacity_)
    return false;
  Held held;
  held.missing = work.lease.completions;
  held.scored.resize(static_cast<std::size_t>(held.missing));
  held.retried.resize(static_cast<std::size_t>(held.missing));
  held.reported.resize(static_cast<std::size_t>(held.missing));
  for (const auto& [index, partial] : work.begun)
    held.reported[static_cast<std::size_t>(index)] = partial.end();
  held.work = std::move(work);
  held_.emplace(ref.group_id, std::move(held));
  released_ = false;
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
    if (held.phase != Phase::kWaiting || !MaySample(held.work, loaded)) continue;
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
  const std::int64_t tokens = result.sampled_tokens();
  if (FindSampling(result.id) == nullptr) {
    tokens_.cut += tokens;
    EndHandedOn(result.id, true);
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
  held.scoring.insert(held.scoring.end(), held.sampled.begin(), held.sampled.end());
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
  held.reported[index] = 0;
  return held.work.RequestFor(id.index);
}

void HeldGroups::AddScored(ScoredCompletion scored) {
  const SampleId id = scored.sample.id;
  Lease lease;
  std::vector<std::optional<ScoredCompletion>> completions;
  {
    MutexLock lock(mutex_);
    if (FindSampling(id) == nullptr) return EndHandedOn(id, true);
    Held& held = held_.at(id.group_id);
    std::erase_if(held.scoring, [&](const EngineResult& sample) { return sample.id == id; });
    held.scored[static_cast<std::size_t>(id.index)] = std::move(scored);
    if (--held.missing > 0) return changed_.NotifyAll();  // there may be room
    held.phase = Phase::kEncoding;
    lease = held.work.lease;
    completions = std::move(held.scored);
  }
  // Without the mutex, because a long group takes milliseconds, and it may be revoked meanwhile.
  EncodedGroup encoded = EncodedGroup::Of(GroupOf(lease, worker_id_, completions, mask_old_));
  MutexLock lock(mutex_);
  const auto found = Find(lease.ref);
  if (found == held_.end() || found->second.phase != Phase::kEncoding) return;
  Held& held = found->second;
  held.encoded = std::move(encoded);
  held.encoded_bytes = held.encoded.bytes.size();
  held.phase = Phase::kComplete;
  NotifyLocked();
}

void HeldGroups::Release() {
  MutexLock lock(mutex_);
  const bool sampled = std::ranges::all_of(
      held_, [](const auto& entry) { return entry.second.phase > Phase::kSampling; });
  if (released_ || !sampled) return;
  released_ = true;
  NotifyLocked();
}

std::optional<CompleteGroup> HeldGroups::WaitForComplete(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  auto next = held_.end();
  const auto complete = [&]() REQUIRES(mutex_) {
    if (hold_back_ && !released_) return false;
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

void HeldGroups::CountReceived(std::int64_t tokens) {
  MutexLock lock(mutex_);
  tokens_.received += tokens;
}

void HeldGroups::CountHandedOn(const SampleId& id, bool sampled) {
  MutexLock lock(mutex_);
  EndHandedOn(id, sampled);
}

void HeldGroups::EndHandedOn(const SampleId& id, bool sampled) {
  const auto found = handed_on_.find(id);
  if (found == handed_on_.end()) return;
  if (sampled) tokens_.handed_on += found->second;
  handed_on_.erase(found);
}

std::vector<SampleId> HeldGroups::Return(const LeaseRef& ref, ReturnReason reason) {
  MutexLock lock(mutex_);
  returned_[ref] = reason;
  const auto held = Find(ref);
  std::vector<SampleId> unfinished;
  if (held != held_.end()) unfinished = HandOn(held, reason);
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

std::vector<SampleId> HeldGroups::ReturnUnsampled(ReturnReason reason) {
  return ReturnUpTo(Phase::kSampling, reason);
}

std::vector<SampleId> HeldGroups::ReturnAll(ReturnReason reason) {
  return ReturnUpTo(Phase::kSubmitting, reason);
}

std::vector<SampleId> HeldGroups::ReturnUpTo(Phase last, ReturnReason reason) {
  MutexLock lock(mutex_);
  std::vector<SampleId> unfinished;
  for (auto held = held_.begin(); held != held_.end();) {
    const auto entry = held++;
    if (entry->second.phase > last) continue;
    const std::vector<SampleId> samples = HandOn(entry, reason);
    unfinished.insert(unfinished.end(), samples.begin(), samples.end());
  }
  NotifyLocked();
  return unfinished;
}

void HeldGroups::ReturnWaiting(ReturnReason reason) {
  MutexLock lock(mutex_);
  ReturnWaitingIf(reason, [](const Lease&) { return true; });
}

bool HeldGroups::ReportPartials(std::span<const EngineResult> unfinished,
                                v1::ExchangeRequest& request) {
  MutexLock lock(mutex_);
  reports_.clear();
  std::int32_t room = kMostReportedTokens;
  const auto report = [&](const Held& held, const PartialCompletion& part) REQUIRES(mutex_) {
    const LeaseRef& ref = held.work.lease.ref;
    v1::PartialCompletion& proto = *request.add_partials();
    proto = ToProto(part);
    *proto.mutable_lease() = ToProto(ref);
    room -= static_cast<std::int32_t>(part.token_ids.size());
    reports_.push_back({{ref.group_id, ref.lease_epoch, part.completion},
                        held.retried[static_cast<std::size_t>(part.completion)],
                        part.end()});
  };
  const auto add = [&](Held& held, const EngineResult& sample) REQUIRES(mutex_) {
    if (const auto part = Unreported(held, sample, room)) report(held, *part);
  };
  // The engine may not have begun a sample. What it has of one comes behind and replaces this.
  for (const auto& [group_id, held] : held_) {
    if (held.phase > Phase::kSampling) continue;
    for (const auto& [index, begun] : held.work.begun) {
      if (held.reported[static_cast<std::size_t>(index)] > 0) continue;
      PartialCompletion part = begun;
      part.Cut(room);
      if (!part.token_ids.empty()) report(held, part);
    }
  }
  for (const EngineResult& sample : unfinished) {
    if (FindSampling(sample.id) != nullptr) add(held_.at(sample.id.group_id), sample);
  }
  for (auto& [group_id, held] : held_) {
    if (held.phase != Phase::kSampling) continue;
    for (const EngineResult& sample : held.sampled) add(held, sample);
    for (const EngineResult& sample : held.scoring) add(held, sample);
    for (const auto& scored : held.scored) {
      if (scored) add(held, scored->sample);
    }
  }
  return room > 0;
}

std::optional<PartialCompletion> HeldGroups::Unreported(Held& held, const EngineResult& sample,
                                                        std::int32_t most) {
  std::int32_t& reported = held.reported[static_cast<std::size_t>(sample.id.index)];
  const auto tokens = static_cast<std::int32_t>(sample.token_ids.size());
  if (tokens < reported) reported = 0;  // it began again
  if (tokens == reported || most <= 0) return std::nullopt;
  PartialCompletion part =
      PartFrom(sample.id.index, reported, sample.token_ids, sample.logprobs, sample.segments);
  part.finish_reason = sample.finish_reason;
  part.Cut(reported + std::min(most, tokens - reported));
  return part;
}

void HeldGroups::ForgetPartials() {
  MutexLock lock(mutex_);
  for (auto& [group_id, held] : held_) std::ranges::fill(held.reported, 0);
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
  for (const Report& report : std::exchange(reports_, {})) {
    const auto held = Find(report.id.lease());
    const auto index = static_cast<std::size_t>(report.id.index);
    if (held != held_.end() && held->second.retried[index] == report.retried)
      held->second.reported[index] = report.end;
  }
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
  return RoomLocked();
}

// The groups that the unscored completions would fill.
std::size_t HeldGroups::TakenLocked() const {
  std::int64_t unscored = 0, size = 1;
  for (const auto& [group_id, held] : held_) {
    unscored += held.missing;
    size = std::max<std::int64_t>(size, held.work.lease.completions);
  }
  return static_cast<std::size_t>((unscored + size - 1) / size);
}

std::size_t HeldGroups::RoomLocked() const {
  const auto unsent = static_cast<std::size_t>(std::ranges::count_if(
      held_, [](const auto& entry) { return entry.second.phase > Phase::kSampling; }));
  return capacity_ - std::min(capacity_, std::max(unsent, TakenLocked()));
}

std::uint64_t HeldGroups::WaitForChange(std::uint64_t seen,
                                        std::chrono::milliseconds timeout) const {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout, [&]() REQUIRES(mutex_) { return change_ != seen; });
  return change_;
}

void HeldGroups::WaitForRoom(std::size_t room, std::chrono::milliseconds timeout) const {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout,
                   [&]() REQUIRES(mutex_) { return RoomLocked() >= room || !returned_.empty(); });
}

void HeldGroups::Notify() {
  MutexLock lock(mutex_);
  NotifyLocked();
}

HeldGroups::Groups::iterator HeldGroups::Find(const LeaseRef& ref) {
  const auto found = held_.find(ref.group_id);
  return found != held_.end() && found->second.work.lease.ref == ref ? found : held_.end();
}

// What the coordinator keeps of it counts where it ends.
std::vector<SampleId> HeldGroups::HandOn(Groups::iterator entry, ReturnReason reason) {
  const Held& held = entry->second;
  const LeaseRef ref = held.work.lease.ref;
  returned_[ref] = reason;
  for (std::int32_t i = 0; i < held.work.lease.completions; ++i) {
    const auto index = static_cast<std::size_t>(i);
    if (held.phase != Phase::kSampling || held.reported[index] == 0) continue;
    const bool ended =
        held.scored[index].has_value() ||
        std::ranges::any_of(held.sampled, [i](const EngineResult& s) { return s.id.index == i; });
    if (ended) {
      tokens_.handed_on += held.reported[index];
    } else {
      handed_on_[{ref.group_id, ref.lease_epoch, i}] = held.reported[index];
    }
  }
  return Erase(entry);
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
