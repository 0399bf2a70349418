#include "cli/operations/file_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "lib/base/digest.h"
#include "lib/base/file.h"
#include "lib/base/file_sync.h"

namespace buttress {
namespace {

constexpr std::size_t kCopyBytes = 1 << 20;

Status SyncFile(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && SyncDescriptor(descriptor);
  const std::string error = std::strerror(errno);
  if (descriptor >= 0) ::close(descriptor);
  return synced ? OkStatus() : Unavailable("cannot sync " + path + ": " + error);
}

// Reads at most `limit` bytes of `from`, hashes them and gives them to `take(chunk)`.
template <class Take>
CopiedFile ReadAndHash(std::ifstream& from, std::uint64_t limit, Take take) {
  std::vector<char> chunk(kCopyBytes);
  CopiedFile file;
  Sha256 digest;
  while (file.bytes < limit && from) {
    const auto want = std::min<std::uint64_t>(chunk.size(), limit - file.bytes);
    from.read(chunk.data(), static_cast<std::streamsize>(want));
    const std::string_view bytes(chunk.data(), static_cast<std::size_t>(from.gcount()));
    digest.Update(bytes);
    take(bytes);
    file.bytes += bytes.size();
  }
  file.sha256 = digest.Finish();
  return file;
}

}  // namespace

Result<std::ifstream> OpenForCopy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot read " + path + ": " + std::strerror(errno));
  return file;
}

Result<CopiedFile> CopyFile(std::ifstream& from, const std::string& to, std::uint64_t limit) {
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(std::filesystem::path(to).parent_path().string()));
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  CopiedFile copied = ReadAndHash(from, limit, [&](std::string_view bytes) {
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  });
  if (from.bad()) return Unavailable("cannot read the source of " + to);
  out.close();
  if (!out) return ResourceExhausted("cannot write " + to + "; check the free disk space");
  BUTTRESS_RETURN_IF_ERROR(SyncFile(to));
  return copied;
}

Result<CopiedFile> DigestFile(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(std::ifstream from, OpenForCopy(path));
  CopiedFile file = ReadAndHash(from, kWholeFile, [](std::string_view) {});
  if (from.bad()) return Unavailable("cannot read " + path);
  return file;
}

}  // namespace buttress
