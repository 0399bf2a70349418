// The mark of a ledger: a small file beside it, <path>.mark, that says which ledger this is and how
// far it had come. By it a ledger that was replaced by an older copy or by that of another run, and
// a copy of a whole run folder, are told before anything is written to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/status.h"
#include "lib/ledger/rows.h"

namespace buttress {

struct LedgerMark {
  std::string run_id;
  StartRow start;                     // the last one of the coordinator
  std::uint64_t checkpoint_step = 0;  // of the newest checkpoint that the ledger names
  std::uint64_t inode = 0;            // of the ledger's file: a copy has another one
  std::uint64_t learner_epoch = 0;    // of the last learner; a later one may go back to an older
                                      // checkpoint. 0 in a mark that does not name it

  bool operator==(const LedgerMark&) const = default;
};

// <path>.mark.
std::string LedgerMarkPath(const std::string& path);

// Writes the mark of the ledger `path`, durably; it fills `inode`. REQUIRES: what it says is
// durable in the ledger, so that a mark is never ahead of its ledger.
Status WriteLedgerMark(const std::string& path, LedgerMark mark);

// What the ledger itself says; run_id is empty if it is new.
struct LedgerSays {
  std::string run_id;
  std::optional<StartRow> start;
  std::uint64_t checkpoint_step = 0;
  std::uint64_t learner_epoch = 0;
};

// Which ledgers may be opened beside a mark.
enum class LedgerAge : std::uint8_t {
  kNewest,
  kOlderToo,  // of the same run: an operator knows that the newest one is lost
};

// Compares the ledger `path` with its mark; OK without one, as in a backup that was restored.
// kDataLoss if the ledger is older than its mark, which `age` may allow, or of another run.
// kInvalidArgument if it is a copy, of which the original may go on.
Status CheckLedgerMark(const std::string& path, const LedgerSays& ledger,
                       LedgerAge age = LedgerAge::kNewest);

// Returns the mark of the ledger `path`; nullopt without one. kDataLoss if it is damaged.
Result<std::optional<LedgerMark>> ReadLedgerMark(const std::string& path);

// Returns in what the ledger of the run of `mark` is older than it, or went on elsewhere; "" if it
// is the one of the mark or newer.
std::string OlderThanMark(const LedgerMark& mark, const LedgerSays& ledger);

}  // namespace buttress
