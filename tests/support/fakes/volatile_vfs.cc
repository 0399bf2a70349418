#include "tests/support/fakes/volatile_vfs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/os/failpoint.h"
#include "lib/base/report/check.h"
#include "lib/ledger/sqlite_layer.h"

namespace buttress {
namespace {

constexpr int kKept = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL;

// What the process sees of a file, and which bytes of it the disk lacks.
class VolatileFile : public ForwardingFile {
 public:
  explicit VolatileFile(OpenSqliteFile real) : ForwardingFile(std::move(real)) {
    sqlite3_int64 size = 0;
    BUTTRESS_CHECK(ForwardingFile::FileSize(&size) == SQLITE_OK, "the file has a size");
    bytes_.resize(static_cast<std::size_t>(size));
    if (size == 0) return;
    BUTTRESS_CHECK(ForwardingFile::Read(bytes_.data(), static_cast<int>(size), 0) == SQLITE_OK,
                   "the file can be read");
  }

  int Read(void* to, int size, sqlite3_int64 offset) override {
    const auto begin = std::min(static_cast<std::size_t>(offset), bytes_.size());
    const auto count = std::min(static_cast<std::size_t>(size), bytes_.size() - begin);
    std::memcpy(to, bytes_.data() + begin, count);
    std::memset(static_cast<char*>(to) + count, 0, static_cast<std::size_t>(size) - count);
    return count == static_cast<std::size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
  }

  int Write(const void* from, int size, sqlite3_int64 offset) override {
    if (!PassFailpoint("sqlite_write")) return SQLITE_IOERR_WRITE;
    const auto begin = static_cast<std::size_t>(offset), count = static_cast<std::size_t>(size);
    if (bytes_.size() < begin + count) bytes_.resize(begin + count);
    std::memcpy(bytes_.data() + begin, from, count);
    std::size_t& dirty = dirty_[begin];
    dirty = std::max(dirty, count);
    return SQLITE_OK;
  }

  int Truncate(sqlite3_int64 size) override {
    if (!PassFailpoint("sqlite_truncate")) return SQLITE_IOERR_TRUNCATE;
    bytes_.resize(static_cast<std::size_t>(size));
    return SQLITE_OK;
  }

  int Sync(int flags) override {
    if (!PassFailpoint("sqlite_sync")) return SQLITE_IOERR_FSYNC;
    for (const auto& [offset, size] : dirty_) {
      if (offset >= bytes_.size()) continue;
      const auto count = std::min(size, bytes_.size() - offset);
      const int code = ForwardingFile::Write(bytes_.data() + offset, static_cast<int>(count),
                                             static_cast<sqlite3_int64>(offset));
      if (code != SQLITE_OK) return code;
    }
    dirty_.clear();
    const int cut = ForwardingFile::Truncate(static_cast<sqlite3_int64>(bytes_.size()));
    if (cut != SQLITE_OK) return cut;
    const int code = ForwardingFile::Sync(flags);
    Failpoint("sqlite_synced");
    return code;
  }

  int FileSize(sqlite3_int64* size) override {
    *size = static_cast<sqlite3_int64>(bytes_.size());
    return SQLITE_OK;
  }

  // A hint of the size would let the real file grow.
  int FileControl(int operation, void* argument) override {
    return operation == SQLITE_FCNTL_SIZE_HINT ? SQLITE_OK
                                               : ForwardingFile::FileControl(operation, argument);
  }

 private:
  std::string bytes_;
  std::map<std::size_t, std::size_t> dirty_;  // size by offset
};

class VolatileLayer : public SqliteLayer {
 public:
  VolatileLayer() : SqliteLayer("volatile", Use::kDefault) {}

  int Open(sqlite3_filename name, int flags, int* out_flags,
           std::unique_ptr<SqliteFile>& file) override {
    BUTTRESS_CHECK((flags & kKept) != 0, "a ledger has no temporary files");
    OpenSqliteFile real;
    const int code = OpenBelow(name, flags, out_flags, real);
    if (code == SQLITE_OK) file = std::make_unique<VolatileFile>(std::move(real));
    return code;
  }
};

}  // namespace

void UseVolatileFiles() {
  static const auto& layer = *new VolatileLayer();
  static_cast<void>(layer);
}

}  // namespace buttress
