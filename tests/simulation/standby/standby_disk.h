// The disk of the standby's machine. Its files are real files in a folder; what is written to them
// passes a SimulatedDisk as well, by the functions that the linker puts in the place of system
// calls (folder_disk.cc). A power failure leaves the files as that disk has them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "tests/simulation/folder_disk.h"
#include "tests/simulation/world.h"
#include "tests/support/fakes/simulated_disk.h"

namespace buttress::simulation {

// Not thread-safe. At most one at a time.
class StandbyDisk {
 public:
  // `lies`: syncs keep nothing, for a planted fault.
  StandbyDisk(std::uint64_t seed, std::string folder, bool lies);
  ~StandbyDisk();
  StandbyDisk(const StandbyDisk&) = delete;
  StandbyDisk& operator=(const StandbyDisk&) = delete;

  // Returns the one that lives; null without one.
  static StandbyDisk* Find();

  const std::string& folder() const { return folder_; }

  SimulatedDisk& disk() { return disk_; }

  // REQUIRES: no file is open.
  void FailPower();

  // The files that a coordinator needs, as a process sees them, by their paths in the folder.
  FolderDisk::Copy Files() const;

  // Deletes everything.
  void Clear();

  // For the functions that stand for system calls; -1 and errno if they fail.
  bool Owns(const std::string& path) const;
  int Open(const char* path, int flags, unsigned mode);
  long Write(int descriptor, const std::string& bytes, std::int64_t offset);
  int Truncate(int descriptor, std::int64_t size);
  int Sync(int descriptor);

  void Close(int descriptor) { open_.erase(descriptor); }

  bool Has(int descriptor) const { return open_.contains(descriptor); }

 private:
  const std::string folder_;
  SimulatedDisk disk_;
  Dice dice_;
  // Names of files on the simulated disk, in the order in which they were made: a real file may be
  // renamed, and its inode used again.
  std::map<ino_t, std::string> names_;
  std::map<int, std::string> open_;  // by descriptor; a folder has no name
  std::set<std::string> nameless_;   // made, and their folder not synced since
  std::uint64_t made_ = 0;
};

}  // namespace buttress::simulation
