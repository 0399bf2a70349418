// The records that the selection of prompts keeps of those that are under way. The records of all
// others are in the ledger alone, where a draw reads them, so that the memory of the coordinator
// does not grow with the dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "lib/ledger/rows.h"

namespace buttress {

// The records of prompts, by row of the dataset. Not thread-safe.
class PromptRecords {
 public:
  PromptRecords() = default;
  explicit PromptRecords(const LedgerSnapshot& snapshot);

  // Adds those that it does not have; what it has is newer.
  void Remember(const std::map<std::uint64_t, PromptRecord>& records);

  // Returns null if the record is in the ledger alone. The pointer is valid until the next call
  // that is not const.
  const PromptRecord* Find(std::uint64_t row) const;

  void Set(std::uint64_t row, const PromptRecord& record, LedgerChanges& out);

  // Keeps at most kSpare records besides two for each of `groups`, which are under way: at that
  // many all leave but theirs and those of `out`, which are not in the ledger yet.
  void Trim(const std::map<std::uint64_t, GroupRow>& groups, const LedgerChanges& out);

  static constexpr std::size_t kSpare = 1024;

  // Returns whether both have the same records of the prompts of `groups`.
  bool SameOf(const std::map<std::uint64_t, GroupRow>& groups, const PromptRecords& other) const;

  std::size_t size() const { return records_.size(); }

 private:
  std::map<std::uint64_t, PromptRecord> records_;
};

}  // namespace buttress
