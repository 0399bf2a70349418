// The folder of a standby: a copy of the coordinator's, kept level by its records.
//
// The file <folder>/standby.json marks it. It names the run, and says whether the copy is whole:
// from then on the folder is at any moment what a crash of the coordinator would leave, and a
// coordinator may be started on it, which takes the mark away (Promote).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"
#include "lib/ledger/ledger_lock.h"

namespace buttress {

// Not thread-safe.
class StandbyFolder {
 public:
  // Makes the folder if it is missing, and keeps a coordinator from using it meanwhile.
  // kInvalidArgument if a run is in it that is no standby's copy; kFailedPrecondition while a
  // coordinator or another standby has it.
  static Result<StandbyFolder> Open(const std::string& folder);

  // Begins a copy of `run_id` anew. kInvalidArgument if the folder has the copy of another run.
  Status Begin(const std::string& run_id);

  // Does what the next record says. Returns whether it is one to confirm: all before it is durable.
  // kDataLoss if it is damaged or not the next one; kResourceExhausted if the disk is full.
  Result<bool> Apply(const v1::FollowResponse& record);

  bool level() const { return level_; }

 private:
  struct File {
    OwnedFd descriptor;
    bool is_new = false;  // its name is not durable yet
  };

  StandbyFolder(std::string folder, LedgerLock lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  Status Clear();
  Status WriteMark() const;
  Result<File*> Find(const std::string& name);
  Status Write(const v1::FollowResponse& record);
  Status Truncate(const v1::FollowResponse& record);
  Status Sync(const std::string& name);
  Status Remove(const std::string& name);

  std::string folder_;
  LedgerLock lock_;
  std::string run_id_;  // of the copy; empty: none
  bool level_ = false;
  std::uint64_t number_ = 0;  // of the last record
  std::map<std::string, File> open_;
};

// Returns OK if a coordinator may start on `folder`. kInvalidArgument if it has the copy of a
// standby that is not whole.
Status CheckPromotable(const std::string& folder);

// Takes the mark of a standby from `folder`, so that it is a run's own; OK where there is none.
// REQUIRES: the caller has the ledger's lock; CheckPromotable.
Status Promote(const std::string& folder);

}  // namespace buttress
