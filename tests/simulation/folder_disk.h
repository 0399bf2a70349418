// The disk of the coordinator's run folder. SQLite's files are on the simulated disk; the segments
// of payloads are real files in a temporary folder, and what is written to them goes through that
// disk as well: the linker puts the functions of folder_disk.cc in the place of open(2),
// pwritev(2), ftruncate(2), fdatasync(2), fsync(2), unlink(2), rename(2) and close(2)
// (CMakeLists.txt), so that the code under test has no seam of its own for this. An archive is a
// file of SQLite, which has a real file as well, for those who read it by read(2).
//
// Beyond what SimulatedDisk does, the name of a new file is lost by a power failure until its
// folder is synced; so is a new name of an old one; and a deleted file may come back.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/world.h"
#include "tests/support/fakes/simulated_disk.h"

namespace buttress::simulation {

// Not thread-safe. At most one at a time.
class FolderDisk {
 public:
  // What a disk keeps that syncs lie on, for planted faults.
  struct Lies {
    bool syncs = false;          // of the database
    bool payload_syncs = false;  // of segments
    bool folder_syncs = false;
    bool short_writes = false;  // a part is written, and all of it is said to be
    bool archive_syncs = false;
    bool archive_names = false;  // their folder is not synced
  };

  // The run folder is `folder`, which is empty.
  FolderDisk(std::uint64_t seed, std::string folder, const Lies& lies);
  ~FolderDisk();
  FolderDisk(const FolderDisk&) = delete;
  FolderDisk& operator=(const FolderDisk&) = delete;

  const std::string& folder() const { return folder_; }

  SimulatedDisk& disk() { return disk_; }

  // REQUIRES for these: no file is open.
  void Restart() { disk_.Restart(); }

  void FailPower();

  // What a backup has: all files as a process sees them.
  using Copy = std::map<std::string, std::string>;

  Copy Files() const;
  void PutBack(const Copy& copy);

  // Flips a byte of a segment at `at`, behind the last sync. Returns whether there is one.
  bool Flip(const std::string& path, std::uint64_t at);

  // Takes the folder of payloads away, as a lost mount does, or brings it back.
  void SetAway(bool away);

  bool away() const { return away_; }

  // Segments were deleted by a call that is no seam.
  void ForgetDeleted();

  // Makes the database and its log real files as well, for who reads them beside SQLite, and ends
  // that.
  void ShowDatabase();
  void HideDatabase();

  // Makes the real file of an archive, or another file, what the disk has.
  void ShowFile(const std::string& path);

  static bool IsArchive(const std::string& path);

  std::uint64_t UsedBytes();

  // For the functions that stand for system calls; -1 and errno if they fail.
  int Open(const char* path, int flags, unsigned mode);
  long Write(int descriptor, const std::string& bytes, std::int64_t offset);
  int Truncate(int descriptor, std::int64_t size);
  int Sync(int descriptor);
  int SyncByName(int descriptor);  // a folder or an archive
  int Unlink(const char* path);
  int Rename(const std::string& from, const std::string& to);

  void Close(int descriptor) { open_.erase(descriptor); }

  bool Has(int descriptor) const { return open_.contains(descriptor); }

  bool Owns(const std::string& path) const {
    return path.starts_with(Payloads()) || path.starts_with(folder_ + "/archive");
  }

 private:
  struct Renamed {
    std::string from;
    std::string to;
    std::string replaced;  // what `to` had
  };

  std::string Payloads() const { return folder_ + "/payloads"; }

  void WriteReal(const std::string& path, const std::string& content);
  int UnlinkArchive(const std::string& path);
  // A power failure: new names of archives may be lost.
  void LoseNames();

  const std::string folder_;
  const Lies lies_;
  SimulatedDisk disk_;
  Dice dice_;
  std::map<int, std::string> open_;             // segments, by descriptor
  std::set<std::string> nameless_;              // made, and the folder not synced since
  std::map<std::string, std::string> deleted_;  // likewise
  std::vector<Renamed> renamed_;                // likewise
  bool away_ = false;
};

}  // namespace buttress::simulation
