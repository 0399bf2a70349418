// One line per state change, one summary line per step, none per token. To stderr; every line has
//   the same prefix: 2025-01-01T00:00:00.000Z I learner/0 step=12 version=11 group accepted group=7
//   tokens=512
// Info: an operator wants this. Warn: degraded, and counted. Error: this part stops.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace buttress {

enum class LogLevel { kInfo, kWarn, kError };

// A named value of a line; quoted when it holds spaces.
struct LogField {
  template <class T>

  requires std::is_arithmetic_v<T> LogField(std::string_view n, T v) : name(n), value(Text(v)) {}

  LogField(std::string_view n, std::string_view v) : name(n), value(v) {}

  std::string name;
  std::string value;

 private:
  static std::string Text(double v);

  static std::string Text(float v) { return Text(static_cast<double>(v)); }

  static std::string Text(bool v) { return v ? "true" : "false"; }
  template <class T>
  requires std::is_integral_v<T>

  static std::string Text(T v) { return std::to_string(v); }
};

// Names this process in every line: "coordinator", "rollout_worker/w0", "learner/0". Called once,
// at start.
void SetLogRole(std::string_view role);

// The step and policy version of the prefix, once they are known. Thread-safe.
void SetLogStep(std::int64_t step, std::int64_t version);

// Writes one line. Thread-safe.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

// Lines written so far at `level`, for buttress_log_events_total.
std::int64_t LogCount(LogLevel level);

using enum LogLevel;

}  // namespace buttress
