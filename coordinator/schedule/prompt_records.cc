#include "coordinator/schedule/prompt_records.h"

#include <algorithm>
#include <set>

namespace buttress {

PromptRecords::PromptRecords(const LedgerSnapshot& snapshot) : records_(snapshot.records) {
  // The ledger has no row of a prompt before its first accepted group.
  for (const auto& [id, group] : snapshot.groups) records_.try_emplace(group.prompt.row);
}

void PromptRecords::Remember(const std::map<std::uint64_t, PromptRecord>& records) {
  records_.insert(records.begin(), records.end());
}

const PromptRecord* PromptRecords::Find(std::uint64_t row) const {
  const auto record = records_.find(row);
  return record == records_.end() ? nullptr : &record->second;
}

void PromptRecords::Set(std::uint64_t row, const PromptRecord& record, LedgerChanges& out) {
  out.records[row] = records_[row] = record;
}

void PromptRecords::Trim(const std::map<std::uint64_t, GroupRow>& groups,
                         const LedgerChanges& out) {
  if (records_.size() <= 2 * groups.size() + kSpare) return;
  std::set<std::uint64_t> needed;
  for (const auto& [id, group] : groups) needed.insert(group.prompt.row);
  std::erase_if(records_, [&](const auto& entry) {
    return !needed.contains(entry.first) && !out.records.contains(entry.first);
  });
}

bool PromptRecords::SameOf(const std::map<std::uint64_t, GroupRow>& groups,
                           const PromptRecords& other) const {
  return std::ranges::all_of(groups, [&](const auto& entry) {
    const std::uint64_t row = entry.second.prompt.row;
    const auto own = records_.find(row), others = other.records_.find(row);
    if (own == records_.end() || others == other.records_.end())
      return (own == records_.end()) == (others == other.records_.end());
    return own->second == others->second;
  });
}

}  // namespace buttress
