// The resources that all processes of a sandbox use together, which no limit of a process bounds.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace buttress {

// Returns the bytes of memory that belong to the processes of the pid namespace whose first process
// is `first`, pages that they share counted once. Sums that stay within `limit` may count shared
// pages several times, which is faster. 0 while the sandbox is being set up.
std::int64_t MemoryOf(pid_t first, std::int64_t limit);

// Returns the files and folders in the sandbox's file system at /`folder`. 0 while the sandbox is
// being set up.
std::int64_t FilesIn(pid_t first, const char* folder);

}  // namespace buttress
