// Reads payloads where payload_store.h writes them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/ledger/rows.h"

namespace buttress {

class SegmentFile;

// Thread-safe. Never writes to a segment.
class PayloadReader {
 public:
  explicit PayloadReader(std::string folder);
  ~PayloadReader();
  PayloadReader(const PayloadReader&) = delete;
  PayloadReader& operator=(const PayloadReader&) = delete;

  // Returns the payload. kDataLoss if it is not what was appended; kNotFound if the segment was
  // deleted.
  Result<std::string> Read(const PayloadRef& ref) const;

  // Returns the bytes that stand where the record of `ref` was written, header included: fewer at
  // the end of the file. kNotFound if the segment was deleted.
  Result<std::string> ReadRecord(const PayloadRef& ref) const;

  // Copies what is where the record of a damaged group was written, because the segment holds
  // other groups as well and is deleted with them, to the folder `damaged` next to that of the
  // segments. Returns the path, or an empty string if nothing can be read.
  Result<std::string> KeepEvidence(std::uint64_t group_id, const PayloadRef& ref) const;

  // Closes a segment that is about to be deleted.
  void Forget(std::uint64_t segment);

 private:
  Result<std::shared_ptr<SegmentFile>> Segment(std::uint64_t segment) const;

  const std::string folder_;
  mutable Mutex mutex_;
  mutable std::map<std::uint64_t, std::shared_ptr<SegmentFile>> open_ GUARDED_BY(mutex_);
};

}  // namespace buttress
