// The free space of a file system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace buttress {

// Returns the bytes that this process may still write where `folder` lies; nullopt if the system
// does not say. A quota is not counted. Thread-safe.
std::optional<std::uint64_t> FreeBytes(const std::string& folder);

}  // namespace buttress
