// Workers on trial: those that have not delivered a group yet, or that keep groups much longer than
// others need for one. A proven worker that has nothing to do shares their leases, as the backup
// tasks of MapReduce do (Dean and Ghemawat 2004, section 3.6).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/experience/lease.h"

namespace buttress {

// Not thread-safe. A restart of the coordinator forgets everything but what the ledger tells about
// groups under way: who delivered them.
class WorkerTrials {
 public:
  // A lease of a worker on trial whose group was leased to a proven worker as well. The first
  // result counts. The worker keeps the lease, although another result came first, until it has
  // delivered or the lease ends: one that never delivers gets no further groups for it.
  struct Shared {
    std::string worker_id;
    std::uint64_t incarnation = 0;
    std::int64_t limit_ms = 0;  // when the lease ends at the latest
  };

  // A worker that was doubted has to deliver so many groups to be proven again,
  static constexpr int kLeastOwed = 8;
  // at each further doubt twice as many up to this bound. Its doubts are forgotten once it has
  // delivered so many since.
  static constexpr int kMostOwed = 32;

  // Records that a worker delivered a group under a lease.
  void Prove(const std::string& worker_id);

  // Records that a worker kept a lease to its limit, or much too long: it has to deliver again. A
  // worker on trial stays what it is.
  void Doubt(const std::string& worker_id);

  bool proven(const std::string& worker_id) const { return proven_.contains(worker_id); }

  bool any_proven() const { return !proven_.empty(); }

  // Records that a worker on trial got the lease of a group.
  void Lease(std::uint64_t group_id) { groups_.insert(group_id); }

  // Returns the groups that workers on trial may hold, in rising order. Some may have ended; the
  // caller finds out, and forgets them.
  const std::set<std::uint64_t>& groups() const { return groups_; }

  void Forget(std::uint64_t group_id) { groups_.erase(group_id); }

  // Records whether a worker has room for more groups than there are.
  void NoteRoom(const std::string& worker_id, bool has_room);

  // Returns whether a proven worker other than `worker_id` has room for more groups than there are.
  bool AnyIdleBut(const std::string& worker_id) const;

  // Returns whether a proven worker with room may share a lease. REQUIRES: the first of groups()
  // has not ended.
  bool MayShare() const;

  // Records that a group of groups() was leased to a proven worker as well.
  void Share(const LeaseRef& ref, Shared shared);

  // Returns whether the worker has the lease `ref`, which another one shares.
  bool Has(const LeaseRef& ref, const std::string& worker_id, std::uint64_t incarnation) const;

  // Returns how many shared leases the worker has.
  std::int64_t CountOf(const std::string& worker_id) const;

  void End(const LeaseRef& ref) { shared_.erase(ref); }

  // Ends the shared leases of a worker's processes other than `incarnation`.
  void EndOthers(const std::string& worker_id, std::uint64_t incarnation);

  // Ends the shared leases of a worker that are not in `held`: it never received them. REQUIRES:
  // `held` is sorted.
  void EndUnnamed(const std::string& worker_id, std::span<const LeaseRef> held);

  // Ends the shared leases that have reached their limit, and returns them.
  std::vector<std::pair<LeaseRef, Shared>> EndDue(std::int64_t now_ms);

  // Forgets workers that are gone. `has_worker` takes an id.
  template <class HasWorker>
  void Sweep(HasWorker has_worker) {
    std::erase_if(proven_, [&](const std::string& id) { return !has_worker(id); });
    std::erase_if(doubts_, [&](const auto& entry) { return !has_worker(entry.first); });
    std::erase_if(with_room_, [&](const std::string& id) { return !has_worker(id); });
    std::erase_if(shared_, [&](const auto& entry) { return !has_worker(entry.second.worker_id); });
  }

 private:
  struct Doubts {
    int asked = 0;      // groups that it had to deliver after the last one
    int owed = 0;       // of those, to be delivered yet
    int delivered = 0;  // since it was proven again
  };

  std::set<std::string> proven_;
  std::map<std::string, Doubts> doubts_;
  std::set<std::string> with_room_;
  std::set<std::uint64_t> groups_;  // leased to workers on trial alone, and some that have ended
  std::map<LeaseRef, Shared> shared_;
};

}  // namespace buttress
