#include "coordinator/worker_faults.h"

namespace buttress {

void WorkerFaults::Failed(std::uint64_t group_id, const std::string& worker_id,
                          std::int64_t now_ms) {
  failed_[group_id][worker_id] = now_ms;
}

bool WorkerFaults::HasFailed(std::uint64_t group_id, const std::string& worker_id,
                             std::int64_t since_ms) const {
  const auto group = failed_.find(group_id);
  if (group == failed_.end()) return false;
  const auto worker = group->second.find(worker_id);
  return worker != group->second.end() && worker->second >= since_ms;
}

std::vector<WorkerFaults::Sick> WorkerFaults::Accepted(std::uint64_t group_id,
                                                       const std::string& worker_id) {
  std::vector<Sick> sick;
  if (const auto group = failed_.find(group_id); group != failed_.end()) {
    for (const auto& [failed_at, when_ms] : group->second) {
      if (failed_at == worker_id) continue;
      Record& record = records_[failed_at];
      record.group_ids.push_back(group_id);
      if (record.group_ids.size() < kSickAfter) continue;
      sick.push_back({failed_at, record.group_ids});
      records_.erase(failed_at);
    }
    failed_.erase(group);
  }
  const auto own = records_.find(worker_id);
  if (own != records_.end() && ++own->second.completed >= kForgivenAfter) records_.erase(own);
  return sick;
}

}  // namespace buttress
