#include "lib/ledger/payload_reader.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "lib/base/digest.h"
#include "lib/ledger/segment_file.h"

namespace buttress {
namespace {

// The number of segments that stay open.
constexpr std::size_t kOpenSegments = 16;

}  // namespace

PayloadReader::PayloadReader(std::string folder) : folder_(std::move(folder)) {}

PayloadReader::~PayloadReader() = default;

Result<std::shared_ptr<SegmentFile>> PayloadReader::Segment(std::uint64_t segment) const {
  MutexLock lock(mutex_);
  if (!open_.contains(segment)) {
    BUTTRESS_ASSIGN_OR_RETURN(auto file,
                              SegmentFile::Open(SegmentPath(folder_, segment), O_RDONLY));
    if (open_.size() >= kOpenSegments) open_.erase(open_.begin());
    open_[segment] = std::move(file);
  }
  return open_.at(segment);
}

Result<std::string> PayloadReader::ReadRecord(const PayloadRef& ref) const {
  BUTTRESS_ASSIGN_OR_RETURN(const std::shared_ptr<SegmentFile> file, Segment(ref.segment));
  return file->Read(ref.offset, kPayloadHeaderBytes + ref.bytes);
}

Result<std::string> PayloadReader::Read(const PayloadRef& ref) const {
  BUTTRESS_ASSIGN_OR_RETURN(std::string record, ReadRecord(ref));
  const PayloadHeader expected = HeaderOf(ref);
  const bool whole = record.size() == kPayloadHeaderBytes + ref.bytes &&
                     record.starts_with(std::string_view(expected.data(), expected.size()));
  std::string bytes = whole ? record.substr(kPayloadHeaderBytes) : std::string();
  if (!whole || PayloadCheckOf(Sha256Of(bytes)) != ref.check) {
    return DataLoss(
        fmt::format("{}: the record at byte {} is not what was written; put the file back from a "
                    "copy, or give the group up with `buttress ledger drop`",
                    SegmentPath(folder_, ref.segment), ref.offset));
  }
  return bytes;
}

void PayloadReader::Forget(std::uint64_t segment) {
  MutexLock lock(mutex_);
  open_.erase(segment);
}

}  // namespace buttress
