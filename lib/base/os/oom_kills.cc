#include "lib/base/os/oom_kills.h"

#include <fstream>
#include <optional>

#include "lib/base/os/control_group.h"

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

}  // namespace

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

}  // namespace buttress
