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
//
// What waits for a standby in memory is bounded: one that is further behind loses its connection,
// and receives a new copy when it returns. During a copy that is the database's log alone, since
// segments are read from disk when their turn comes.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/standby/folder_copy.h"
#include "coordinator/standby/mirrored_files.h"
#include "coordinator/standby/standby_gauges.h"
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
  void Archived(const std::string& path);

  // Ends a turn that is durable here, and awaits the standby.
  void EndTurn(const std::function<void()>& meanwhile = [] {});

  // In synchronous mode returns once a standby has all that is durable here, or when `wait_ms` have
  // passed: from then on nothing waits until a standby is level again. Calls `meanwhile` several
  // times a second.
  void AwaitStandby(const std::function<void()>& meanwhile = [] {});

  // Sets the metrics of the lag.
  void Report();

  // Ends a wait. REQUIRES: no answer can leave the process any more. Thread-safe.
  void Stop();

  // Returns how far the standby is, for people. Thread-safe.
  std::string StatusText() const;

  // What follows is for the call of a standby, and thread-safe. Returns the id of a new standby,
  // which takes the place of an earlier call of the same `name`; 0 while one of another name
  // follows, since two would take turns for ever.
  std::uint64_t Attach(const std::string& name = {});
  void Detach(std::uint64_t id);
  bool attached(std::uint64_t id) const;

  enum class Next : std::uint8_t { kRecord, kNothing, kReplaced };

  // Waits for the next record at most `timeout`.
  Next Take(std::uint64_t id, std::chrono::milliseconds timeout, v1::FollowResponse& record);

  // The standby has everything up to the record `number`.
  void Confirm(std::uint64_t id, std::uint64_t number);

 private:
  // A turn that was recorded and is not confirmed.
  struct OpenTurn {
    std::uint64_t turn;
    std::int64_t ended_ms;
  };

  // The last turn that a record covers.
  struct Sent {
    std::uint64_t number;
    std::uint64_t turn;
    bool level;
  };

  void NoteSegments() REQUIRES(mutex_);
  void RecordTurn(std::int64_t ended_ms);
  // Waits a little; returns whether the turn may end.
  bool MayEnd(std::int64_t since_ms);
  void AddLocked(FollowItem item) REQUIRES(mutex_);
  // Adds these bytes of the file `name`, all of which are there.
  void AddFromFile(const std::string& name, std::uint64_t from, std::uint64_t to) REQUIRES(mutex_);
  FollowItem NextItem() REQUIRES(mutex_);
  bool HasNext() const REQUIRES(mutex_);
  void Drop(const std::string& why) REQUIRES(mutex_);
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
  std::string name_ GUARDED_BY(mutex_);
  SegmentBytes segments_ GUARDED_BY(mutex_);  // that a record or a copy has, or will have
  FolderCopy copy_ GUARDED_BY(mutex_);
  bool level_sent_ GUARDED_BY(mutex_) = false;
  std::deque<FollowItem> queue_ GUARDED_BY(mutex_);
  std::uint64_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t number_ GUARDED_BY(mutex_) = 0;  // of the last record that was taken
  std::deque<Sent> sent_ GUARDED_BY(mutex_);
  std::deque<OpenTurn> open_turns_ GUARDED_BY(mutex_);
  std::uint64_t turn_ GUARDED_BY(mutex_) = 0;
  std::uint64_t confirmed_turn_ GUARDED_BY(mutex_) = 0;
  bool level_ GUARDED_BY(mutex_) = false;      // the standby's copy is whole
  bool was_level_ GUARDED_BY(mutex_) = false;  // a standby's was, since the start
  bool alone_ GUARDED_BY(mutex_) = false;      // turns do not wait
  bool stopped_ GUARDED_BY(mutex_) = false;
  MirroredFiles files_;
};

}  // namespace buttress
