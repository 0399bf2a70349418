#include "lib/ledger/segment_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little,
              "a record's header holds numbers as they are in memory");

constexpr std::uint32_t kMagic = 0x47525442;  // "BTRG"

// Returns the number in a segment file's name, 0 for any other name.
std::uint64_t SegmentNumber(const std::string& name) {
  std::uint64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, number);
  return error == std::errc() && std::string_view(rest, end) == ".seg" ? number : 0;
}

}  // namespace

PayloadHeader MakeHeader(const LeaseRef& lease, std::uint32_t bytes, std::string_view sha256) {
  PayloadHeader header = {kMagic, bytes, lease.group_id, lease.lease_epoch, 0};
  std::string checked(reinterpret_cast<const char*>(&header), offsetof(PayloadHeader, check));
  checked += sha256;
  std::memcpy(&header.check, Sha256Of(checked).data(), sizeof header.check);
  return header;
}

Status CheckRecord(std::string_view record, const PayloadRef& ref) {
  const std::size_t size = kPayloadHeaderBytes + ref.bytes;
  if (record.size() < size)
    return DataLoss(fmt::format("the file ends after {} of its {} bytes", record.size(), size));
  PayloadHeader found;
  std::memcpy(&found, record.data(), sizeof found);
  const LeaseRef lease = {found.group_id, found.lease_epoch};
  if (found != MakeHeader(lease, ref.bytes, Sha256Of(record.substr(kPayloadHeaderBytes))))
    return DataLoss("its check fails");
  if (found.check == ref.check) return OkStatus();
  return DataLoss(
      fmt::format("group {} under lease {} is there", lease.group_id, lease.lease_epoch));
}

std::string SegmentPath(const std::string& folder, std::uint64_t segment) {
  return JoinPath(folder, fmt::format("{:08}.seg", segment));
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

Status SegmentError(const std::string& path, int error) {
  const std::string message = path + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return ResourceExhausted(message + "; free some disk space");
  return error == ENOENT ? NotFound(message) : Unavailable(message);
}

SegmentFile::~SegmentFile() { close(descriptor_); }

Result<std::shared_ptr<SegmentFile>> SegmentFile::Open(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (descriptor < 0) return SegmentError(path, errno);
  return std::make_shared<SegmentFile>(descriptor, path);
}

Status SegmentFile::Write(const PayloadHeader& header, std::string_view bytes,
                          std::uint64_t offset) {
  std::array<iovec, 2> parts = {{{const_cast<PayloadHeader*>(&header), sizeof header},
                                 {const_cast<char*>(bytes.data()), bytes.size()}}};
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    if (!PassFailpoint("payload_write")) return SegmentError(path_, errno);
    const ssize_t written = pwritev(descriptor_, parts.data(), static_cast<int>(parts.size()),
                                    static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SegmentError(path_, errno);
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

Result<std::string> SegmentFile::Read(std::uint64_t offset, std::size_t size) const {
  std::string bytes(size, '\0');
  std::size_t got = 0;
  while (got < size) {
    const ssize_t count =
        pread(descriptor_, bytes.data() + got, size - got, static_cast<off_t>(offset + got));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EIO) return NotFound(path_ + ": " + std::strerror(EIO));
    if (count < 0) return SegmentError(path_, errno);
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  bytes.resize(got);
  return bytes;
}

Status SegmentFile::Truncate(std::uint64_t size) {
  const bool cut =
      PassFailpoint("payload_truncate") && ftruncate(descriptor_, static_cast<off_t>(size)) == 0;
  return cut ? OkStatus() : SegmentError(path_, errno);
}

Status SegmentFile::Sync() {
  const bool synced = PassFailpoint("payload_sync") && SyncContent(descriptor_);
  return synced ? OkStatus() : SegmentError(path_, errno);
}

}  // namespace buttress
