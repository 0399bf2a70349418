#include "coordinator/schedule/leases.h"

#include <algorithm>

#include "lib/base/report/check.h"

namespace buttress {

void Leases::Grant(const HeldLease& lease) {
  const std::uint64_t id = lease.ref.group_id;
  Group& group = groups_[id];
  if (!group.first_granted_ms) group.first_granted_ms = lease.granted_ms;
  RemoveAge(id, group);
  group.leases.push_back(lease);
  AddAge(id, group);
  by_limit_.emplace(lease.granted_ms + limit_ms_, lease.ref);
  workers_[lease.worker_id].leases.insert(lease.ref);
  Renew(lease.worker_id, lease.granted_ms);
}

void Leases::Renew(const std::string& worker_id, std::int64_t now_ms) {
  const auto worker = workers_.find(worker_id);
  if (worker == workers_.end()) return;
  by_deadline_.erase({worker->second.deadline_ms, worker_id});
  worker->second.deadline_ms = now_ms + lease_ms_;
  by_deadline_.emplace(worker->second.deadline_ms, worker_id);
}

const HeldLease* Leases::Find(const LeaseRef& ref, const std::string& worker_id,
                              std::uint64_t incarnation) const {
  const auto group = groups_.find(ref.group_id);
  if (group == groups_.end()) return nullptr;
  for (const HeldLease& lease : group->second.leases) {
    if (lease.ref == ref && lease.worker_id == worker_id && lease.incarnation == incarnation)
      return &lease;
  }
  return nullptr;
}

std::vector<HeldLease> Leases::Of(const std::string& worker_id) const {
  std::vector<HeldLease> leases;
  const auto worker = workers_.find(worker_id);
  if (worker == workers_.end()) return leases;
  for (const LeaseRef& ref : worker->second.leases)
    leases.push_back(*std::ranges::find(groups_.at(ref.group_id).leases, ref, &HeldLease::ref));
  return leases;
}

std::vector<HeldLease> Leases::OfGroup(std::uint64_t group_id) const {
  const auto group = groups_.find(group_id);
  return group == groups_.end() ? std::vector<HeldLease>() : group->second.leases;
}

std::map<std::string, std::int64_t> Leases::Counts() const {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [id, worker] : workers_)
    counts[id] = static_cast<std::int64_t>(worker.leases.size());
  return counts;
}

bool Leases::End(const LeaseRef& ref) {
  Group& group = groups_.at(ref.group_id);
  const auto lease = std::ranges::find(group.leases, ref, &HeldLease::ref);
  BUTTRESS_CHECK(lease != group.leases.end(), "a lease that ends has begun");
  by_limit_.erase({lease->granted_ms + limit_ms_, ref});
  const auto worker = workers_.find(lease->worker_id);
  worker->second.leases.erase(ref);
  if (worker->second.leases.empty()) {
    by_deadline_.erase({worker->second.deadline_ms, worker->first});
    workers_.erase(worker);
  }
  RemoveAge(ref.group_id, group);
  group.leases.erase(lease);
  AddAge(ref.group_id, group);
  return !group.leases.empty();
}

void Leases::Close(std::uint64_t group_id) {
  for (const HeldLease& lease : OfGroup(group_id)) End(lease.ref);
  groups_.erase(group_id);
}

std::vector<Leases::Due> Leases::Expired(std::int64_t now_ms) const {
  std::map<LeaseRef, bool> refs;  // at the limit
  for (auto next = by_deadline_.begin(); next != by_deadline_.end() && next->first <= now_ms;
       ++next) {
    for (const LeaseRef& ref : workers_.at(next->second).leases) refs[ref] = false;
  }
  for (auto next = by_limit_.begin(); next != by_limit_.end() && next->first <= now_ms; ++next)
    refs[next->second] = true;
  std::vector<Due> due;
  for (const auto& [ref, at_limit] : refs) {
    const HeldLease& lease =
        *std::ranges::find(groups_.at(ref.group_id).leases, ref, &HeldLease::ref);
    due.push_back(
        {lease, at_limit, static_cast<std::int64_t>(workers_.at(lease.worker_id).leases.size())});
  }
  return due;
}

std::optional<std::int64_t> Leases::NextExpiryMs() const {
  if (by_limit_.empty()) return std::nullopt;
  return std::min(by_deadline_.begin()->first, by_limit_.begin()->first);
}

void Leases::NoteDelivery(std::int64_t ms) {
  times_[deliveries_++ % kTimesKept] = ms;
  auto sorted = times_;
  const auto kept = static_cast<std::ptrdiff_t>(std::min(deliveries_, kTimesKept));
  const auto median = sorted.begin() + kept / 2;
  std::nth_element(sorted.begin(), median, sorted.begin() + kept);
  late_ms_ = LateAfter(*median);
}

std::vector<std::uint64_t> Leases::Late(std::int64_t now_ms) const {
  std::vector<std::uint64_t> late;
  for (const auto& [leases, groups] : by_age_) {
    const std::int64_t granted_ms = now_ms - static_cast<std::int64_t>(leases) * late_ms_;
    for (auto next = groups.begin();
         next != groups.end() && next->first <= granted_ms && late.size() < kLateSeen; ++next)
      late.push_back(next->second);
  }
  return late;
}

bool Leases::AnyLate(std::int64_t now_ms) const {
  return std::ranges::any_of(by_age_, [&](const auto& entry) {
    const auto& [leases, groups] = entry;
    return groups.begin()->first + static_cast<std::int64_t>(leases) * late_ms_ <= now_ms;
  });
}

bool Leases::HasFailed(std::uint64_t group_id, const std::string& worker_id,
                       std::int64_t since_ms) const {
  const auto group = groups_.find(group_id);
  if (group == groups_.end()) return false;
  const auto failed = group->second.failed_ms.find(worker_id);
  return failed != group->second.failed_ms.end() && failed->second >= since_ms;
}

std::int64_t Leases::MostHeldWith(std::uint64_t group_id) const {
  const auto group = groups_.find(group_id);
  return group == groups_.end() ? kNoBound : group->second.most_held;
}

void Leases::AddAge(std::uint64_t group_id, const Group& group) {
  if (!group.leases.empty())
    by_age_[group.leases.size()].emplace(*group.first_granted_ms, group_id);
}

void Leases::RemoveAge(std::uint64_t group_id, const Group& group) {
  const auto same = by_age_.find(group.leases.size());
  if (same == by_age_.end()) return;
  same->second.erase({*group.first_granted_ms, group_id});
  if (same->second.empty()) by_age_.erase(same);
}

}  // namespace buttress
