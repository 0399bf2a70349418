// What a standby has to be sent: the files of the run's folder that make up its ledger, and every
// change of them in order.
//
// Payloads, archives and the ledger's database with its log are followed as bytes of files. The
// database and its log pass a layer under SQLite, with their syncs; segments only grow, so what is
// new in them is read from them once it is durable; an archive is sent once it is whole. What is
// named is sent before what names it: payloads and archives before the transaction. So every prefix
// of the records is a state in which a crash of this process could have left the folder.
//
// A standby that comes is sent a copy of all files in slices, while turns go on. They are read at
// different moments; the changes since the first one follow, and make the copy that of one moment.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/standby/mirrored_files.h"
#include "coordinator/standby/standby_gauges.h"
#include "lib/base/os/fd.h"
#include "lib/base/report/metrics.h"
#include "lib/base/thread/sync.h"
#include "lib/config/run_config.h"

namespace buttress {

class Mirror {
 public:
  // `wait_ms` is local.coordinator.standby_wait_ms. REQUIRES: made before the ledger in `folder` is
  // opened, and destroyed after it.
  Mirror(std::string folder, StandbyMode mode, std::int64_t wait_ms, Metrics& metrics);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Begins with the segments as they are. Call it once the payload store is open.
  void Start(std::string run_id);

  const std::string& run_id() const { return run_id_; }

  // For the loop's thread: after what happened, and before the transaction that tells of it.
  void PayloadsSynced();
  void PayloadsDeleted(std::uint64_t first_kept);
  void Archived();

  // Ends a turn that is durable here. In synchronous mode returns once the standby has it as well,
  // or when `wait_ms` have passed: from then on turns do not wait until a standby is level again.
  void EndTurn();

  // Sets the metrics of the lag.
  void Report();

  // Ends a wait. REQUIRES: no answer can leave the process any more. Thread-safe.
  void Stop();

  // Returns how far the standby is, for people. Thread-safe.
  std::string StatusText() const;

  // What follows is for the call of a standby, and thread-safe. A new standby replaces the one
  // before, whose id is then no longer that of Attach.
  std::uint64_t Attach();
  void Detach(std::uint64_t id);

  enum class Next : std::uint8_t { kRecord, kNothing, kReplaced };

  // Waits for the next record at most `timeout`.
  Next Take(std::uint64_t id, std::chrono::milliseconds timeout, v1::FollowResponse& record);

  // The standby has everything up to the record `number`.
  void Confirm(std::uint64_t id, std::uint64_t number);

 private:
  struct Item {
    v1::FileOperation operation;
    std::string file;
    std::uint64_t offset = 0;
    std::string data;
  };

  struct CopiedFile {
    std::string name;
    std::uint64_t limit;
  };

  // A turn that was sent, or is about to be, and is not confirmed.
  struct OpenTurn {
    std::uint64_t turn;
    std::int64_t ended_ms;
    std::uint64_t bytes;  // recorded when it ended
  };

  // The last turn that a record covers.
  struct Sent {
    std::uint64_t number;
    std::uint64_t turn;
    bool level;
  };

  void AddLocked(Item item) REQUIRES(mutex_);
  void AddFromFile(const std::string& name, std::uint64_t from, std::uint64_t to) REQUIRES(mutex_);
  void PlanCopy() REQUIRES(mutex_);
  bool CopySlice(Item& item) REQUIRES(mutex_);
  std::string ReadSlice(const std::string& name, std::uint64_t offset, std::uint64_t size)
      REQUIRES(mutex_);
  bool HasNext() const REQUIRES(mutex_);
  void Drop(const char* why) REQUIRES(mutex_);
  void ReportLocked() REQUIRES(mutex_);
  std::int64_t LagMs() const REQUIRES(mutex_);

  bool Confirmed() const REQUIRES(mutex_) { return level_ && confirmed_turn_ >= turn_; }

  const std::string folder_;
  const StandbyMode mode_;
  const std::int64_t wait_ms_;
  Metrics& metrics_;
  const StandbyGauges gauges_;
  std::string run_id_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::uint64_t id_ GUARDED_BY(mutex_) = 0;  // of the standby; 0: none
  std::uint64_t last_id_ GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, std::uint64_t> segments_ GUARDED_BY(mutex_);  // durable bytes
  // The copy under way; empty when it is whole.
  std::deque<CopiedFile> copy_ GUARDED_BY(mutex_);
  std::uint64_t copied_ GUARDED_BY(mutex_) = 0;  // bytes of the first one
  bool level_sent_ GUARDED_BY(mutex_) = false;
  // Closing any descriptor of the database would end SQLite's locks of it, so one is kept.
  OwnedFd database_ GUARDED_BY(mutex_);
  std::deque<Item> queue_ GUARDED_BY(mutex_);
  std::uint64_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t recorded_bytes_ GUARDED_BY(mutex_) = 0;  // since the standby came
  std::uint64_t number_ GUARDED_BY(mutex_) = 0;          // of the last record that was taken
  std::deque<Sent> sent_ GUARDED_BY(mutex_);
  std::deque<OpenTurn> open_turns_ GUARDED_BY(mutex_);
  std::uint64_t turn_ GUARDED_BY(mutex_) = 0;
  std::uint64_t confirmed_turn_ GUARDED_BY(mutex_) = 0;
  bool level_ GUARDED_BY(mutex_) = false;  // the standby's copy is whole
  bool alone_ GUARDED_BY(mutex_) = false;  // turns do not wait
  bool stopped_ GUARDED_BY(mutex_) = false;
  MirroredFiles files_;
};

}  // namespace buttress
