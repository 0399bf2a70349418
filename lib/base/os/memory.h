// The memory of this process and its control group (cgroup), which bounds it in a container or a
// job: what there is, whom the kernel killed because it ran out, and what the heap gives back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace buttress {

// Returns the bytes of memory that the programs of this process's control group may have together:
// the least limit of the group and those above it (versions 1 and 2), or the memory of the machine.
// 0 if the kernel reports neither. Reads below `root`, which ends in '/'.
std::int64_t MemoryLimit(const std::string& root = "/");

// Returns the bytes of the machine's memory that are free or can be made free; 0 if the kernel does
// not tell. Reads below `root`, which ends in '/'.
std::int64_t AvailableMemory(const std::string& root = "/");

// Returns how many processes of this process's control group the kernel has killed because memory
// ran out, of the group or of the machine; 0 if it does not report that. Reads cgroup v2 and v1
// below `root`, which only tests change.
std::int64_t OomKills(const std::string& root = "/");

// What the heap may keep, in bytes. Work that leaves less is so short that it would miss the pages.
inline constexpr std::size_t kKeptHeap = std::size_t{256} << 20;

// Returns the memory of freed blocks to the system if the heap holds more than `keep` bytes of it.
// The C library keeps what lies between blocks in use, and tensors below 32 MiB live among them: a
// step of a large model leaves hundreds of MiB that the next one cannot use for larger tensors.
// Thread-safe. Costs about a tenth of a second per GiB returned.
void ReturnFreedMemory(std::size_t keep = kKeptHeap);

}  // namespace buttress
