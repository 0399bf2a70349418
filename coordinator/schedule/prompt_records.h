// The records that the selection of prompts keeps of those that are under way. The records of all
// others are in the ledger alone, where a draw reads them, so that the memory of the coordinator
// does not grow with the dataset.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "lib/ledger/rows.h"

namespace buttress {

// The records of prompts, by row of the dataset. Not thread-safe.
class PromptRecords {
 public:
  PromptRecords() = default;

  explicit PromptRecords(const LedgerSnapshot& snapshot) : records_(snapshot.records) {
    // The ledger has no row of a prompt before its first accepted group.
    for (const auto& [id, group] : snapshot.groups) records_.try_emplace(group.prompt.row);
  }

  // Adds those that it does not have; what it has is newer.
  void Remember(const std::map<std::uint64_t, PromptRecord>& records) {
    records_.insert(records.begin(), records.end());
  }

  // Returns null if the record is in the ledger alone. The pointer is valid until the next call
  // that is not const.
  const PromptRecord* Find(std::uint64_t row) const {
    const auto record = records_.find(row);
    return record == records_.end() ? nullptr : &record->second;
  }

  void Set(std::uint64_t row, const PromptRecord& record, LedgerChanges& out) {
    out.records[row] = records_[row] = record;
  }

  // Keeps at most kSpare records besides two for each of `groups`, which are under way: at that
  // many all leave but theirs and those of `out`, which are not in the ledger yet.
  void Trim(const std::map<std::uint64_t, GroupRow>& groups, const LedgerChanges& out) {
    if (records_.size() <= 2 * groups.size() + kSpare) return;
    std::set<std::uint64_t> needed;
    for (const auto& [id, group] : groups) needed.insert(group.prompt.row);
    std::erase_if(records_, [&](const auto& entry) {
      return !needed.contains(entry.first) && !out.records.contains(entry.first);
    });
  }

  static constexpr std::size_t kSpare = 1024;

  // Returns whether both have the same records of the prompts of `groups`.
  bool SameOf(const std::map<std::uint64_t, GroupRow>& groups, const PromptRecords& other) const {
    return std::ranges::all_of(groups, [&](const auto& entry) {
      const PromptRecord* const own = Find(entry.second.prompt.row);
      const PromptRecord* const others = other.Find(entry.second.prompt.row);
      return own == nullptr || others == nullptr ? own == others : *own == *others;
    });
  }

  std::size_t size() const { return records_.size(); }

 private:
  std::map<std::uint64_t, PromptRecord> records_;
};

}  // namespace buttress
