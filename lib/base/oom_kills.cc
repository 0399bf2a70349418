#include "lib/base/oom_kills.h"

#include <fstream>
#include <iterator>
#include <optional>

namespace buttress {
namespace {

std::optional<std::int64_t> CountIn(const std::string& path) {
  std::ifstream file(path);
  std::string key;
  std::int64_t count = 0;
  while (file >> key >> count) {
    if (key == "oom_kill") return count;
  }
  return std::nullopt;
}

// Returns what is behind "ID:`controllers`:" in the text of /proc/self/cgroup.
std::optional<std::string> GroupOf(const std::string& cgroups, const std::string& controllers) {
  const std::string key = ":" + controllers + ":";
  const std::size_t found = cgroups.find(key);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t begin = found + key.size();
  return cgroups.substr(begin, cgroups.find('\n', begin) - begin);
}

}  // namespace

std::int64_t OomKills(const std::string& root) {
  std::ifstream self(root + "proc/self/cgroup");
  const std::string cgroups{std::istreambuf_iterator<char>(self), {}};
  const std::string mounted = root + "sys/fs/cgroup";
  const auto count = [&](const std::string& folder, const std::string& group,
                         const std::string& file) {
    // In a container without a namespace of control groups, the path is that of the host.
    const auto own = CountIn(folder + group + "/" + file);
    return own ? own : CountIn(folder + "/" + file);
  };
  std::optional<std::int64_t> kills;
  if (const auto group = GroupOf(cgroups, "memory"))
    kills = count(mounted + "/memory", *group, "memory.oom_control");
  if (const auto group = GroupOf(cgroups, ""); !kills && group)
    kills = count(mounted, *group, "memory.events");
  return kills.value_or(0);
}

}  // namespace buttress
