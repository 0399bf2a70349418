// The functions that the linker replaces by those of the simulation (CMakeLists.txt), and how often
// each was passed. The linker says nothing of a seam that no call passes any more: because the
// function has another name, or because its caller is compiled together with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace buttress::simulation {

enum class Seam : std::uint8_t {
  kOpen,
  kClose,
  kWrite,
  kTruncate,
  kSync,
  kFolderSync,
  kUnlink,
  kTransaction,
  kPayloadSync,
  kPayloadDeletion,
  kExpiry,
  kLog,
};

inline constexpr std::array<std::string_view, 12> kSeamNames = {
    "seam: open",
    "seam: close",
    "seam: pwritev",
    "seam: ftruncate",
    "seam: fdatasync",
    "seam: fsync",
    "seam: unlink",
    "seam: Ledger::Write",
    "seam: PayloadStore::Sync",
    "seam: PayloadStore::DeleteBefore",
    "seam: Scheduler::Expire",
    "seam: Log",
};

// By seam, since the process has started or somebody has taken them.
inline std::array<std::int64_t, kSeamNames.size()> seam_passes{};

inline void Pass(Seam seam) { ++seam_passes[static_cast<std::size_t>(seam)]; }

}  // namespace buttress::simulation
