// The processes that the kernel killed because memory ran out.
#pragma once

#include <cstdint>
#include <string>

namespace buttress {

// Returns how many processes of this process's control group the kernel has killed because memory
// ran out, of the group or of the machine; 0 if it does not report that. Reads cgroup v2 and v1
// below `root`, which only tests change.
std::int64_t OomKills(const std::string& root = "/");

}  // namespace buttress
