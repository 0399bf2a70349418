// The control groups of this process (cgroups), which bound its memory in a container or a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace buttress {

// Returns the path of this process in a hierarchy, "/pod/container": that of `controllers`
// ("memory"), or of version 2 for "". nullopt if the kernel reports none. Reads
// `root`proc/self/cgroup; `root` ends in '/'.
std::optional<std::string> ControlGroupOf(const std::string& root, const std::string& controllers);

// Returns the bytes of memory that the programs of this process's control group may have together:
// the least limit of the group and those above it (versions 1 and 2), or the memory of the machine.
// 0 if the kernel reports neither. Reads below `root`, which ends in '/'.
std::int64_t MemoryLimit(const std::string& root = "/");

// Returns the bytes of the machine's memory that are free or can be made free; 0 if the kernel does
// not tell. Reads below `root`, which ends in '/'.
std::int64_t AvailableMemory(const std::string& root = "/");

}  // namespace buttress
