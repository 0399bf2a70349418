// Takes from a folder what a power failure may take: everything that was not synced.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace buttress {

// The syncs that lib/base/os/file.h has logged. Files of SQLite, ledger.db*, are left alone,
// because SQLite syncs them itself.
class PowerCut {
 public:
  explicit PowerCut(const std::string& log) {
    std::ifstream lines(log);
    EXPECT_TRUE(lines.good()) << "nothing was synced";
    std::string kind;
    std::uint64_t inode = 0;
    while (lines >> kind >> inode) {
      std::uint64_t number = 0;
      std::string name;
      if (kind == "folder") entries_[inode].clear();
      if (kind == "file" && lines >> number) bytes_[inode] = number;
      if (kind == "entry" && lines >> number >> name) entries_[inode][name] = number;
    }
  }

  // Removes the entries of `folder` that are not durable, and cuts files to their durable size.
  void Apply(const std::filesystem::path& folder) {
    const auto& durable = entries_[InodeOf(folder)];
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      paths.push_back(entry.path());
    for (const std::filesystem::path& path : paths) {
      const std::string name = path.filename().string();
      if (name.starts_with("ledger.db")) continue;
      const auto found = durable.find(name);
      if (found == durable.end() || found->second != InodeOf(path)) {
        std::filesystem::remove_all(path);
      } else if (std::filesystem::is_directory(path)) {
        Apply(path);
      } else {
        std::filesystem::resize_file(
            path,
            std::min<std::uintmax_t>(std::filesystem::file_size(path), bytes_[InodeOf(path)]));
      }
    }
  }

 private:
  static std::uint64_t InodeOf(const std::filesystem::path& path) {
    struct stat info {};

    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_ino;
  }

  std::map<std::uint64_t, std::uint64_t> bytes_;                           // by inode
  std::map<std::uint64_t, std::map<std::string, std::uint64_t>> entries_;  // by inode of the folder
};

// Makes this process and those that it starts log their syncs. Called before the first of them, by
// the initializer of a global variable. Returns the path of the log. A test empties it first, since
// the system gives the inodes of removed files to new ones.
inline std::string LogSyncs(const std::string& name) {
  const std::string path =
      (std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()))).string();
  std::ofstream(path, std::ios::trunc).flush();
  ::setenv("BUTTRESS_SYNC_LOG", path.c_str(), 1);
  return path;
}

}  // namespace buttress
