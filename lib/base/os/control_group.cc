#include "lib/base/os/control_group.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace buttress {
namespace {

// The value of a key of <root>/proc/meminfo, which counts in KiB.
std::int64_t MeminfoBytes(const std::string& root, const std::string& key) {
  std::ifstream file(root + "proc/meminfo");
  std::string name, unit;
  std::int64_t value = 0;
  while (file >> name >> value && std::getline(file, unit)) {
    if (name == key + ":") return value * 1024;
  }
  return 0;
}

// Lowers `limit` to the number in a file; "max" and a missing file are none.
void LowerTo(const std::filesystem::path& path, std::int64_t& limit) {
  std::ifstream file(path);
  if (std::int64_t bytes = 0; file >> bytes && (limit == 0 || bytes < limit)) limit = bytes;
}

// Lowers `limit` to those of a group and the groups above it. In a container without a namespace of
// control groups, the path is that of the host, and the container's own group is at the top.
void LowerToGroup(const std::string& top, std::filesystem::path group, const std::string& file,
                  std::int64_t& limit) {
  for (group = group.relative_path(); !group.empty(); group = group.parent_path())
    LowerTo(top / group / file, limit);
  LowerTo(top + "/" + file, limit);
}

}  // namespace

std::optional<std::string> ControlGroupOf(const std::string& root, const std::string& controllers) {
  std::ifstream self(root + "proc/self/cgroup");
  const std::string cgroups{std::istreambuf_iterator<char>(self), {}};
  const std::string key = ":" + controllers + ":";
  const std::size_t found = cgroups.find(key);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t begin = found + key.size();
  return cgroups.substr(begin, cgroups.find('\n', begin) - begin);
}

std::int64_t MemoryLimit(const std::string& root) {
  std::int64_t limit = MeminfoBytes(root, "MemTotal");
  const std::string mounted = root + "sys/fs/cgroup";
  if (const auto group = ControlGroupOf(root, "memory"))
    LowerToGroup(mounted + "/memory", *group, "memory.limit_in_bytes", limit);
  if (const auto group = ControlGroupOf(root, ""))
    LowerToGroup(mounted, *group, "memory.max", limit);
  return limit;
}

std::int64_t AvailableMemory(const std::string& root) { return MeminfoBytes(root, "MemAvailable"); }

}  // namespace buttress
