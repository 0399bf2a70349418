// Finds workers at which groups fail that other workers complete: a sick machine, and no bad
// prompt.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace buttress {

// Not thread-safe. A restart of the coordinator forgets everything.
class WorkerFaults {
 public:
  // So many groups that failed at a worker and were completed by others make it sick,
  static constexpr std::size_t kSickAfter = 3;
  // unless the worker has completed so many groups since the first of them.
  static constexpr std::int64_t kForgivenAfter = 32;

  struct Sick {
    std::string worker_id;
    std::vector<std::uint64_t> group_ids;  // that failed there
  };

  // Records that a group failed at a worker: the worker said so, or kept it beyond its limit.
  void Failed(std::uint64_t group_id, const std::string& worker_id, std::int64_t now_ms);

  // Returns whether the group failed at the worker at `since_ms` or later.
  bool HasFailed(std::uint64_t group_id, const std::string& worker_id, std::int64_t since_ms) const;

  // Records that a group was accepted from a worker. Returns the workers that are sick by that,
  // whose faults are forgotten.
  std::vector<Sick> Accepted(std::uint64_t group_id, const std::string& worker_id);

  // Forgets the faults of a worker.
  void Forgive(const std::string& worker_id) { records_.erase(worker_id); }

  // Forgets groups and workers that are gone. `has_group` and `has_worker` take an id.
  template <class HasGroup, class HasWorker>
  void Sweep(HasGroup has_group, HasWorker has_worker) {
    std::erase_if(failed_, [&](const auto& entry) { return !has_group(entry.first); });
    std::erase_if(records_, [&](const auto& entry) { return !has_worker(entry.first); });
  }

 private:
  struct Record {
    std::vector<std::uint64_t> group_ids;  // that failed here and were completed elsewhere
    std::int64_t completed = 0;            // since the first of them
  };

  std::map<std::uint64_t, std::map<std::string, std::int64_t>> failed_;  // when, by worker
  std::map<std::string, Record> records_;
};

}  // namespace buttress
