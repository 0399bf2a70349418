// What a standby is to be sent of the files of a run's folder: all of them in slices, while they
// grow, and what is appended to them later.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"

namespace buttress {

// The sizes of payload segments by number.
using SegmentBytes = std::map<std::uint64_t, std::uint64_t>;

// "payloads/<8 digits>.seg".
std::string FollowedSegment(std::uint64_t segment);

// A record (FollowResponse) before it has a number.
struct FollowItem {
  v1::FileOperation operation;
  std::string file;
  std::uint64_t offset = 0;
  std::string data;
};

// Not thread-safe. REQUIRES: destroyed once the database of the folder is closed.
class FolderCopy {
 public:
  explicit FolderCopy(std::string folder) : folder_(std::move(folder)) {}

  // Begins a copy of the archives, of these bytes of the segments, and of the database.
  void Begin(const SegmentBytes& segments);

  void Stop() { parts_.clear(); }

  // Returns whether no copy is under way.
  bool done() const { return parts_.empty(); }

  // Returns whether the copy under way takes what the segment `name` has grown by.
  bool Extend(const std::string& name, std::uint64_t from, std::uint64_t to);

  // Sets `item` to the next part. Returns false at the end. A file that was deleted meanwhile is
  // left out. An error of a file ends the copy, and so does a folder of payloads that is not
  // mounted: it lacks the newest segment, which nobody deletes.
  Result<bool> Next(FollowItem& item);

  std::uint64_t bytes_left() const;

  // Reads at most kChunkBytes; fewer than `size` at the end of the file. kNotFound without it.
  Result<std::string> Read(const std::string& name, std::uint64_t offset, std::uint64_t size);

 private:
  struct Part {
    std::string name;
    std::uint64_t from;
    std::uint64_t to;
    bool any = false;  // was read
  };

  void Add(const std::string& name);
  bool PayloadsAreAway() const;

  const std::string folder_;
  std::deque<Part> parts_;
  std::string newest_;  // segment
  // Closing any descriptor of the database would end SQLite's locks of it, so one is kept.
  OwnedFd database_;
};

}  // namespace buttress
