// fsync, in one place, so that a test can take away what a power failure would.
//
// If BUTTRESS_SYNC_LOG names a file when a process first syncs, each sync that succeeds appends to
// it what has become durable:
//
//   file <inode> <bytes>
//   folder <inode>
//   entry <inode of the folder> <inode> <name>    one for each entry, after its folder
//
// Without the variable a sync costs one branch more.
#pragma once

namespace buttress {

// Makes an open file or folder durable. Returns false, and sets errno, if it fails. Thread-safe.
bool SyncDescriptor(int fd);

// The same for the content and the size of a file alone.
bool SyncContent(int fd);

}  // namespace buttress
