#include "lib/base/failpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <list>
#include <string>

#include "lib/base/log.h"

namespace buttress {
namespace {

struct Armed {
  Armed(std::string_view n, int hits) : name(n), hits_left(hits) {}

  std::string name;
  std::atomic<int> hits_left;
};

std::list<Armed> armed;

}  // namespace

Status ArmFailpoints() {
  const char* variable = std::getenv("BUTTRESS_FAILPOINTS");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    constexpr std::string_view kAction = ":crash:";
    const std::size_t at = entry.find(kAction);
    const std::string_view count = at == entry.npos ? "" : entry.substr(at + kAction.size());
    int hits = 0;
    const auto parsed = std::from_chars(count.data(), count.data() + count.size(), hits);
    if (hits < 1 || parsed.ptr != count.data() + count.size()) {
      return InvalidArgument(fmt::format(
          "BUTTRESS_FAILPOINTS: '{}' is malformed; expected name:crash:count, for example "
          "after_commit:crash:20",
          entry));
    }
    armed.emplace_back(entry.substr(0, at), hits);
  }
  return OkStatus();
}

int ArmedFailpoints() { return static_cast<int>(armed.size()); }

void Failpoint(std::string_view name) {
  for (Armed& point : armed) {
    if (point.name != name || --point.hits_left != 0) continue;
    Log(kWarn, "failpoint reached; killing the process", {{"name", name}});
    std::raise(SIGKILL);
  }
}

}  // namespace buttress
