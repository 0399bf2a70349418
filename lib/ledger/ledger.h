// The run's memory: one SQLite file (WAL, synchronous FULL) with the tables of schema.h. One
// process writes it through one connection; others may read it at the same time (reader.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/report/status.h"
#include "lib/ledger/ledger_lock.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/rows.h"

namespace buttress {

// Not thread-safe.
class Ledger : public LedgerReader {
 public:
  // Opens the file `path`, or creates it. kFailedPrecondition if another coordinator has it open or
  // if it is not a ledger. kInvalidArgument if it is a ledger of another version.
  // kDataLoss if it is damaged, or if its write-ahead log has lost transactions that were
  // acknowledged; the log stays as it is then.
  static Result<std::unique_ptr<Ledger>> Open(const std::string& path);
  ~Ledger();

  // Writes `changes` in one transaction; they are durable when it returns OK. An error leaves the
  // file as it was. After kResourceExhausted, which is a full disk, the same changes may be written
  // again; after any other error, a caller that has applied them in memory must end and restart
  // from the file. REQUIRES: the payloads that `changes` names are durable (PayloadStore::Sync).
  Status Write(const LedgerChanges& changes);

  // Moves the oldest groups, which have ended, to a new archive (archive.h): at most `most` of
  // them, and none before those of `min_steps` steps may go. Groups stay that a restart may need:
  // those from FirstEndedTag on, and those that count with a group under way. Returns how many
  // went. Calls `written` with the archive's path once that is durable, before the ledger names it.
  // An error leaves rows and archives as they were.
  Result<std::int64_t> Archive(
      std::uint64_t min_steps, std::int64_t most,
      const std::function<void(const std::string&)>& written = [](const std::string&) {});

  // Returns the end of the last payload that is referenced, for PayloadStore::Open.
  const PayloadEnd& payload_end() const { return payload_end_; }

 private:
  class Writer;

  Ledger(LedgerLock lock, const std::string& path, std::unique_ptr<Database> database);
  Status Prepare(const std::optional<LedgerTransaction>& acknowledged);
  // The last of the groups, from the first on, of which a restart reads none.
  Result<std::uint64_t> LastToArchive();
  // Calls `body`, which returns a Status, in a transaction.
  template <class Body>
  Status Transact(const Body& body);

  LedgerLock lock_;
  LedgerTransaction last_;
  std::unique_ptr<Writer> writer_;
  PayloadEnd payload_end_;
};

}  // namespace buttress
