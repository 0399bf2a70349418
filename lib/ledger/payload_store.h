// Payloads of accepted groups: append-only segment files of bounded size in one folder.
//
//   <folder>/00000001.seg = record*
//   record = length (u32 LE), first four bytes of the SHA-256 of the payload, payload
//
// A payload may be named in the ledger once Sync has returned. Open cuts off what follows the last
// record that the ledger names: it was never acknowledged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/status.h"
#include "lib/ledger/payload_reader.h"
#include "lib/ledger/rows.h"

namespace buttress {

inline constexpr std::uint64_t kSegmentBytes = std::uint64_t{256} << 20;

// One thread appends, syncs and deletes; any thread may read at the same time.
class PayloadStore {
 public:
  // Opens or creates `folder` and cuts off everything behind `end` (Ledger::payload_end()).
  // kDataLoss if the files end before it.
  static Result<std::unique_ptr<PayloadStore>> Open(const std::string& folder, PayloadEnd end,
                                                    std::uint64_t segment_bytes = kSegmentBytes);

  ~PayloadStore();
  PayloadStore(const PayloadStore&) = delete;
  PayloadStore& operator=(const PayloadStore&) = delete;

  // Appends a record of `bytes`, whose SHA-256 is `sha256`; the next Sync makes it durable.
  // kResourceExhausted if the disk is full: the record is removed and the store stays usable.
  Result<PayloadRef> Append(std::string_view bytes, std::string_view sha256);

  // Makes everything that was appended durable. The store must not be used after a failure.
  Status Sync();

  // PayloadReader::Read.
  Result<std::string> Read(const PayloadRef& ref) const { return reader_.Read(ref); }

  // Deletes the segments before `first_needed` (Scheduler::FirstNeededSegment()), but never the
  // current one, and returns their number.
  Result<int> DeleteBefore(std::uint64_t first_needed);

 private:
  PayloadStore(std::string folder, std::uint64_t segment_bytes);
  Status StartSegment(std::uint64_t segment);

  const std::string folder_;
  const std::uint64_t segment_bytes_;
  PayloadReader reader_;
  std::shared_ptr<SegmentFile> current_;
  std::uint64_t segment_ = 0;
  std::uint64_t end_ = 0;  // bytes of the current segment
};

}  // namespace buttress
