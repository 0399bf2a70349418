#include "lib/base/os/free_space.h"

#include <sys/statvfs.h>

namespace buttress {

std::optional<std::uint64_t> FreeBytes(const std::string& folder) {
  struct statvfs info {};

  if (::statvfs(folder.c_str(), &info) != 0) return std::nullopt;
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace buttress
