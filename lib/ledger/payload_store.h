// Payloads of accepted groups: append-only segment files of bounded size in one folder.
//
//   <folder>/00000001.seg = record*     record = length (u32 LE), CRC-32 (zlib, u32 LE) of the bytes, bytes
//
// The order that makes acknowledgements true: Append ..., Sync, then the ledger's commit of the references. What lies behind the last
// committed reference was never acknowledged and is cut off on open.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/base/sync.h"
#include "lib/ledger/rows.h"

namespace buttress {

inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kPayloadHeaderBytes = 8;

// First byte after a reference's record.
struct PayloadEnd {
  std::uint64_t segment = 0;  // 0: nothing is referenced
  std::uint64_t offset = 0;
};

// Append and Sync from one thread; Read from any thread beside them.
class PayloadStore {
 public:
  // Opens or makes `folder`, cuts off what lies behind `end` (Ledger::payload_end()). kDataLoss if a file ends before it.
  static Result<std::unique_ptr<PayloadStore>> Open(const std::string& folder,
                                                    PayloadEnd end,
                                                    std::uint64_t segment_bytes = kSegmentBytes);

  // For Read alone, beside a coordinator that has the folder open: changes nothing, and a folder that is not there has no records.
  static std::unique_ptr<const PayloadStore> OpenToRead(const std::string& folder);
  ~PayloadStore();
  PayloadStore(const PayloadStore&) = delete;
  PayloadStore& operator=(const PayloadStore&) = delete;

  // Writes one record; durable after the next Sync. kResourceExhausted when the disk is full: the record is gone, the store stays usable.
  Result<PayloadRef> Append(std::string_view bytes);

  // Lets the disk begin with what was appended, without waiting: Sync has less to do then.
  void StartSync();

  // Everything appended survives a crash. After a failure the store must not be used again.
  Status Sync();

  // kDataLoss if the bytes are not those that were written; kNotFound if the segment was deleted.
  Result<std::string> Read(const PayloadRef& ref) const;

  // Deletes the segments before `first_needed` (Scheduler::FirstNeededSegment()), never the current one; returns how many.
  Result<int> DeleteBefore(std::uint64_t first_needed);

 private:
  class File;

  PayloadStore(std::string folder, std::uint64_t segment_bytes);
  Status StartSegment(std::uint64_t segment);

  const std::string folder_;
  const std::uint64_t segment_bytes_;
  std::shared_ptr<File> current_;
  std::uint64_t segment_ = 0;
  std::uint64_t end_ = 0;  // bytes of the current segment
  mutable Mutex mutex_;
  mutable std::map<std::uint64_t, std::shared_ptr<File>> open_ GUARDED_BY(mutex_);
};

}  // namespace buttress
