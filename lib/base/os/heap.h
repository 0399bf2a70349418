// The heap of this process.
#pragma once

#include <cstddef>

namespace buttress {

// What the heap may keep, in bytes. Work that leaves less is so short that it would miss the pages.
inline constexpr std::size_t kKeptHeap = std::size_t{256} << 20;

// Returns the memory of freed blocks to the system if the heap holds more than `keep` bytes of it.
// The C library keeps what lies between blocks in use, and tensors below 32 MiB live among them: a
// step of a large model leaves hundreds of MiB that the next one cannot use for larger tensors.
// Thread-safe. Costs about a tenth of a second per GiB returned.
void ReturnFreedMemory(std::size_t keep = kKeptHeap);

}  // namespace buttress
