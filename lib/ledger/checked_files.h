// The layer of files under every database of a ledger, in which no damage goes unseen: SQLite
// itself has no checksum on a page, and checks its write-ahead log only when it recovers it.
//
// The last 4 bytes of each page, which SQLite leaves free (its "reserved bytes"), are the page's
// seal: a CRC-32 of its other bytes and its number. A page gets its seal when it is written to the
// database, and is checked when it is read from there. In the write-ahead log it has no seal yet:
// see checked_log.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace buttress {

inline constexpr int kPageBytes = 4096;
inline constexpr int kSealBytes = 4;

// How a damaged ledger is mended, for the end of a message.
inline constexpr char kLedgerMend[] =
    "restore a backup of the run, or start a new run from its newest checkpoint (buttress launch "
    "--from)";

// Returns the seal of page `number`, from 1, of kPageBytes.
std::uint32_t SealOf(const char* page, std::uint32_t number);

// Returns the layer's name, for sqlite3_open_v2. It lies over the layer that is the default when a
// file is opened. A database must have kSealBytes reserved bytes (SQLITE_FCNTL_RESERVE_BYTES). A
// read of a damaged page fails with SQLITE_IOERR_DATA.
const char* CheckedFiles();

// Returns what the last such read of this thread found, once: the file, the place, and the mend.
// Empty if it found nothing.
std::string TakeDamage();

// For the files of the layer. Note damage of the file `path` for TakeDamage, and return
// SQLITE_IOERR_DATA.
int Damage(const std::string& path, std::string_view fault);
int WrongChecksum(const std::string& path, std::string_view what);

}  // namespace buttress
