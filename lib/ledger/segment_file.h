// A segment of the payload store: a file of records, each with a header (payload_store.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/experience/lease.h"
#include "lib/ledger/rows.h"

namespace buttress {

// The header of a record, as its bytes are in the file.
struct PayloadHeader {
  std::uint32_t magic = 0;
  std::uint32_t bytes = 0;  // of the payload
  std::uint64_t group_id = 0;
  std::uint64_t lease_epoch = 0;
  std::uint64_t check = 0;

  bool operator==(const PayloadHeader&) const = default;
};

static_assert(sizeof(PayloadHeader) == kPayloadHeaderBytes);

// Returns the header of the record with `bytes` bytes of payload, whose SHA-256 is `sha256`, which
// was accepted under `lease`.
PayloadHeader MakeHeader(const LeaseRef& lease, std::uint32_t bytes, std::string_view sha256);

// Returns OK if `record`, header included, is the one that `ref` names. kDataLoss says what is
// in its place.
Status CheckRecord(std::string_view record, const PayloadRef& ref);

// <folder>/<8 digits>.seg.
std::string SegmentPath(const std::string& folder, std::uint64_t segment);

// Returns the segments in `folder` by number, with their sizes in bytes.
Result<std::map<std::uint64_t, std::uint64_t>> SegmentSizes(const std::string& folder);

// Returns the status of a failed call on the file `path` with this errno.
Status SegmentError(const std::string& path, int error);

// An open segment; the last owner closes it. Reads are thread-safe.
class SegmentFile {
 public:
  // `flags` are those of open(2).
  static Result<std::shared_ptr<SegmentFile>> Open(const std::string& path, int flags);

  SegmentFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  // Writes a record at `offset`.
  Status Write(const PayloadHeader& header, std::string_view bytes, std::uint64_t offset);

  // Reads `size` bytes, or fewer at the end of the file. kNotFound if the disk cannot read them.
  Result<std::string> Read(std::uint64_t offset, std::size_t size) const;

  Status Truncate(std::uint64_t size);
  Status Sync();

 private:
  const int descriptor_;
  const std::string path_;
};

}  // namespace buttress
