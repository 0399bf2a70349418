// A disk in memory under SQLite, on which processes die and power fails, as a seed says.
//
// A process sees what it has written. The disk has what was synced; of the rest, a power failure
// leaves any subset of the sectors and of the truncations, in their order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/text/random.h"

namespace buttress {

// What may go wrong, each counted once it has.
enum class DiskFault : std::uint8_t {
  kKilled,  // the process died between two of its calls
  kPowerFailed,
  kTorn,        // a power failure kept some unsynced sectors and lost others
  kSyncFailed,  // a sync failed, and what it should have kept may be lost
  kFull,        // a write found no room
};

inline constexpr std::array<std::string_view, 5> kDiskFaultNames = {"killed", "power failed",
                                                                    "torn", "sync failed", "full"};

// Not thread-safe. At most one under SQLite at a time.
class SimulatedDisk {
 public:
  static constexpr std::size_t kSectorBytes = 512;

  // A disk whose syncs keep nothing, for tests of the tests.
  enum class Syncs : std::uint8_t { kKeep, kIgnored };

  // Whose files are on it: those of SQLite, or only those that a test writes by Apply.
  enum class Under : std::uint8_t { kSqlite, kTest };

  // With Under::kSqlite every database that is opened from now on is on this disk, as long as it
  // lives.
  explicit SimulatedDisk(std::uint64_t seed, Syncs syncs = Syncs::kKeep,
                         Under under = Under::kSqlite);
  ~SimulatedDisk();
  SimulatedDisk(const SimulatedDisk&) = delete;
  SimulatedDisk& operator=(const SimulatedDisk&) = delete;

  // The process dies before its call number `calls` from now that would change the disk: from then
  // on its calls fail and change nothing.
  void KillAfter(std::uint64_t calls) { left_ = calls + 1; }

  // The sync number `syncs` from now fails.
  void FailSyncAfter(std::uint64_t syncs) { syncs_left_ = syncs + 1; }

  // Files may have this many bytes together.
  void SetCapacity(std::uint64_t bytes) { capacity_ = bytes; }

  bool killed() const { return killed_; }

  // Begins the life of another process. REQUIRES: no file is open.
  void Restart();

  // The same, after the power has failed.
  void FailPower();

  const std::array<std::int64_t, kDiskFaultNames.size()>& faults() const { return faults_; }

  // For the file layer: a change is a write of `bytes` at `offset`, or a truncation to `offset`.
  struct Change {
    std::uint64_t offset = 0;
    std::string bytes;
    bool truncates = false;
  };

  struct File {
    std::string seen;  // by processes
    std::string durable;
    std::vector<Change> unsynced;  // of them, a sector each at most
  };

  enum class Answer : std::uint8_t { kDone, kFailed, kNoRoom };

  Answer Apply(File& file, const Change& change);
  Answer Sync(File& file);
  // Removes a file, durably.
  Answer Remove(const std::string& name);

  std::map<std::string, File>& files() { return files_; }

  const std::map<std::string, File>& files() const { return files_; }

 private:
  class Layer;

  bool Lives();  // counts a call

  void Count(DiskFault fault) { ++faults_[static_cast<std::size_t>(fault)]; }

  std::map<std::string, File> files_;
  RandomStream random_;
  const Syncs syncs_;
  std::uint64_t left_ = 0;        // calls until the process dies, itself included; 0: it lives
  std::uint64_t syncs_left_ = 0;  // likewise, until a sync fails
  std::uint64_t capacity_ = std::uint64_t{1} << 40;
  bool killed_ = false;
  std::array<std::int64_t, kDiskFaultNames.size()> faults_{};
  std::unique_ptr<Layer> layer_;
  static bool lives_;
};

}  // namespace buttress
