#include "tests/simulation/standby/standby_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "lib/base/report/check.h"
#include "tests/simulation/seams.h"

namespace buttress::simulation {
namespace {

namespace fs = std::filesystem;

StandbyDisk* standby_disk = nullptr;  // the one that lives

int Errno(SimulatedDisk::Answer answer) {
  if (answer == SimulatedDisk::Answer::kDone) return 0;
  errno = answer == SimulatedDisk::Answer::kNoRoom ? ENOSPC : EIO;
  return -1;
}

ino_t InodeOf(const fs::path& path) {
  struct stat info {};

  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// In an order that does not depend on the folder's.
std::vector<fs::path> FilesIn(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

std::string ContentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

StandbyDisk::StandbyDisk(std::uint64_t seed, std::string folder, bool lies)
    : folder_(std::move(folder)),
      disk_(seed, lies ? SimulatedDisk::Syncs::kIgnored : SimulatedDisk::Syncs::kKeep,
            SimulatedDisk::Under::kTest),
      dice_(seed, "standby disk") {
  BUTTRESS_CHECK(standby_disk == nullptr, "one disk of a standby lives at a time");
  standby_disk = this;
}

StandbyDisk::~StandbyDisk() { standby_disk = nullptr; }

StandbyDisk* StandbyDisk::Find() { return standby_disk; }

// The lock and the mark of the copy are durable at once.
bool StandbyDisk::Owns(const std::string& path) const {
  const std::string name = fs::path(path).filename().string();
  return path.starts_with(folder_) && name.find(".lock") == std::string::npos &&
         name.find(".json") == std::string::npos;
}

int StandbyDisk::Open(const char* path, int flags, unsigned mode) {
  const bool is_new = InodeOf(path) == 0;
  if (is_new && disk_.killed()) return Errno(SimulatedDisk::Answer::kFailed);
  const int descriptor = __real_open(path, flags, mode);
  if (descriptor < 0) return descriptor;
  if (fs::is_directory(path)) {
    open_[descriptor];
    return descriptor;
  }
  std::string& name = names_[InodeOf(path)];
  if (is_new) {
    disk_.files().erase(name);
    name = fmt::format("{:06}", ++made_);
    nameless_.insert(name);
  }
  open_[descriptor] = name;
  return descriptor;
}

long StandbyDisk::Write(int descriptor, const std::string& bytes, std::int64_t offset) {
  SimulatedDisk::File& file = disk_.files()[open_.at(descriptor)];
  if (Errno(disk_.Apply(file, {static_cast<std::uint64_t>(offset), bytes, false})) != 0) return -1;
  return __real_pwrite(descriptor, bytes.data(), bytes.size(), offset);
}

int StandbyDisk::Truncate(int descriptor, std::int64_t size) {
  SimulatedDisk::File& file = disk_.files()[open_.at(descriptor)];
  if (Errno(disk_.Apply(file, {static_cast<std::uint64_t>(size), "", true})) != 0) return -1;
  return __real_ftruncate(descriptor, size);
}

int StandbyDisk::Sync(int descriptor) {
  const std::string& name = open_.at(descriptor);
  if (!name.empty()) return Errno(disk_.Sync(disk_.files()[name]));
  if (disk_.killed()) return Errno(SimulatedDisk::Answer::kFailed);
  nameless_.clear();
  return 0;
}

void StandbyDisk::FailPower() {
  disk_.FailPower();
  for (const fs::path& path : FilesIn(folder_)) {
    const auto name = names_.find(InodeOf(path));
    if (name == names_.end() || !Owns(path.string())) continue;
    if (nameless_.contains(name->second) && dice_.Chance(50)) {
      fs::remove(path);
    } else {
      std::ofstream(path, std::ios::binary | std::ios::trunc) << disk_.files()[name->second].seen;
    }
  }
  nameless_.clear();
}

FolderDisk::Copy StandbyDisk::Files() const {
  FolderDisk::Copy copy;
  for (const fs::path& path : FilesIn(folder_)) {
    const std::string name = path.lexically_relative(folder_).string();
    const bool needed = name == "ledger.db" || name == "ledger.db-wal" ||
                        name.starts_with("payloads/") || name.starts_with("archive/");
    if (needed) copy[name] = ContentOf(path);
  }
  return copy;
}

void StandbyDisk::Clear() {
  for (const auto& entry : fs::directory_iterator(folder_)) fs::remove_all(entry.path());
  names_.clear();
  nameless_.clear();
  disk_.files().clear();
  disk_.Restart();
}

}  // namespace buttress::simulation
