// The leases: who holds which group, until when, and which groups another worker may take over.
//
// A worker is honest but may be broken: it crashes, hangs, is slow, is misconfigured, has other
// weights, or sends rubbish. One rule bounds what that costs the others:
//
//   - A group has one lease, or several. An idle worker may take a group that is late: first
//     granted more than kLateMedians medians ago, for each lease that it has. Later grants do not
//     reset that age. The first result wins, and every other lease of the group ends.
//   - The leases of a worker end together once it has been silent for `lease_ms`, and each of them
//     at its limit, which no renewal moves.
//   - Every end of a lease that is no delivery counts against the worker (workers.h), and a group
//     that failed at a worker goes to another one first.
//   - Any of the n > 1 groups that were lost with a worker may have killed it. Each is suspect: a
//     worker that holds it holds at most n / 2 groups, after the next loss half of that, down to
//     one. So a prompt that kills its workers is alone after log2(n) losses, only losses of the
//     group alone count as its attempts, and they end as poison. A delivery clears a suspect.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/experience/lease.h"

namespace buttress {

struct HeldLease {
  LeaseRef ref;
  std::string worker_id;
  std::uint64_t incarnation = 0;
  std::int64_t granted_ms = 0;
};

// Times are milliseconds of the scheduler's clock. Not thread-safe. A restart of the coordinator
// forgets all but the newest lease of each group, which it grants again.
class Leases {
 public:
  static constexpr std::int64_t kLateMedians = 4;
  static constexpr std::int64_t kSoonestLateMs = 1000;
  static constexpr std::size_t kTimesKept = 128;
  static constexpr std::size_t kLateSeen = 64;
  static constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

  Leases(std::int64_t lease_ms, std::int64_t limit_ms)
      : lease_ms_(lease_ms), limit_ms_(limit_ms), late_ms_(LateAfter(lease_ms)) {}

  // Begins a lease, and renews those of its worker.
  void Grant(const HeldLease& lease);

  // Postpones the end of a worker's leases.
  void Renew(const std::string& worker_id, std::int64_t now_ms);

  // Returns the lease `ref` if this process of the worker holds it, else null.
  const HeldLease* Find(const LeaseRef& ref, const std::string& worker_id,
                        std::uint64_t incarnation) const;

  // Returns the leases of a worker, in rising order of groups.
  std::vector<HeldLease> Of(const std::string& worker_id) const;

  // Returns the leases of a group, the oldest first.
  std::vector<HeldLease> OfGroup(std::uint64_t group_id) const;

  // Counts the leases by worker; workers without leases are missing.
  std::map<std::string, std::int64_t> Counts() const;

  // Ends a lease. Returns whether the group has others.
  bool End(const LeaseRef& ref);

  // Ends the leases of a group and forgets it, because it was delivered or dropped.
  void Close(std::uint64_t group_id);

  // Ends all leases, because the run ends.
  void Clear() { *this = Leases(lease_ms_, limit_ms_); }

  struct Due {
    HeldLease lease;
    bool at_limit = false;  // else its worker has been silent
    std::int64_t held = 0;  // leases of the worker
  };

  // Returns the leases that have expired, in rising order of groups.
  std::vector<Due> Expired(std::int64_t now_ms) const;

  // Returns when the next lease expires; nullopt without leases.
  std::optional<std::int64_t> NextExpiryMs() const;

  // Records how long the worker that delivered a group held it.
  void NoteDelivery(std::int64_t ms);

  // Returns groups that one more worker may take now: at most kLateSeen, those with the fewest
  // leases first and of these the oldest.
  std::vector<std::uint64_t> Late(std::int64_t now_ms) const;

  bool AnyLate(std::int64_t now_ms) const;

  // Records that a group failed at a worker.
  void NoteFailure(std::uint64_t group_id, const std::string& worker_id, std::int64_t now_ms) {
    groups_[group_id].failed_ms[worker_id] = now_ms;
  }

  // Returns whether the group failed at the worker at `since_ms` or later.
  bool HasFailed(std::uint64_t group_id, const std::string& worker_id, std::int64_t since_ms) const;

  // Records that a group may be what its worker was lost with, and may be held with `most` - 1
  // others.
  void Suspect(std::uint64_t group_id, std::int64_t most) { groups_[group_id].most_held = most; }

  // Returns how many groups a worker may hold that holds this one.
  std::int64_t MostHeldWith(std::uint64_t group_id) const;

 private:
  // A group that was granted and has not been delivered.
  struct Group {
    std::optional<std::int64_t> first_granted_ms;
    std::vector<HeldLease> leases;
    std::int64_t most_held = kNoBound;
    std::map<std::string, std::int64_t> failed_ms;  // by worker
  };

  struct Worker {
    std::int64_t deadline_ms = 0;
    std::set<LeaseRef> leases;
  };

  static std::int64_t LateAfter(std::int64_t median_ms) {
    return std::max(kSoonestLateMs, kLateMedians * median_ms);
  }

  // Add a group to, and remove it from, by_age_.
  void AddAge(std::uint64_t group_id, const Group& group);
  void RemoveAge(std::uint64_t group_id, const Group& group);

  std::int64_t lease_ms_;
  std::int64_t limit_ms_;
  std::map<std::uint64_t, Group> groups_;
  std::map<std::string, Worker> workers_;  // that have leases
  std::set<std::pair<std::int64_t, std::string>> by_deadline_;
  std::set<std::pair<std::int64_t, LeaseRef>> by_limit_;
  // Groups with leases: by the number of these, then by the first grant.
  std::map<std::size_t, std::set<std::pair<std::int64_t, std::uint64_t>>> by_age_;
  std::array<std::int64_t, kTimesKept> times_{};  // of delivery n in place n % kTimesKept
  std::size_t deliveries_ = 0;
  // A lease is late after this. Before the first delivery, lease_ms stands for the median.
  std::int64_t late_ms_;
};

}  // namespace buttress
