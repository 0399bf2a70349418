// Files that appear complete or not at all, and their SHA-256.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/base/text/digest.h"

namespace buttress {

// What a committed file survives: a crash of the machine, or of the process only.
enum class Durability { kFsync, kPageCache };

// Writes `path`.part, and renames it to `path` when it is complete. An object that is destroyed
// before Commit leaves the part, which Resume continues and Create truncates. Not thread-safe.
class PartFile {
 public:
  // Starts with an empty part.
  static Result<std::unique_ptr<PartFile>> Create(const std::string& path);

  // Continues the part of an earlier attempt, if there is one. size() is its number of bytes.
  static Result<std::unique_ptr<PartFile>> Resume(const std::string& path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  Status Append(std::string_view bytes);

  // Renames the part to `path`. REQUIRES: no call to Append or Commit follows.
  Status Commit(Durability durability);

  // Deletes the part.
  void Discard();

  std::uint64_t size() const { return size_; }

  // The path of the part.
  const std::string& part_path() const { return part_; }

 private:
  PartFile(std::string path, std::string part, int fd, std::uint64_t size);
  static Result<std::unique_ptr<PartFile>> Open(const std::string& path, int flags);

  std::string path_;
  std::string part_;
  int fd_;
  std::uint64_t size_;
};

// Hashes the content of a file into `sha`.
Status UpdateFromFile(const std::string& path, Sha256& sha);

// Returns the SHA-256 (32 bytes) of the content of a file.
Result<std::string> Sha256OfFile(const std::string& path);

// Returns whether `name` names a file directly inside a folder: it is not empty, contains neither
// '/' nor NUL, and does not start with '.'.
bool IsPlainFileName(std::string_view name);

}  // namespace buttress
