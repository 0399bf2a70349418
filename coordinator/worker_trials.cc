#include "coordinator/worker_trials.h"

#include <algorithm>

namespace buttress {

void WorkerTrials::NoteRoom(const std::string& worker_id, bool has_room) {
  if (has_room) {
    with_room_.insert(worker_id);
  } else {
    with_room_.erase(worker_id);
  }
}

void WorkerTrials::Prove(const std::string& worker_id) {
  const auto doubted = doubts_.find(worker_id);
  if (doubted == doubts_.end()) {
    proven_.insert(worker_id);
    return;
  }
  Doubts& doubts = doubted->second;
  if (doubts.owed > 0) {
    if (--doubts.owed == 0) proven_.insert(worker_id);
  } else if (++doubts.delivered >= kMostOwed) {
    doubts_.erase(doubted);
  }
}

void WorkerTrials::Doubt(const std::string& worker_id) {
  if (proven_.erase(worker_id) == 0) return;
  Doubts& doubts = doubts_[worker_id];
  doubts.asked = std::clamp(2 * doubts.asked, kLeastOwed, kMostOwed);
  doubts.owed = doubts.asked;
  doubts.delivered = 0;
}

bool WorkerTrials::AnyIdleBut(const std::string& worker_id) const {
  return std::ranges::any_of(with_room_,
                             [&](const std::string& id) { return id != worker_id && proven(id); });
}

bool WorkerTrials::MayShare() const { return !groups_.empty() && AnyIdleBut(""); }

void WorkerTrials::Share(const LeaseRef& ref, Shared shared) {
  groups_.erase(ref.group_id);
  shared_[ref] = std::move(shared);
}

bool WorkerTrials::Has(const LeaseRef& ref, const std::string& worker_id,
                       std::uint64_t incarnation) const {
  const auto found = shared_.find(ref);
  return found != shared_.end() && found->second.worker_id == worker_id &&
         found->second.incarnation == incarnation;
}

std::int64_t WorkerTrials::CountOf(const std::string& worker_id) const {
  return std::ranges::count_if(
      shared_, [&](const auto& entry) { return entry.second.worker_id == worker_id; });
}

void WorkerTrials::EndOthers(const std::string& worker_id, std::uint64_t incarnation) {
  std::erase_if(shared_, [&](const auto& entry) {
    return entry.second.worker_id == worker_id && entry.second.incarnation != incarnation;
  });
}

void WorkerTrials::EndUnnamed(const std::string& worker_id, std::span<const LeaseRef> held) {
  std::erase_if(shared_, [&](const auto& entry) {
    return entry.second.worker_id == worker_id && !std::ranges::binary_search(held, entry.first);
  });
}

std::vector<std::pair<LeaseRef, WorkerTrials::Shared>> WorkerTrials::EndDue(std::int64_t now_ms) {
  std::vector<std::pair<LeaseRef, Shared>> due;
  for (auto next = shared_.begin(); next != shared_.end();) {
    const bool ends = next->second.limit_ms <= now_ms;
    if (ends) due.emplace_back(*next);
    next = ends ? shared_.erase(next) : std::next(next);
  }
  return due;
}

}  // namespace buttress
