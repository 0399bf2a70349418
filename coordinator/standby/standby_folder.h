// The folder of a standby: a copy of the coordinator's, kept level by its records. From the moment
// that it is whole it is always what a crash of the coordinator would have left (copy_mark.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/standby/copy_mark.h"
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

  // Begins a copy of `run_id` anew; one that is whole stays until the new one is.
  // kInvalidArgument if that is of another run.
  Status Begin(const std::string& run_id);

  // Does what the next record says. Returns whether it is one to confirm: all before it is durable.
  // kDataLoss if it is damaged or not the next one; kResourceExhausted if the disk is full.
  Result<bool> Apply(const v1::FollowResponse& record);

  // Returns whether the copy that was begun is whole.
  bool level() const { return level_; }

  // Returns whether a coordinator could start on the folder.
  bool whole() const { return mark_.state == CopyState::kWhole; }

 private:
  struct File {
    OwnedFd descriptor;
    bool is_new = false;  // its name is not durable yet
  };

  StandbyFolder(std::string folder, LedgerLock lock, CopyMark mark)
      : folder_(std::move(folder)), lock_(std::move(lock)), mark_(std::move(mark)) {}

  std::string PathOf(const std::string& name) const;
  Status BecomeLevel();
  Result<File*> Find(const std::string& name);
  Status Write(const v1::FollowResponse& record);
  Status Truncate(const v1::FollowResponse& record);
  Status Sync(const std::string& name);
  Status Remove(const std::string& name);

  std::string folder_;
  LedgerLock lock_;
  CopyMark mark_;
  bool level_ = false;
  std::uint64_t number_ = 0;  // of the last record
  std::map<std::string, File> open_;
};

}  // namespace buttress
