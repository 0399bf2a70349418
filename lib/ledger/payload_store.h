// Payloads of accepted groups: append-only segment files of bounded size in one folder.
//
//   <folder>/00000001.seg = record*
//   record = header, payload
//   header = "BTRG", bytes of the payload (u32), group id (u64), lease epoch (u64), check (u64)
//
// The check is the first eight bytes of the SHA-256 of the header so far and the payload's SHA-256.
// Numbers are little-endian.
//
// A payload may be named in the ledger once Sync has returned. Open cuts off what follows the last
// record that the ledger names: it was never acknowledged. The ledger names the place of every
// record, so a damaged one costs its own group and no other.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/experience/lease.h"
#include "lib/ledger/rows.h"
#include "lib/ledger/segment_file.h"

namespace buttress {

inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{256} << 20;

// Thread-safe. Never writes to a segment.
class PayloadReader {
 public:
  explicit PayloadReader(std::string folder) : folder_(std::move(folder)) {}

  PayloadReader(const PayloadReader&) = delete;
  PayloadReader& operator=(const PayloadReader&) = delete;

  const std::string& folder() const { return folder_; }

  // Returns the payload. kDataLoss if it is not what was appended; kNotFound if there is nothing to
  // read: the segment is not there, or the disk cannot read it.
  Result<std::string> Read(const PayloadRef& ref) const;

  // Copies what is where the record of a damaged group was written, because the segment holds
  // other groups as well and is deleted with them, to the folder `damaged` next to that of the
  // segments. Returns the path, or an empty string if nothing can be read.
  Result<std::string> KeepEvidence(std::uint64_t group_id, const PayloadRef& ref) const;

 protected:
  // Closes a segment that is about to be deleted.
  void Forget(std::uint64_t segment);

  const std::string folder_;

 private:
  Result<std::shared_ptr<SegmentFile>> Segment(std::uint64_t segment) const;

  // Returns the bytes that stand where the record of `ref` was written, header included: fewer at
  // the end of the file. kNotFound if the segment was deleted.
  Result<std::string> ReadRecord(const PayloadRef& ref) const;

  mutable Mutex mutex_;
  mutable std::map<std::uint64_t, std::shared_ptr<SegmentFile>> open_ GUARDED_BY(mutex_);
};

// One thread appends, syncs and deletes; any thread may read at the same time.
class PayloadStore : public PayloadReader {
 public:
  // Opens or creates `folder` and cuts off everything behind `end` (Ledger::payload_end()). A
  // segment that ends before it stays as it is, and the store continues in the next one; reading
  // what is missing is kDataLoss or kNotFound. Behind `end` may be payloads
  // that are not needed, up to `end_of_all` (LedgerReader::EndOfAllPayloads()): they stay, and the
  // store continues in the next segment, so that no place is given twice. Where one of the two
  // names a segment, kDataLoss if none is there at all, and kUnavailable if the folder is not: it
  // may come back, even if nothing in it is needed.
  static Result<std::unique_ptr<PayloadStore>> Open(const std::string& folder, PayloadEnd end,
                                                    PayloadEnd end_of_all = {},
                                                    std::uint64_t segment_bytes = kSegmentBytes);

  // Appends a record of `bytes`, whose SHA-256 is `sha256`, for the group of `lease`; the next Sync
  // makes it durable. kResourceExhausted if the disk is full: the record is removed and the store
  // stays usable. After any other error the store is broken.
  Result<PayloadRef> Append(const LeaseRef& lease, std::string_view bytes, std::string_view sha256);

  // Returns OK if the folder is the one that this store writes to; kUnavailable while it is moved
  // away or not mounted, so that what Read does not find may come back. Thread-safe.
  Status CheckFolder() const;

  // Returns OK if the disk takes a mebibyte more, which is written and removed again. Other errors
  // are those of Append.
  Status CheckRoom();

  // Makes everything that was appended durable. After a failure (kUnavailable) which bytes the disk
  // has is unknown, so every Append and Sync returns this error: the process must end.
  Status Sync();

  // Deletes the segments before `first_needed` (Scheduler::FirstNeededSegment()), but never the
  // current one, and returns their number.
  Result<int> DeleteBefore(std::uint64_t first_needed);

 private:
  PayloadStore(std::string folder, std::uint64_t segment_bytes);
  Status StartSegment(std::uint64_t segment);
  // Writes a record behind the last one; an error leaves the file as it was.
  Status WriteAtEnd(const PayloadHeader& header, std::string_view bytes);
  // Returns `status`; an error breaks the store.
  Status KeepError(const Status& status);

  const std::uint64_t segment_bytes_;
  std::shared_ptr<SegmentFile> current_;
  std::atomic<std::uint64_t> segment_ = 0;
  std::uint64_t end_ = 0;  // bytes of the current segment
  Status broken_;
};

}  // namespace buttress
