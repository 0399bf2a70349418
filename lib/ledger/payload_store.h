// Payloads of accepted groups: append-only segment files of bounded size in one folder.
//
//   <folder>/00000001.seg = record*     record = length (u32 LE), first four bytes of the SHA-256 of the bytes, bytes
//
// A payload may be acknowledged after Append and Sync; its reference enters the ledger then or
// later. So what lies behind the last reference of the ledger is given out on open, up to the first
// record that is not whole: that one was never acknowledged.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/base/sync.h"
#include "lib/ledger/rows.h"

namespace buttress {

inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{256} << 20;

// Append and Sync from one thread; Read from any thread beside them.
class PayloadStore {
 public:
  using Take = std::function<Status(const PayloadRef& ref, std::string_view bytes)>;

  // Opens or makes `folder`; gives each whole record behind `end` (Ledger::payload_end()) to
  // `take`, in order, and cuts off the rest. Without `take` everything behind `end` is cut off.
  // kDataLoss if a file ends before it; what `take` fails with.
  static Result<std::unique_ptr<PayloadStore>> Open(const std::string& folder, PayloadEnd end,
                                                    std::uint64_t segment_bytes = kSegmentBytes,
                                                    const Take& take = nullptr);

  // For Read alone, beside a coordinator that has the folder open: changes nothing, and a folder
  // that is not there has no records.
  static std::unique_ptr<const PayloadStore> OpenToRead(const std::string& folder);
  ~PayloadStore();
  PayloadStore(const PayloadStore&) = delete;
  PayloadStore& operator=(const PayloadStore&) = delete;

  // Writes one record, whose SHA-256 is `sha256`; durable after the next Sync. kResourceExhausted
  // when the disk is full: the record is gone, the store stays usable.
  Result<PayloadRef> Append(std::string_view bytes, std::string_view sha256);

  // Lets the disk begin with what was appended, without waiting: Sync has less to do then.
  void StartSync();

  // Everything appended survives a crash. After a failure the store must not be used again.
  Status Sync();

  // kDataLoss if the bytes are not those that were written; kNotFound if the segment was deleted.
  Result<std::string> Read(const PayloadRef& ref) const;

  // Deletes the segments before `first_needed` (Scheduler::FirstNeededSegment()), never the current
  // one; returns how many.
  Result<int> DeleteBefore(std::uint64_t first_needed);

 private:
  class File;

  PayloadStore(std::string folder, std::uint64_t segment_bytes);
  Status StartSegment(std::uint64_t segment);
  // Goes through whole records from `end` on, and returns where they end.
  Result<PayloadEnd> TakeTail(PayloadEnd end, const Take& take) const;

  const std::string folder_;
  const std::uint64_t segment_bytes_;
  std::shared_ptr<File> current_;
  std::uint64_t segment_ = 0;
  std::uint64_t end_ = 0;  // bytes of the current segment
  mutable Mutex mutex_;
  mutable std::map<std::uint64_t, std::shared_ptr<File>> open_ GUARDED_BY(mutex_);
};

}  // namespace buttress
