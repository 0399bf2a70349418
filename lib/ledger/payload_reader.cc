#include "lib/ledger/payload_reader.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "lib/base/os/file.h"
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
  if (const Status whole = CheckRecord(record, ref); !whole.ok()) {
    return DataLoss(fmt::format("{}: the record at byte {} is not what was written: {}",
                                SegmentPath(folder_, ref.segment), ref.offset, whole.message()));
  }
  record.erase(0, kPayloadHeaderBytes);
  return record;
}

Result<std::string> PayloadReader::KeepEvidence(std::uint64_t group_id,
                                                const PayloadRef& ref) const {
  const Result<std::string> record = ReadRecord(ref);
  if (!record.ok() || record->empty()) return std::string();
  const std::string folder = (std::filesystem::path(folder_).parent_path() / "damaged").string();
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  std::string path = JoinPath(
      folder, fmt::format("group-{}-segment-{}-byte-{}.record", group_id, ref.segment, ref.offset));
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(path, *record));
  return path;
}

void PayloadReader::Forget(std::uint64_t segment) {
  MutexLock lock(mutex_);
  open_.erase(segment);
}

}  // namespace buttress
