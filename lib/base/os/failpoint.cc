#include "lib/base/os/failpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <string>
#include <thread>

#include "lib/base/report/log.h"

namespace buttress {
namespace {

enum class Action : std::uint8_t { kCrash, kSleep, kFail };

struct Armed {
  Armed(std::string_view n, Action a, int v) : name(n), action(a), value(v) {}

  std::string name;
  Action action;
  std::atomic<int> value;  // times that are left, or milliseconds
};

std::list<Armed> armed;

// Arms "name:action:value"; returns false if it is malformed.
bool Arm(std::string_view entry) {
  const std::size_t first = entry.find(':'), last = entry.rfind(':');
  if (first == entry.npos || first == last) return false;
  const std::string_view action = entry.substr(first + 1, last - first - 1);
  const std::string_view digits = entry.substr(last + 1);
  int value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ptr != digits.data() + digits.size() || value < 1) return false;
  if (action != "crash" && action != "sleep" && action != "fail") return false;
  armed.emplace_back(entry.substr(0, first),
                     action == "crash"   ? Action::kCrash
                     : action == "sleep" ? Action::kSleep
                                         : Action::kFail,
                     value);
  return true;
}

}  // namespace

Status ArmFailpoints() {
  const char* variable = std::getenv("BUTTRESS_FAILPOINTS");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (!Arm(entry)) {
      return InvalidArgument(
          fmt::format("BUTTRESS_FAILPOINTS: '{}' is malformed; expected name:crash:count, "
                      "name:sleep:milliseconds or name:fail:count, for example "
                      "after_commit:crash:20",
                      entry));
    }
  }
  return OkStatus();
}

int ArmedFailpoints() { return static_cast<int>(armed.size()); }

void Failpoint(std::string_view name) { PassFailpoint(name); }

bool PassFailpoint(std::string_view name) {
  bool passes = true;
  for (Armed& point : armed) {
    if (point.name != name) continue;
    if (point.action == Action::kSleep) {
      Log(kWarn, "failpoint reached; sleeping", {{"name", name}, {"ms", point.value.load()}});
      std::this_thread::sleep_for(std::chrono::milliseconds(point.value.load()));
      continue;
    }
    if (--point.value != 0) continue;
    if (point.action == Action::kFail) {
      Log(kWarn, "failpoint reached; the call fails", {{"name", name}});
      passes = false;
      continue;
    }
    Log(kWarn, "failpoint reached; killing the process", {{"name", name}});
    std::raise(SIGKILL);
  }
  if (!passes) errno = EIO;
  return passes;
}

}  // namespace buttress
