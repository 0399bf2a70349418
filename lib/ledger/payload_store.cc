#include "lib/ledger/payload_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "lib/base/digest.h"
#include "lib/base/file.h"
#include "lib/base/log.h"

namespace buttress {
namespace {

// The number of segments that stay open for reading.
constexpr std::size_t kOpenSegments = 16;

std::string SegmentPath(const std::string& folder, std::uint64_t segment) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%08llu.seg", static_cast<unsigned long long>(segment));
  return JoinPath(folder, name.data());
}

// Returns the number in a segment file's name, 0 for any other name.
std::uint64_t SegmentNumber(const std::string& name) {
  unsigned long long number = 0;
  int used = 0;
  const bool matches = std::sscanf(name.c_str(), "%llu.seg%n", &number, &used) == 1;
  return matches && static_cast<std::size_t>(used) == name.size() ? number : 0;
}

Status FileError(const std::string& path, int error) {
  const std::string message = path + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return ResourceExhausted(message + "; free some disk space");
  return error == ENOENT ? NotFound(message) : Unavailable(message);
}

static_assert(std::endian::native == std::endian::little,
              "a record's header holds numbers as they are in memory");

using Header = std::array<char, kPayloadHeaderBytes>;

Header HeaderOf(const PayloadRef& ref) {
  Header header{};
  std::memcpy(header.data(), &ref.bytes, sizeof(ref.bytes));
  std::memcpy(header.data() + sizeof(ref.bytes), &ref.check, sizeof(ref.check));
  return header;
}

std::uint32_t CheckOf(std::string_view sha256) {
  std::uint32_t check = 0;
  std::memcpy(&check, sha256.data(), sizeof(check));
  return check;
}

Result<std::map<std::uint64_t, std::uint64_t>> SegmentSizes(const std::string& folder) {
  std::map<std::uint64_t, std::uint64_t> sizes;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::uint64_t segment = SegmentNumber(entry->path().filename().string());
    if (segment != 0) sizes[segment] = entry->file_size(error);
    if (error) break;
  }
  if (error) return Unavailable(folder + ": " + error.message());
  return sizes;
}

}  // namespace

// An open segment; the last owner closes it.
class PayloadStore::File {
 public:
  File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  ~File() { close(descriptor_); }

  File(const File&) = delete;
  File& operator=(const File&) = delete;

  static Result<std::shared_ptr<File>> Open(const std::string& path, int flags) {
    const int descriptor = open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (descriptor < 0) return FileError(path, errno);
    return std::make_shared<File>(descriptor, path);
  }

  Status Write(Header header, std::string_view bytes, std::uint64_t offset) {
    std::array<iovec, 2> parts = {
        {{header.data(), header.size()}, {const_cast<char*>(bytes.data()), bytes.size()}}};
    while (parts[0].iov_len + parts[1].iov_len > 0) {
      const ssize_t written = pwritev(descriptor_, parts.data(), static_cast<int>(parts.size()),
                                      static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return FileError(path_, errno);
      offset += static_cast<std::uint64_t>(written);
      auto left = static_cast<std::size_t>(written);
      for (iovec& part : parts) {
        const std::size_t done = std::min(left, part.iov_len);
        part.iov_base = static_cast<char*>(part.iov_base) + done;
        part.iov_len -= done;
        left -= done;
      }
    }
    return OkStatus();
  }

  // Reads `size` bytes, or fewer at the end of the file.
  Result<std::string> Read(std::uint64_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const ssize_t count =
          pread(descriptor_, bytes.data() + got, size - got, static_cast<off_t>(offset + got));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return FileError(path_, errno);
      if (count == 0) break;
      got += static_cast<std::size_t>(count);
    }
    bytes.resize(got);
    return bytes;
  }

  Status Truncate(std::uint64_t size) {
    return ftruncate(descriptor_, static_cast<off_t>(size)) == 0 ? OkStatus()
                                                                 : FileError(path_, errno);
  }

