// How long the fakes of this folder wait for what a test expects of them.
#pragma once

#include <chrono>

namespace buttress {

inline constexpr std::chrono::milliseconds kPatience(60000);

}  // namespace buttress
