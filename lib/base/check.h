// BUTTRESS_CHECK(condition, message): a broken invariant of ours ends the process. Never for input
// from outside.
#pragma once

#include <string_view>

namespace buttress {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace buttress

#define BUTTRESS_CHECK(condition, message)                              \
  do {                                                                  \
    if (!(condition)) [[unlikely]] {                                    \
      ::buttress::CheckFailed(__FILE__, __LINE__, #condition, message); \
    }                                                                   \
  } while (false)
