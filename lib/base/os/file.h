// Reads and writes of whole files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"

namespace buttress {

// Returns the content of the file. kNotFound if it does not exist, kInvalidArgument for a folder,
// kResourceExhausted if it is larger than `max_bytes`.
Result<std::string> ReadFile(const std::string& path,
                             std::int64_t max_bytes = std::int64_t{1} << 40);

// Replaces the file with `bytes` atomically and durably: writes a temporary file in the same
// folder, syncs it, renames it and syncs the folder. A crash before the return leaves either
// content.
Status WriteFileAtomic(const std::string& path, std::string_view bytes);

// Appends `bytes`, and creates the file if it does not exist. Does not sync.
Status AppendToFile(const std::string& path, std::string_view bytes);

// Creates the folder `path` and its missing parents, durably.
Status MakeFolders(const std::string& path);

// Makes file creations and renames in the folder durable.
Status SyncFolder(const std::string& path);

// `folder` + "/" + `name`.
std::string JoinPath(std::string_view folder, std::string_view name);

}  // namespace buttress
