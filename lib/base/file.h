// Whole-file reads and writes that survive a crash: write beside, fsync, rename, fsync the folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

// kNotFound if there is no such file; kResourceExhausted above `max_bytes`.
Result<std::string> ReadFile(const std::string& path,
                             std::int64_t max_bytes = std::int64_t{1} << 40);

// After OK the file holds exactly `bytes`, even if the machine dies; before that the old content
// stands.
Status WriteFileAtomic(const std::string& path, std::string_view bytes);

Status AppendToFile(const std::string& path, std::string_view bytes);

// Makes `path` and its parents.
Status MakeFolders(const std::string& path);

Status SyncFolder(const std::string& path);

// `folder` + "/" + `name`.
std::string JoinPath(std::string_view folder, std::string_view name);

}  // namespace buttress
