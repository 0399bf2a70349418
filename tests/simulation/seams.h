// The functions that the linker replaces by those of the simulation (CMakeLists.txt), and how often
// each was passed. The linker says nothing of a seam that no call passes any more: because the
// function has another name, or because its caller is compiled together with it.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

// Those of the system, as they are.
extern "C" {
int __real_open(const char* path, int flags, ...);
int __real_close(int descriptor);
ssize_t __real_write(int descriptor, const void* from, size_t size);
ssize_t __real_pwrite(int descriptor, const void* from, size_t size, off_t offset);
ssize_t __real_pwritev(int descriptor, const iovec* parts, int count, off_t offset);
int __real_ftruncate(int descriptor, off_t size);
int __real_fdatasync(int descriptor);
int __real_fsync(int descriptor);
int __real_unlink(const char* path);
int __real_flock(int descriptor, int operation);
int __real_rename(const char* from, const char* to);
}

namespace buttress::simulation {

enum class Seam : std::uint8_t {
  kOpen,
  kClose,
  kPlainWrite,
  kWrite,
  kTruncate,
  kSync,
  kFolderSync,
  kUnlink,
  kRename,
  kLock,
  kTransaction,
  kArchive,
  kFirstEndedTag,
  kPayloadSync,
  kPayloadDeletion,
  kExpiry,
  kLog,
};

inline constexpr std::array<std::string_view, 17> kSeamNames = {
    "seam: open",
    "seam: close",
    "seam: write",
    "seam: pwritev",
    "seam: ftruncate",
    "seam: fdatasync",
    "seam: fsync",
    "seam: unlink",
    "seam: rename",
    "seam: flock",
    "seam: Ledger::Write",
    "seam: Ledger::Archive",
    "seam: FirstEndedTag",
    "seam: PayloadStore::Sync",
    "seam: PayloadStore::DeleteBefore",
    "seam: Scheduler::Expire",
    "seam: Log",
};

// By seam, since the process has started or somebody has taken them.
inline std::array<std::int64_t, kSeamNames.size()> seam_passes{};

inline void Pass(Seam seam) { ++seam_passes[static_cast<std::size_t>(seam)]; }

}  // namespace buttress::simulation
