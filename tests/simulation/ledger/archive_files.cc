// The archives of the ledger on the disk of the run folder (folder_disk.h).
#include <cerrno>
#include <filesystem>
#include <utility>

#include "tests/simulation/folder_disk.h"
#include "tests/simulation/seams.h"

namespace buttress::simulation {

bool FolderDisk::IsArchive(const std::string& path) {
  return path.find("/archive/") != std::string::npos;
}

// SQLite may have the file open, so its place on the simulated disk stays.
int FolderDisk::UnlinkArchive(const std::string& path) {
  const auto file = disk_.files().find(path);
  if (file != disk_.files().end()) {
    if (disk_.Apply(file->second, {0, "", true}) != SimulatedDisk::Answer::kDone) {
      errno = EIO;
      return -1;
    }
    file->second = {};
  }
  return __real_unlink(path.c_str());
}

int FolderDisk::Rename(const std::string& from, const std::string& to) {
  Pass(Seam::kRename);
  auto& files = disk_.files();
  if (disk_.Apply(files[from], {}) != SimulatedDisk::Answer::kDone) {  // changes no byte
    errno = EIO;
    return -1;
  }
  renamed_.push_back({from, to, files[to].durable});
  files[to] = std::exchange(files[from], {});
  ShowFile(from);
  ShowFile(to);
  return 0;
}

void FolderDisk::LoseNames() {
  auto& files = disk_.files();
  for (auto last = renamed_.rbegin(); last != renamed_.rend(); ++last) {
    if (dice_.Chance(50)) continue;
    files[last->from] = std::exchange(files[last->to], {last->replaced, last->replaced, {}});
  }
  renamed_.clear();
}

}  // namespace buttress::simulation
