// What the SubmitGroups streams share: a bound of their memory, and the list of the open ones.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "lib/base/sync.h"
#include "lib/experience/check.h"

namespace buttress {

// The size of a submitted group in bytes, at most.
inline constexpr std::uint64_t kMaxGroupBytes = std::uint64_t{256} << 20;

// Returns a size that no group within `limits` exceeds, kMaxGroupBytes at most.
std::uint64_t MaxGroupBytes(const GroupLimits& limits);

// Counts the bytes of the groups in submission, of all workers and of each one. Thread-safe.
class SubmitBudget {
 public:
  static constexpr std::uint64_t kTotalBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kWorkerBytes = kMaxGroupBytes;

  // Returns false, without a change, if either bound would be exceeded.
  bool Reserve(const std::string& worker_id, std::uint64_t bytes);

  // REQUIRES: the bytes are reserved.
  void Release(const std::string& worker_id, std::uint64_t bytes);

 private:
  Mutex mutex_;
  std::uint64_t total_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::uint64_t> by_worker_ GUARDED_BY(mutex_);
};

// The bytes of a group as they arrive. It reserves what it holds in memory. Not thread-safe.
class GroupBuffer {
 public:
  // `budget` outlives the buffer.
  explicit GroupBuffer(SubmitBudget& budget) : budget_(budget) {}

  ~GroupBuffer() { Clear(); }

  GroupBuffer(const GroupBuffer&) = delete;
  GroupBuffer& operator=(const GroupBuffer&) = delete;

  // Appends `part`, whose memory is given back, to a group of `total_bytes`. Returns false, without
  // a change, if the budget of `worker_id` has no room. REQUIRES: the group gets no longer than
  // that; all parts up to Clear are of one worker.
  bool Append(const std::string& worker_id, std::string& part, std::uint64_t total_bytes);

  // Gives the memory back; a string that is cleared keeps it.
  void Clear();

  const std::string& bytes() const { return bytes_; }

 private:
  SubmitBudget& budget_;
  std::string worker_id_;
  std::uint64_t reserved_ = 0;
  std::string bytes_;
};

class SubmitStream;

// The open streams. Thread-safe.
class SubmitStreams {
 public:
  void Add(SubmitStream* stream);
  void Remove(SubmitStream* stream);

  // Ends the streams whose groups arrive too slowly to keep the memory that they hold.
  void EndStalled(std::int64_t now_ms);

  // Ends every stream: an idle one at once, a busy one after the answer to its group, one that is
  // added later at once.
  void End();

 private:
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::set<SubmitStream*> open_ GUARDED_BY(mutex_);
};

}  // namespace buttress
