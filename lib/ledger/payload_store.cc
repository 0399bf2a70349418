#include "lib/ledger/payload_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/ledger/segment_file.h"

namespace buttress {

PayloadStore::PayloadStore(std::string folder, std::uint64_t segment_bytes)
    : folder_(std::move(folder)), segment_bytes_(segment_bytes), reader_(folder_) {}

PayloadStore::~PayloadStore() = default;

Result<std::unique_ptr<PayloadStore>> PayloadStore::Open(const std::string& folder, PayloadEnd end,
                                                         std::uint64_t segment_bytes) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  std::error_code unknown;
  if (std::filesystem::is_symlink(folder, unknown))
    return FailedPrecondition(folder +
                              " is a link; make it a folder, or move the whole run folder");
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(folder));
  const auto last = sizes.find(end.segment);
  if (end.segment != 0 && (last == sizes.end() || last->second < end.offset)) {
    return DataLoss(
        fmt::format("{} ends before byte {}, which the ledger names; restore the folder "
                    "from a copy, or start a new run folder",
                    SegmentPath(folder, end.segment), end.offset));
  }
  std::uint64_t cut_bytes = 0;
  for (const auto& [segment, size] : sizes) {
    if (segment < end.segment) continue;
    cut_bytes += size - (segment == end.segment ? end.offset : 0);
    const std::string path = SegmentPath(folder, segment);
    if (segment > end.segment && unlink(path.c_str()) != 0) return SegmentError(path, errno);
  }
  if (cut_bytes > 0)
    Log(kInfo, "payloads that were never acknowledged are cut off",
        {{"folder", folder}, {"bytes", cut_bytes}});
  std::unique_ptr<PayloadStore> store(new PayloadStore(folder, segment_bytes));
  if (end.segment == 0) {
    BUTTRESS_RETURN_IF_ERROR(store->StartSegment(1));
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
  if (current_ != nullptr) BUTTRESS_RETURN_IF_ERROR(current_->Sync());
  BUTTRESS_ASSIGN_OR_RETURN(
      current_, SegmentFile::Open(SegmentPath(folder_, segment), O_RDWR | O_CREAT | O_TRUNC));
  segment_ = segment;
  end_ = 0;
  return SyncFolder(folder_);
}

Result<PayloadRef> PayloadStore::Append(std::string_view bytes, std::string_view sha256) {
  if (bytes.size() > std::numeric_limits<std::uint32_t>::max()) {
    return InvalidArgument(
        fmt::format("payload has {} bytes; expected at most the 4 GiB of a record", bytes.size()));
  }
  if (end_ > 0 && end_ + kPayloadHeaderBytes + bytes.size() > segment_bytes_) {
    BUTTRESS_RETURN_IF_ERROR(StartSegment(segment_ + 1));
  }
  const PayloadRef ref = {segment_, end_, static_cast<std::uint32_t>(bytes.size()),
                          PayloadCheckOf(sha256)};
  const Status status = current_->Write(HeaderOf(ref), bytes, end_);
  if (!status.ok()) {
    BUTTRESS_RETURN_IF_ERROR(current_->Truncate(end_));
    return status;
  }
  end_ += kPayloadHeaderBytes + bytes.size();
  return ref;
}

Status PayloadStore::Sync() { return current_->Sync(); }

Result<int> PayloadStore::DeleteBefore(std::uint64_t first_needed) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(folder_));
  int deleted = 0;
  for (const auto& [segment, size] : sizes) {
    if (segment >= first_needed || segment >= segment_) break;
    const std::string path = SegmentPath(folder_, segment);
    if (unlink(path.c_str()) != 0) return SegmentError(path, errno);
    ++deleted;
    reader_.Forget(segment);
  }
  return deleted;
}

}  // namespace buttress
