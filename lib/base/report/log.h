// The log of a program, on stderr. A line is written for a change of state or as the summary of a
// step, never for a token. It has the form
//   2025-01-01T00:00:00.000Z I learner/0 step=12 version=11 group accepted group=7 tokens=512
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace buttress {

enum class LogLevel {
  kInfo,   // a change of state that an operator wants to see
  kWarn,   // the program continues with less than it should have
  kError,  // a component stops
};

// A named value of a line. Values with spaces are quoted.
struct LogField {
  LogField(std::string_view n, std::string_view v) : name(n), value(v) {}

  LogField(std::string_view n, const char* v) : name(n), value(v) {}

  LogField(std::string_view n, bool v) : name(n), value(v ? "true" : "false") {}

  LogField(std::string_view n, double v);

  template <std::integral T>
  LogField(std::string_view n, T v) : name(n), value(std::to_string(v)) {}

  std::string name;
  std::string value;
};

// Names this process in every line: "coordinator", "rollout_worker/w0", "learner/0". Called once,
// at the start of main.
void SetLogRole(std::string_view role);

// Sets the step and the policy version of the prefix, which is without them before. Thread-safe.
void SetLogStep(std::int64_t step, std::int64_t version);

// Writes one line. Thread-safe.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});

// The number of lines written at `level`, for the metric buttress_log_events_total.
std::int64_t LogCount(LogLevel level);

using enum LogLevel;

}  // namespace buttress
