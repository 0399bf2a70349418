// Decides whether the disk of the run has room for a turn, and says why not.
//
// The run pauses when the disk has less than kPauseBelowBytes left or when a write finds it full,
// and goes on at kGoOnAtBytes. The room between is for the ledger: a pause begins while SQLite can
// still commit, so that as a rule nothing waits in memory to be written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "coordinator/coordinator_metrics.h"
#include "lib/base/status.h"

namespace buttress {

inline constexpr std::uint64_t kPauseBelowBytes = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kGoOnAtBytes = std::uint64_t{32} << 20;

// Not thread-safe.
class DiskPause {
 public:
  // Returns the free bytes; nullopt if the system does not say, which counts as enough.
  using Measure = std::function<std::optional<std::uint64_t>()>;

  // `folder` is the run folder, for messages.
  DiskPause(std::string folder, Measure measure, CoordinatorMetrics& metrics);

  bool paused() const { return !why_.empty(); }

  // Returns why the run is paused; empty if it is not.
  const std::string& why() const { return why_; }

  // Begins a pause if too little is free. Returns paused().
  bool Check(std::int64_t now_ms);

  // Begins a pause, or prolongs it, because a write has found the disk full.
  void Begin(const Status& full, std::int64_t now_ms);

  // Returns true if it is time to try a write again and the disk has room. REQUIRES: paused().
  bool MayTry(std::int64_t now_ms);

  // Returns when MayTry can next be true. REQUIRES: paused().
  std::int64_t next_try_ms() const { return next_try_ms_; }

  // Ends the pause.
  void End(std::int64_t now_ms);

 private:
  // Says in why() how much is free.
  void Note(std::optional<std::uint64_t> free);
  // Logs that a pause begins.
  void Tell(std::optional<std::uint64_t> free);

  const std::string folder_;
  const Measure measure_;
  CoordinatorMetrics& metrics_;
  std::string why_;
  std::string error_;  // of the write that found the disk full
  std::int64_t since_ms_ = 0;
  std::int64_t next_try_ms_ = 0;
};

}  // namespace buttress
