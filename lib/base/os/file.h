// Reads and writes of whole files, what makes them durable, and the space and permissions of them.
#pragma once

#include <cstdint>
#include <optional>
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

// Makes an open file or folder durable: fsync, in one place, so that a test can take away what a
// power failure would. Returns false, and sets errno, if it fails. Thread-safe.
//
// If BUTTRESS_SYNC_LOG names a file when a process first syncs, each sync that succeeds appends to
// it what has become durable:
//
//   file <inode> <bytes>
//   folder <inode>
//   entry <inode of the folder> <inode> <name>    one for each entry, after its folder
//
// Without the variable a sync costs one branch more.
bool SyncDescriptor(int fd);

// The same for the content and the size of a file alone.
bool SyncContent(int fd);

// Returns the bytes that this process may still write where `folder` lies; nullopt if the system
// does not say. A quota is not counted. Thread-safe.
std::optional<std::uint64_t> FreeBytes(const std::string& folder);

// Files and folders made after this call are the owner's, the group may read them, and others may
// nothing (0640 and 0750), whatever umask this process was started with. Stricter bits of that
// umask stay. Call it before threads start.
void TightenUmask();

}  // namespace buttress
