// A file that appears whole or not at all: written beside as `path`.part, renamed when complete.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/digest.h"
#include "lib/base/status.h"

namespace buttress {

// Whether a commit waits for the disk; kPageCache survives the process but not the machine.
enum class Durability { kFsync, kPageCache };

// Not thread-safe. Destroyed before Commit it leaves the part, which the next Create truncates and
// Resume continues.
class PartFile {
 public:
  static Result<std::unique_ptr<PartFile>> Create(const std::string& path);
  // Goes on behind the bytes that an earlier attempt left; size() says how many.
  static Result<std::unique_ptr<PartFile>> Resume(const std::string& path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  Status Append(std::string_view bytes);
  // Renames to `path`. REQUIRES: called at most once, nothing after it.
  Status Commit(Durability durability);
  // Deletes the part.
  void Discard();

  std::uint64_t size() const { return size_; }

  // Where the bytes lie until Commit.
  const std::string& part_path() const { return part_; }

 private:
  PartFile(std::string path, std::string part, int fd, std::uint64_t size);
  static Result<std::unique_ptr<PartFile>> Open(const std::string& path, int flags);

  std::string path_;
  std::string part_;
  int fd_;
  std::uint64_t size_;
};

// Feeds a file's content to `sha`, in pieces.
Status UpdateFromFile(const std::string& path, Sha256& sha);

// SHA-256 (32 bytes) of a file's content.
Result<std::string> Sha256OfFile(const std::string& path);

// True for a name that stays in its folder: not empty, no '/', no NUL, not starting with '.'.
bool IsPlainFileName(std::string_view name);

}  // namespace buttress
