#include "lib/base/os/memory.h"

#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

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

// Returns the path of this process in a hierarchy, "/pod/container": that of `controllers`
// ("memory"), or of version 2 for "". nullopt if the kernel reports none.
std::optional<std::string> ControlGroupOf(const std::string& root, const std::string& controllers) {
  std::ifstream self(root + "proc/self/cgroup");
  const std::string cgroups{std::istreambuf_iterator<char>(self), {}};
  const std::string key = ":" + controllers + ":";
  const std::size_t found = cgroups.find(key);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t begin = found + key.size();
  return cgroups.substr(begin, cgroups.find('\n', begin) - begin);
}

std::optional<std::int64_t> CountIn(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  std::int64_t count = 0;
  while (file >> key >> count) {
    if (key == "oom_kill") return count;
  }
  return std::nullopt;
}

}  // namespace

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

std::int64_t OomKills(const std::string& root) {
  const std::string mounted = root + "sys/fs/cgroup";
  const auto count = [&](const std::string& folder, const std::string& group,
                         const std::string& file) {
    // In a container without a namespace of control groups, the path is that of the host.
    const auto own = CountIn(folder + group + "/" + file);
    return own ? own : CountIn(folder + "/" + file);
  };
  std::optional<std::int64_t> kills;
  if (const auto group = ControlGroupOf(root, "memory"))
    kills = count(mounted + "/memory", *group, "memory.oom_control");
  if (const auto group = ControlGroupOf(root, ""); !kills && group)
    kills = count(mounted, *group, "memory.events");
  return kills.value_or(0);
}

void ReturnFreedMemory(std::size_t keep) {
  if (::mallinfo2().fordblks > keep) ::malloc_trim(0);
}

}  // namespace buttress
