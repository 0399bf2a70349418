#include "lib/base/log.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "lib/base/clock.h"
#include "lib/base/sync.h"

namespace buttress {
namespace {

struct LogState {
  Mutex mutex;
  std::string role GUARDED_BY(mutex) = "buttress";
  std::atomic<std::int64_t> step{-1};
  std::atomic<std::int64_t> version{-1};
  std::array<std::atomic<std::int64_t>, 3> counts{};
};

LogState& State() {
  static LogState state;
  return state;
}

std::string Quoted(std::string_view text) {
  if (!text.empty() && text.find_first_of(" \t\n\"=") == std::string_view::npos)
    return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

LogField::LogField(std::string_view n, double v) : name(n), value(fmt::format("{:.6g}", v)) {}

void SetLogRole(std::string_view role) {
  LogState& state = State();
  MutexLock lock(state.mutex);
  state.role = role;
}

void SetLogStep(std::int64_t step, std::int64_t version) {
  State().step = step;
  State().version = version;
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  LogState& state = State();
  state.counts[static_cast<std::size_t>(level)].fetch_add(1, std::memory_order_relaxed);
  std::string line = FormatUtc(RealClock().UnixMs());
  line += level == kInfo ? " I " : level == kWarn ? " W " : " E ";
  {
    MutexLock lock(state.mutex);
    line += state.role;
  }
  if (state.step >= 0) line += " step=" + std::to_string(state.step);
  if (state.version >= 0) line += " version=" + std::to_string(state.version);
  line += ' ';
  line += message;
  for (const LogField& field : fields) line += ' ' + field.name + '=' + Quoted(field.value);
  line += '\n';
  // A line is one write call, so that threads and processes do not interleave within lines.
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (n <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::int64_t LogCount(LogLevel level) { return State().counts[static_cast<std::size_t>(level)]; }

}  // namespace buttress
