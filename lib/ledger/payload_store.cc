#include "lib/ledger/payload_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"

namespace buttress {
namespace {

constexpr std::size_t kCheckedBytes = 1 << 20;
// The number of segments that stay open.
constexpr std::size_t kOpenSegments = 16;

}  // namespace

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

PayloadStore::PayloadStore(std::string folder, std::uint64_t segment_bytes)
    : PayloadReader(std::move(folder)), segment_bytes_(segment_bytes) {}

Result<std::unique_ptr<PayloadStore>> PayloadStore::Open(const std::string& folder, PayloadEnd end,
                                                         PayloadEnd end_of_all,
                                                         std::uint64_t segment_bytes) {
  const PayloadEnd kept = std::max(end, end_of_all);
  const std::string last_path = SegmentPath(folder, kept.segment);
  // What is new would be hidden by the folder that comes back.
  const std::string unneeded = end.segment != 0
                                   ? ""
                                   : "; if it is lost for good, make it with an empty file " +
                                         last_path + ", since no group needs its payload any more";
  std::error_code unknown;
  if (kept.segment != 0 && !std::filesystem::exists(folder, unknown)) {
    return Unavailable(
        fmt::format("{} is not there, and the ledger names {}; mount the folder or move it back{}",
                    folder, last_path, unneeded));
  }
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  if (std::filesystem::is_symlink(folder, unknown))
    return InvalidArgument(folder + " is a link; make it a folder, or move the whole run folder");
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(folder));
  if (kept.segment != 0 && sizes.empty()) {
    return DataLoss(
        fmt::format("{} has no segment, and the ledger names {}; mount the folder or "
                    "restore it from a copy, or start a new run folder{}",
                    folder, last_path, unneeded));
  }
  const auto last = sizes.find(end.segment);
  const std::uint64_t last_bytes = last == sizes.end() ? 0 : last->second;
  std::uint64_t cut_bytes = 0;
  for (const auto& [segment, size] : sizes) {
    if (segment < kept.segment) continue;
    cut_bytes += segment == kept.segment ? size - std::min(size, kept.offset) : size;
    const std::string path = SegmentPath(folder, segment);
    if (segment > kept.segment && unlink(path.c_str()) != 0) return SegmentError(path, errno);
  }
  if (cut_bytes > 0)
    Log(kInfo, "payloads that were never acknowledged are cut off",
        {{"folder", folder}, {"bytes", cut_bytes}});
  std::unique_ptr<PayloadStore> store(new PayloadStore(folder, segment_bytes));
  if (last_bytes < end.offset) {
    Log(kError, "a segment of payloads is damaged; its groups are replaced once they are read",
        {{"file", SegmentPath(folder, end.segment)},
         {"bytes", last_bytes},
         {"expected", end.offset}});
  }
  if (kept.segment == 0 || kept > end || last_bytes < end.offset) {
    BUTTRESS_RETURN_IF_ERROR(store->StartSegment(kept.segment + 1));
    return store;
  }
  BUTTRESS_ASSIGN_OR_RETURN(store->current_,
                            SegmentFile::Open(SegmentPath(folder, end.segment), O_RDWR));
  BUTTRESS_RETURN_IF_ERROR(store->current_->Truncate(end.offset));
  store->segment_ = end.segment;
  store->end_ = end.offset;
  return store;
}

Status PayloadStore::StartSegment(std::uint64_t segment) {
  if (current_ != nullptr) {
    BUTTRESS_RETURN_IF_ERROR(Sync());
    BUTTRESS_RETURN_IF_ERROR(KeepError(CheckFolder()));
  }
  if (!PassFailpoint("payload_roll")) return KeepError(SegmentError(folder_, errno));
  BUTTRESS_ASSIGN_OR_RETURN(
      current_, SegmentFile::Open(SegmentPath(folder_, segment), O_RDWR | O_CREAT | O_TRUNC));
  segment_ = segment;
  end_ = 0;
  const bool passes = PassFailpoint("payload_folder_sync");
  return KeepError(passes ? SyncFolder(folder_) : SegmentError(folder_, errno));
}

Result<PayloadRef> PayloadStore::Append(const LeaseRef& lease, std::string_view bytes,
                                        std::string_view sha256) {
  BUTTRESS_RETURN_IF_ERROR(broken_);
  if (bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
    return InvalidArgument(
        fmt::format("payload has {} bytes; expected at most the 4 GiB of a record", bytes.size()));
  }
  if (end_ > 0 && end_ + kPayloadHeaderBytes + bytes.size() > segment_bytes_) {
    BUTTRESS_RETURN_IF_ERROR(StartSegment(segment_ + 1));
  }
  const auto size = static_cast<std::uint32_t>(bytes.size());
  const PayloadHeader header = MakeHeader(lease, size, sha256);
  BUTTRESS_RETURN_IF_ERROR(WriteAtEnd(header, bytes));
  const PayloadRef ref = {segment_, end_, size, header.check};
  end_ += kPayloadHeaderBytes + bytes.size();
  return ref;
}

Status PayloadStore::WriteAtEnd(const PayloadHeader& header, std::string_view bytes) {
  const Status status = current_->Write(header, bytes, end_);
  if (status.ok()) return status;
  BUTTRESS_RETURN_IF_ERROR(KeepError(current_->Truncate(end_)));
  return status.code() == StatusCode::kResourceExhausted ? status : KeepError(status);
}

// Another folder, or the mount point under an unmounted one, does not have the present segment.
Status PayloadStore::CheckFolder() const {
  const std::string path = SegmentPath(folder_, segment_);
  if (access(path.c_str(), F_OK) == 0) return OkStatus();
  return Unavailable(
      fmt::format("the folder of payloads {} is not there, or another one is in its place ({}: "
                  "{}); mount it or move it back",
                  folder_, path, std::strerror(errno)));
}

Status PayloadStore::CheckRoom() {
  BUTTRESS_RETURN_IF_ERROR(broken_);
  BUTTRESS_RETURN_IF_ERROR(WriteAtEnd({}, std::string(kCheckedBytes, '\0')));
  return KeepError(current_->Truncate(end_));
}

Status PayloadStore::Sync() {
  BUTTRESS_RETURN_IF_ERROR(broken_);
  return KeepError(current_->Sync());
}

// The code is kUnavailable whatever failed: space that is freed does not repair the store.
Status PayloadStore::KeepError(const Status& status) {
  if (!status.ok()) broken_ = Unavailable(status.message() + "; the store must be opened again");
  return broken_;
}

Result<int> PayloadStore::DeleteBefore(std::uint64_t first_needed) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(folder_));
  int deleted = 0;
  for (const auto& [segment, size] : sizes) {
    if (segment >= first_needed || segment >= segment_) break;
    const std::string path = SegmentPath(folder_, segment);
    if (!PassFailpoint("payload_delete") || unlink(path.c_str()) != 0)
      return SegmentError(path, errno);
    ++deleted;
    Forget(segment);
  }
  return deleted;
}

}  // namespace buttress
