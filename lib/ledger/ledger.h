// The run's memory: one SQLite file (WAL, synchronous FULL). One process writes it, through one
// connection; others may read it (reader.h). Tables in schema.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/status.h"
#include "lib/ledger/payload_store.h"
#include "lib/ledger/rows.h"

namespace buttress {

class Database;

// For one thread at a time.
class Ledger {
 public:
  // Opens or makes the file `path`. kFailedPrecondition: another coordinator has it open, or it is
  // no ledger of this version. kDataLoss: SQLite finds it damaged.
  static Result<std::unique_ptr<Ledger>> Open(const std::string& path);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // What a coordinator restarts from.
  Result<LedgerSnapshot> Load();

  // One transaction; durable when OK. An error leaves the file as it was: kResourceExhausted when
  // the disk is full. Whoever has already acted on the batch in memory must then end and restart
  // from the file. `before_commit` may make durable what the batch refers to, while its rows are
  // already being written; if it fails, nothing is committed.
  Status Write(const LedgerBatch& batch, const std::function<Status()>& before_commit = {});

  // End of the last payload that is referenced, for PayloadStore::Open.
  const PayloadEnd& payload_end() const { return payload_end_; }

 private:
  struct Statements;

  Ledger(int lock, std::unique_ptr<Database> database);
  Status FindPayloadEnd();

  const int lock_;  // flock on <path>.lock, held as long as this object
  std::unique_ptr<Database> database_;
  std::unique_ptr<Statements> statements_;
  PayloadEnd payload_end_;
};

}  // namespace buttress
