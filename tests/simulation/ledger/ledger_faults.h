// What befalls the ledger while no coordinator has it open: bits that flip on its disk, and an
// operator who gives a group up.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cli/keep/drop_prune.h"
#include "tests/simulation/folder_disk.h"

namespace buttress::simulation {

// Bits of ledger.db, its log and its archives that have flipped. A copy of the run folder keeps a
// copy of them.
class LedgerFlips {
 public:
  // Flips a bit of the database or, if there is one and `log` says so, of its log; `at` decides
  // where. Returns whether there was a bit to flip.
  bool Flip(FolderDisk& disk, bool log, std::uint64_t at);

  // Flips a bit of one of the archives. Returns whether there is one.
  bool FlipArchive(FolderDisk& disk, std::uint64_t which, std::uint64_t at);

  // Returns the files whose damage nobody has written over since.
  std::set<std::string> Damaged(FolderDisk& disk) const;

  // Flips those back that nobody has written over since.
  void Mend(FolderDisk& disk);

  bool any() const { return !flipped_.empty(); }

 private:
  void FlipAt(FolderDisk& disk, const std::string& path, std::uint64_t at);

  struct Flipped {
    std::string path;
    std::uint64_t at = 0;
    std::string around;  // the bytes of its page, after the flip
  };

  static bool IsThere(FolderDisk& disk, const Flipped& flipped);

  std::vector<Flipped> flipped_;
};

// `buttress ledger drop` on the run folder. REQUIRES: no coordinator runs.
Result<DroppedGroup> DropByOperator(const std::string& folder, std::uint64_t group_id);

}  // namespace buttress::simulation
