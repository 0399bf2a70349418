// The file <ledger>.lock: it lets one coordinator at a time have a ledger, and remembers the last
// transaction that was acknowledged.
//
// SQLite takes a write-ahead log up to its first frame without a right checksum. After a power
// failure that is the end of what was synced; after damage the log reads as a shorter one, without
// transactions that were acknowledged. The number of the last one, which is kept apart, tells the
// two apart: it is written once the log is synced, so it is never ahead of what a power failure
// leaves. The file also remembers how long the log is: see checked_log.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

struct LedgerTransaction {
  std::string ledger_id;     // random, made with the ledger
  std::uint64_t number = 0;  // of the ledger's transactions

  bool operator==(const LedgerTransaction&) const = default;
};

// Returns the transaction that the coordinator of the ledger `path` acknowledged last; nullopt if
// none is known.
std::optional<LedgerTransaction> LastAcknowledged(const std::string& path);

// Not thread-safe.
class LedgerLock {
 public:
  // Waits for nobody: kFailedPrecondition if a living process has the ledger `path`, which the
  // message names. kInvalidArgument if the lock's file is a link.
  static Result<LedgerLock> Take(const std::string& path);
  ~LedgerLock();
  LedgerLock(LedgerLock&& other) noexcept;
  LedgerLock(const LedgerLock&) = delete;
  LedgerLock& operator=(const LedgerLock&) = delete;

  // Remembers a durable transaction. It outlives the process, but is not synced. A failure, which
  // only makes the memory older, is ignored.
  void Acknowledge(const LedgerTransaction& last);

 private:
  explicit LedgerLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace buttress
