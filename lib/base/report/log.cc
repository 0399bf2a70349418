#include "lib/base/report/log.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "lib/base/os/clock.h"
#include "lib/base/thread/sync.h"

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

// Appends `text` with control characters escaped, so that it can neither end its line nor command
// the terminal that shows it. Those above 0x7f are two bytes in UTF-8, the first of which is 0xc2.
void AppendEscaped(std::string& line, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == '\n') {
      line += "\\n";
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      line += fmt::format("\\u{:04x}", next);
      ++i;
    } else if (byte < ' ' || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += text[i];
    }
  }
}

void AppendQuoted(std::string& line, std::string_view text) {
  const bool plain = !text.empty() && std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=';
  });
  if (plain) return AppendEscaped(line, text);
  std::string quoted;
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  line += '"';
  AppendEscaped(line, quoted);
  line += '"';
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
  AppendEscaped(line, message);
  for (const LogField& field : fields) {
    line += ' ' + field.name + '=';
    AppendQuoted(line, field.value);
  }
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
