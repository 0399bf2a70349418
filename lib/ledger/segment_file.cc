#include "lib/ledger/segment_file.h"

#include <fcntl.h>
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

#include "lib/base/file.h"

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little,
              "a record's header holds numbers as they are in memory");

// Returns the number in a segment file's name, 0 for any other name.
std::uint64_t SegmentNumber(const std::string& name) {
  unsigned long long number = 0;
  int used = 0;
  const bool matches = std::sscanf(name.c_str(), "%llu.seg%n", &number, &used) == 1;
  return matches && static_cast<std::size_t>(used) == name.size() ? number : 0;
}

}  // namespace

PayloadHeader HeaderOf(const PayloadRef& ref) {
  PayloadHeader header{};
  std::memcpy(header.data(), &ref.bytes, sizeof(ref.bytes));
  std::memcpy(header.data() + sizeof(ref.bytes), &ref.check, sizeof(ref.check));
  return header;
}

std::uint32_t PayloadCheckOf(std::string_view sha256) {
  std::uint32_t check = 0;
  std::memcpy(&check, sha256.data(), sizeof(check));
  return check;
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
    if (count < 0) return SegmentError(path_, errno);
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  bytes.resize(got);
  return bytes;
}

Status SegmentFile::Truncate(std::uint64_t size) {
  return ftruncate(descriptor_, static_cast<off_t>(size)) == 0 ? OkStatus()
                                                               : SegmentError(path_, errno);
}

Status SegmentFile::Sync() {
  return fdatasync(descriptor_) == 0 ? OkStatus() : SegmentError(path_, errno);
}

}  // namespace buttress
