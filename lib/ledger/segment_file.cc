#include "lib/ledger/segment_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
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
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kBytesAt = 4;
constexpr std::size_t kGroupAt = 8;
constexpr std::size_t kLeaseAt = 16;
constexpr std::size_t kCheckAt = 24;

template <class T>
void Put(T value, std::size_t at, PayloadHeader& header) {
  std::memcpy(header.data() + at, &value, sizeof(value));
}

template <class T>
T Get(std::size_t at, const PayloadHeader& header) {
  T value{};
  std::memcpy(&value, header.data() + at, sizeof(value));
  return value;
}

// Returns the number in a segment file's name, 0 for any other name.
std::uint64_t SegmentNumber(const std::string& name) {
  unsigned long long number = 0;
  int used = 0;
  const bool matches = std::sscanf(name.c_str(), "%llu.seg%n", &number, &used) == 1;
  return matches && static_cast<std::size_t>(used) == name.size() ? number : 0;
}

}  // namespace

PayloadHeader MakeHeader(const LeaseRef& lease, std::uint32_t bytes, std::string_view sha256) {
  PayloadHeader header{};
  Put(kMagic, kMagicAt, header);
  Put(bytes, kBytesAt, header);
  Put(lease.group_id, kGroupAt, header);
  Put(lease.lease_epoch, kLeaseAt, header);
  std::string checked(header.data(), kCheckAt);
  checked += sha256;
  std::memcpy(header.data() + kCheckAt, Sha256Of(checked).data(), sizeof(std::uint64_t));
  return header;
}

std::uint64_t CheckIn(const PayloadHeader& header) { return Get<std::uint64_t>(kCheckAt, header); }

Status CheckRecord(std::string_view record, const PayloadRef& ref) {
  const std::size_t size = kPayloadHeaderBytes + ref.bytes;
  if (record.size() < size)
    return DataLoss(fmt::format("the file ends after {} of its {} bytes", record.size(), size));
  PayloadHeader found{};
  record.copy(found.data(), found.size());
  const LeaseRef lease = {Get<std::uint64_t>(kGroupAt, found), Get<std::uint64_t>(kLeaseAt, found)};
  const bool whole =
      found == MakeHeader(lease, ref.bytes, Sha256Of(record.substr(kPayloadHeaderBytes)));
  if (whole && CheckIn(found) == ref.check) return OkStatus();
  if (!whole) return DataLoss("its check fails");
  return DataLoss(
      fmt::format("group {} under lease {} is there", lease.group_id, lease.lease_epoch));
}

std::optional<RecordHead> HeadOf(std::string_view header) {
  if (header.size() < kPayloadHeaderBytes) return std::nullopt;
  PayloadHeader found{};
  header.copy(found.data(), found.size());
  if (Get<std::uint32_t>(kMagicAt, found) != kMagic) return std::nullopt;
  return RecordHead{Get<std::uint64_t>(kGroupAt, found), Get<std::uint32_t>(kBytesAt, found)};
}

std::string SegmentPath(const std::string& folder, std::uint64_t segment) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "%08llu.seg", static_cast<unsigned long long>(segment));
  return JoinPath(folder, name.data());
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

Status SegmentFile::Write(PayloadHeader header, std::string_view bytes, std::uint64_t offset) {
  std::array<iovec, 2> parts = {
      {{header.data(), header.size()}, {const_cast<char*>(bytes.data()), bytes.size()}}};
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
    if (count < 0 && errno == EIO) return DataLoss(path_ + ": " + std::strerror(EIO));
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
