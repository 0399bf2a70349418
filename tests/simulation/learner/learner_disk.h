// The disk of the learner's checkpoints. Its files are real files in a folder; what is written to
// them passes a SimulatedDisk as well, by the functions that the linker puts in the place of system
// calls (folder_disk.cc).
//
// Names are those of a journal that a sync of a folder makes durable: a power failure leaves the
// folders as they were at one moment since the last one, and of the files' content what was synced
// and any subset of the other sectors.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/world.h"
#include "tests/support/fakes/simulated_disk.h"

namespace buttress::simulation {

// Not thread-safe. At most one at a time.
class LearnerDisk {
 public:
  // What syncs keep nothing of, for planted faults.
  struct Lies {
    bool files = false;
    bool names = false;
  };

  LearnerDisk(std::uint64_t seed, std::string folder, const Lies& lies);
  ~LearnerDisk();
  LearnerDisk(const LearnerDisk&) = delete;
  LearnerDisk& operator=(const LearnerDisk&) = delete;

  // Returns the one that lives; null without one.
  static LearnerDisk* Find();

  const std::string& folder() const { return folder_; }

  SimulatedDisk& disk() { return disk_; }

  // Calls what was given to OnPowerFailure, which ends all processes that use it.
  void FailPower();

  void OnPowerFailure(std::function<void()> power_fails) { power_fails_ = std::move(power_fails); }

  // What a backup has: files by their paths in the folder.
  using Copy = std::map<std::string, std::string>;

  Copy Files() const;
  void PutBack(const Copy& copy);

  // Flips a bit of the file, for good.
  void Flip(const std::string& path, std::uint64_t at);

  // Removes a folder, for good.
  void Remove(const std::string& path);

  // For the functions that stand for system calls; -1 and errno if they fail.
  bool Owns(const std::string& path) const { return path.starts_with(folder_); }

  bool Has(int descriptor) const { return open_.contains(descriptor); }

  int Open(const char* path, int flags, unsigned mode);
  long Write(int descriptor, const std::string& bytes);
  int Sync(int descriptor);
  int Rename(const char* from, const char* to);
  int Unlink(const char* path);

  void Close(int descriptor) { open_.erase(descriptor); }

 private:
  struct OpenFile {
    std::string name;  // on the simulated disk; empty for a folder
    std::uint64_t offset = 0;
  };

  // Paths in the folder, with the names of files on the simulated disk; a folder has none.
  using Tree = std::map<std::string, std::string>;

  Tree Look() const;
  void Become(const Tree& tree);
  std::string NewName();

  const std::string folder_;
  const Lies lies_;
  SimulatedDisk disk_;
  Dice dice_;
  std::map<ino_t, std::string> names_;  // on the simulated disk, of files that there are
  std::map<int, OpenFile> open_;
  std::vector<Tree> trees_;  // since the last sync of a folder
  std::uint64_t made_ = 0;
  std::function<void()> power_fails_;
};

}  // namespace buttress::simulation
