// The operator's side of the scheduler: orders to workers, and how the run is ended.
#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "coordinator/scheduler.h"

namespace buttress {
namespace {

constexpr std::size_t kNamesInMessage = 20;

// "w0, w1, w2", or "none"; at most kNamesInMessage of them.
std::string Listed(const std::set<std::string>& names) {
  std::string text;
  std::size_t listed = 0;
  for (const std::string& name : names) {
    if (listed++ == kNamesInMessage)
      return text + fmt::format(" and {} more", names.size() - kNamesInMessage);
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Status Scheduler::OrderWorker(const WorkerOrderRow& order, LedgerChanges& out) {
  const std::string& id = order.worker_id;
  if (!workers_.contains(id) && !orders_.contains(id)) {
    std::set<std::string> known;
    for (const auto& [name, worker] : workers_) known.insert(name);
    for (const auto& [name, row] : orders_) known.insert(name);
    return NotFound(
        fmt::format("there is no worker '{}' in this run; known workers: {}", id, Listed(known)));
  }
  if (order.order == WorkerOrder::kNone) {
    faults_.Forgive(id);
    if (orders_.erase(id) > 0) out.orders.push_back({id, WorkerOrder::kNone, ""});
    return OkStatus();
  }
  orders_[id] = order;
  out.orders.push_back(order);
  return OkStatus();
}

void Scheduler::SetAside(const WorkerFaults::Sick& sick, LedgerChanges& out) {
  const bool others = std::ranges::any_of(workers_, [&](const auto& entry) {
    return entry.first != sick.worker_id && OrderOf(entry.first) == WorkerOrder::kNone;
  });
  if (!others || OrderOf(sick.worker_id) != WorkerOrder::kNone) return;
  std::set<std::string> groups;
  for (const std::uint64_t id : sick.group_ids) groups.insert(std::to_string(id));
  const WorkerOrderRow order = {
      sick.worker_id, WorkerOrder::kCordon,
      fmt::format("set aside: groups {} failed here and were completed by other workers; mend it, "
                  "then `buttress uncordon` takes it back",
                  Listed(groups))};
  orders_[sick.worker_id] = order;
  out.orders.push_back(order);
}

WorkerOrder Scheduler::OrderOf(const std::string& worker_id) const {
  const auto found = orders_.find(worker_id);
  return found == orders_.end() ? WorkerOrder::kNone : found->second.order;
}

void Scheduler::EndEarly(std::string why, LedgerChanges& out) {
  stop_requested_ = learner_knows_stop_ = true;
  early_end_ = {run_.learner_epoch, run_.checkpoint_step, run_.coordinator_epoch, std::move(why)};
  out.early_end = early_end_;
}

bool Scheduler::AwaitsLearner(const std::string& worker_id) const {
  const auto worker = workers_.find(worker_id);
  return early_end_ && worker != workers_.end() &&
         worker->second.joined > early_end_->coordinator_epoch;
}

StopPhase Scheduler::stop_phase() const {
  if (!stop_requested_) return StopPhase::kNone;
  return learner_knows_stop_ && run_.checkpoint_step == run_.committed_step ? StopPhase::kDone
                                                                            : StopPhase::kRequested;
}

}  // namespace buttress
