#include "lib/ledger/checked_files.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "lib/ledger/sqlite_layer.h"

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little,
              "SQLite sums the log up in the byte order of the machine");

constexpr char kName[] = "checked";
constexpr int kSealedBytes = kPageBytes - kSealBytes;
// SQLite reads the first bytes of a database alone, without a lock; what it finds there is checked
// when it reads the page.
constexpr int kLeastChecked = 512;

// Sizes and places in the write-ahead log.
constexpr int kLogHeader = 32;
constexpr int kFrameHeader = 24;
constexpr int kFrame = kFrameHeader + kPageBytes;
constexpr int kSum = 8;     // the last bytes of either header
constexpr int kSummed = 8;  // the first bytes of a frame's header

thread_local std::string found_damage;

int Damage(const std::string& path, std::string_view what) {
  found_damage =
      fmt::format("{} is damaged: {} does not have its checksum; {}", path, what, kLedgerMend);
  return SQLITE_IOERR_DATA;
}

class DatabaseFile : public ForwardingFile {
 public:
  DatabaseFile(OpenSqliteFile real, std::string path)
      : ForwardingFile(std::move(real)), path_(std::move(path)) {}

  int Read(void* to, int size, sqlite3_int64 offset) override {
    if (size < kLeastChecked) return ForwardingFile::Read(to, size, offset);
    const sqlite3_int64 within = offset % kPageBytes;
    std::array<char, kPageBytes> page;
    if (within + size > kPageBytes) return SQLITE_IOERR_READ;
    const int code = ForwardingFile::Read(page.data(), kPageBytes, offset - within);
    if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) return code;
    std::memcpy(to, page.data() + within, static_cast<std::size_t>(size));
    if (code != SQLITE_OK) return code;  // behind the end of the file
    std::uint32_t seal = 0;
    std::memcpy(&seal, page.data() + kSealedBytes, kSealBytes);
    const std::uint32_t number = NumberAt(offset);
    if (seal == SealOf(page.data(), number)) return SQLITE_OK;
    return Damage(path_, fmt::format("page {}", number));
  }

  int Write(const void* from, int size, sqlite3_int64 offset) override {
    if (size != kPageBytes || offset % kPageBytes != 0) return SQLITE_IOERR_WRITE;
    std::array<char, kPageBytes> page;
    std::memcpy(page.data(), from, kSealedBytes);
    const std::uint32_t seal = SealOf(page.data(), NumberAt(offset));
    std::memcpy(page.data() + kSealedBytes, &seal, kSealBytes);
    return ForwardingFile::Write(page.data(), kPageBytes, offset);
  }

 private:
  static std::uint32_t NumberAt(sqlite3_int64 offset) {
    return static_cast<std::uint32_t>(offset / kPageBytes + 1);
  }

  const std::string path_;
};

// The running sum of the log: each frame's goes on from the one before.
struct LogSum {
  std::array<std::uint32_t, 2> sums;

  void Add(const char* bytes, int size) {
    for (int i = 0; i < size; i += 8) {
      std::array<std::uint32_t, 2> words;
      std::memcpy(words.data(), bytes + i, sizeof words);
      sums[0] += words[0] + sums[1];
      sums[1] += words[1] + sums[0];
    }
  }

  // As it is stored, with the high byte first.
  void Load(const char* stored) {
    std::memcpy(sums.data(), stored, sizeof sums);
    for (std::uint32_t& sum : sums) sum = __builtin_bswap32(sum);
  }

  bool operator==(const LogSum&) const = default;
};

class LogFile : public ForwardingFile {
 public:
  LogFile(OpenSqliteFile real, std::string path)
      : ForwardingFile(std::move(real)), path_(std::move(path)) {}

  // SQLite reads whole frames when it recovers the log, and checks them itself.
  int Read(void* to, int size, sqlite3_int64 offset) override {
    const int code = ForwardingFile::Read(to, size, offset);
    const sqlite3_int64 frame = offset - kFrameHeader;
    if (code != SQLITE_OK || size != kPageBytes || (frame - kLogHeader) % kFrame != 0) return code;
    std::array<char, kSum> before;
    std::array<char, kFrameHeader> header;
    const sqlite3_int64 end_of_header_before =
        frame == kLogHeader ? frame : frame - kFrame + kFrameHeader;
    if (ForwardingFile::Read(before.data(), kSum, end_of_header_before - kSum) != SQLITE_OK ||
        ForwardingFile::Read(header.data(), kFrameHeader, frame) != SQLITE_OK)
      return SQLITE_IOERR_READ;
    LogSum sum, stored;
    sum.Load(before.data());
    sum.Add(header.data(), kSummed);
    sum.Add(static_cast<const char*>(to), kPageBytes);
    stored.Load(header.data() + kFrameHeader - kSum);
    if (sum == stored) return SQLITE_OK;
    return Damage(path_, fmt::format("frame {}", (frame - kLogHeader) / kFrame + 1));
  }

 private:
  const std::string path_;
};

class CheckedLayer : public SqliteLayer {
 public:
  CheckedLayer() : SqliteLayer(kName, Use::kByName) {}

  int Open(sqlite3_filename name, int flags, int* out_flags,
           std::unique_ptr<SqliteFile>& file) override {
    OpenSqliteFile real;
    const int code = OpenBelow(name, flags, out_flags, real);
    if (code != SQLITE_OK) return code;
    if ((flags & SQLITE_OPEN_MAIN_DB) != 0)
      file = std::make_unique<DatabaseFile>(std::move(real), name);
    else if ((flags & SQLITE_OPEN_WAL) != 0)
      file = std::make_unique<LogFile>(std::move(real), name);
    else
      file = std::make_unique<ForwardingFile>(std::move(real));
    return SQLITE_OK;
  }
};

}  // namespace

std::uint32_t SealOf(const char* page, std::uint32_t number) {
  return static_cast<std::uint32_t>(
      crc32_z(number, reinterpret_cast<const Bytef*>(page), kSealedBytes));
}

const char* CheckedFiles() {
  static const auto& layer = *new CheckedLayer();  // databases may outlive every static object
  static_cast<void>(layer);
  return kName;
}

std::string TakeDamage() { return std::exchange(found_damage, {}); }

}  // namespace buttress
