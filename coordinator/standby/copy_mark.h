// The mark of a standby's folder, and how a new copy takes the place of the one before.
//
// The file <folder>/standby.json names the run and says what the folder is worth. A copy is
// received into <folder>/incoming; the one before stays whole, as of the last record that it had,
// until the new one is. Then the mark says that the new one is being moved, which any later start
// completes.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

enum class CopyState : std::uint8_t {
  kNone,    // no copy was ever whole
  kWhole,   // what a crash of the coordinator would have left
  kMoving,  // a whole copy is in incoming, or has been moved in part
};

struct CopyMark {
  std::string run_id;
  CopyState state = CopyState::kNone;
};

// What a copy consists of: files and folders.
inline constexpr const char* kCopied[] = {"archive", "payloads", "ledger.db-wal", "ledger.db"};

std::string IncomingFolder(const std::string& folder);

// kNotFound without the mark; kDataLoss if it is damaged.
Result<CopyMark> ReadCopyMark(const std::string& folder);
Status WriteCopyMark(const std::string& folder, const CopyMark& mark);

// Puts the copy in incoming, which is whole and durable and has all of kCopied, into the place of
// the one before. A crash in between leaves the mark kMoving, with which it may be called again.
Status MoveCopy(const std::string& folder, const std::string& run_id);

// Makes `folder` one on which a coordinator can start; OK where it is no standby's.
// kInvalidArgument if no copy in it was ever whole; kFailedPrecondition while a standby has it.
Status PrepareToPromote(const std::string& folder);

// Takes the mark from `folder`, so that it is a run's own; OK where there is none. REQUIRES: the
// caller has the ledger's lock; PrepareToPromote.
Status Promote(const std::string& folder);

}  // namespace buttress