  Status Sync() { return fdatasync(descriptor_) == 0 ? OkStatus() : FileError(path_, errno); }

 private:
  const int descriptor_;
  const std::string path_;
};

PayloadStore::PayloadStore(std::string folder, std::uint64_t segment_bytes)
    : folder_(std::move(folder)), segment_bytes_(segment_bytes) {}

PayloadStore::~PayloadStore() = default;

Result<std::unique_ptr<PayloadStore>> PayloadStore::Open(const std::string& folder, PayloadEnd end,
                                                         std::uint64_t segment_bytes) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
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
    if (segment > end.segment && unlink(path.c_str()) != 0) return FileError(path, errno);
  }
  if (cut_bytes > 0)
    Log(kInfo, "payloads that were never acknowledged are cut off",
        {{"folder", folder}, {"bytes", cut_bytes}});
  std::unique_ptr<PayloadStore> store(new PayloadStore(folder, segment_bytes));
  if (end.segment == 0) {
    BUTTRESS_RETURN_IF_ERROR(store->StartSegment(1));
    return store;
  }
  BUTTRESS_ASSIGN_OR_RETURN(store->current_, File::Open(SegmentPath(folder, end.segment), O_RDWR));
  BUTTRESS_RETURN_IF_ERROR(store->current_->Truncate(end.offset));
  store->segment_ = end.segment;
  store->end_ = end.offset;
  return store;
}

Status PayloadStore::StartSegment(std::uint64_t segment) {
  if (current_ != nullptr) BUTTRESS_RETURN_IF_ERROR(current_->Sync());
  BUTTRESS_ASSIGN_OR_RETURN(current_,
                            File::Open(SegmentPath(folder_, segment), O_RDWR | O_CREAT | O_TRUNC));
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
                          CheckOf(sha256)};
  const Status status = current_->Write(HeaderOf(ref), bytes, end_);
  if (!status.ok()) {
    BUTTRESS_RETURN_IF_ERROR(current_->Truncate(end_));
    return status;
  }
  end_ += kPayloadHeaderBytes + bytes.size();
  return ref;
}

Status PayloadStore::Sync() { return current_->Sync(); }

Result<std::string> PayloadStore::Read(const PayloadRef& ref) const {
  std::shared_ptr<File> file;
  {
    MutexLock lock(mutex_);
    if (!open_.contains(ref.segment)) {
      BUTTRESS_ASSIGN_OR_RETURN(file, File::Open(SegmentPath(folder_, ref.segment), O_RDONLY));
      if (open_.size() >= kOpenSegments) open_.erase(open_.begin());
      open_[ref.segment] = file;
    }
    file = open_.at(ref.segment);
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string header, file->Read(ref.offset, kPayloadHeaderBytes));
  BUTTRESS_ASSIGN_OR_RETURN(std::string bytes,
                            file->Read(ref.offset + kPayloadHeaderBytes, ref.bytes));
  const Header expected = HeaderOf(ref);
  if (header != std::string_view(expected.data(), expected.size()) || bytes.size() != ref.bytes ||
      CheckOf(Sha256Of(bytes)) != ref.check) {
    return DataLoss(
        fmt::format("{}: the record at byte {} is not what was written; restore the "
                    "folder from a copy, or start a new run folder",
                    SegmentPath(folder_, ref.segment), ref.offset));
  }
  return bytes;
}

Result<int> PayloadStore::DeleteBefore(std::uint64_t first_needed) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto sizes, SegmentSizes(folder_));
  int deleted = 0;
  for (const auto& [segment, size] : sizes) {
    if (segment >= first_needed || segment >= segment_) break;
    const std::string path = SegmentPath(folder_, segment);
    if (unlink(path.c_str()) != 0) return FileError(path, errno);
    ++deleted;
    MutexLock lock(mutex_);
    open_.erase(segment);
  }
  return deleted;
}

}  // namespace buttress
