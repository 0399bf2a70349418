// BUTTRESS_CHECK(condition, message) aborts the process when an invariant of this program is
// broken. Input from outside the process is reported with a Status instead.
#pragma once

#include <string_view>

namespace buttress {

// Prints the place, the condition and the message on stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace buttress

#define BUTTRESS_CHECK(condition, message)                              \
  do {                                                                  \
    if (!(condition)) [[unlikely]] {                                    \
      ::buttress::CheckFailed(__FILE__, __LINE__, #condition, message); \
    }                                                                   \
  } while (false)
