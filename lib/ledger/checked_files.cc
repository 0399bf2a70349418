#include "lib/ledger/checked_files.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "lib/ledger/checked_log.h"
#include "lib/ledger/sqlite_layer.h"

namespace buttress {
namespace {

constexpr char kName[] = "checked";
constexpr int kSealedBytes = kPageBytes - kSealBytes;
// SQLite reads the first bytes of a database alone, without a lock; what it finds there is checked
// when it reads the page.
constexpr int kLeastChecked = 512;

thread_local std::string found_damage;

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
    return WrongChecksum(path_, fmt::format("page {}", number));
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
      file = CheckedLog(std::move(real), name);
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

int Damage(const std::string& path, std::string_view fault) {
  found_damage = fmt::format("{} is damaged: {}; {}", path, fault, kLedgerMend);
  return SQLITE_IOERR_DATA;
}

int WrongChecksum(const std::string& path, std::string_view what) {
  return Damage(path, fmt::format("{} does not have its checksum", what));
}

std::string TakeDamage() { return std::exchange(found_damage, {}); }

}  // namespace buttress
