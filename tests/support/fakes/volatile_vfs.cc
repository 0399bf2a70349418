#include "tests/support/fakes/volatile_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include "lib/base/os/failpoint.h"
#include "lib/base/report/check.h"

namespace buttress {
namespace {

constexpr int kKept = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL;

sqlite3_vfs* disk = nullptr;  // the default layer

// What the process sees of a file, and which bytes of it the disk lacks.
struct Image {
  std::string bytes;
  std::map<std::size_t, std::size_t> dirty;  // size by offset
};

struct File {
  sqlite3_file base;
  Image* image;        // null for a temporary file
  sqlite3_file* real;  // behind this struct
};

File& Of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

sqlite3_file* Real(sqlite3_file* file) { return Of(file).real; }

int Close(sqlite3_file* file) {
  delete Of(file).image;
  return Real(file)->pMethods->xClose(Real(file));
}

int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  const std::string& bytes = Of(file).image->bytes;
  const auto begin = std::min(static_cast<std::size_t>(offset), bytes.size());
  const auto count = std::min(static_cast<std::size_t>(size), bytes.size() - begin);
  std::memcpy(to, bytes.data() + begin, count);
  std::memset(static_cast<char*>(to) + count, 0, static_cast<std::size_t>(size) - count);
  return count == static_cast<std::size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int Write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  if (!PassFailpoint("sqlite_write")) return SQLITE_IOERR_WRITE;
  Image& image = *Of(file).image;
  const auto begin = static_cast<std::size_t>(offset), count = static_cast<std::size_t>(size);
  if (image.bytes.size() < begin + count) image.bytes.resize(begin + count);
  std::memcpy(image.bytes.data() + begin, from, count);
  std::size_t& dirty = image.dirty[begin];
  dirty = std::max(dirty, count);
  return SQLITE_OK;
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (!PassFailpoint("sqlite_truncate")) return SQLITE_IOERR_TRUNCATE;
  Of(file).image->bytes.resize(static_cast<std::size_t>(size));
  return SQLITE_OK;
}

int Sync(sqlite3_file* file, int flags) {
  if (!PassFailpoint("sqlite_sync")) return SQLITE_IOERR_FSYNC;
  Image& image = *Of(file).image;
  sqlite3_file* const real = Real(file);
  for (const auto& [offset, size] : image.dirty) {
    if (offset >= image.bytes.size()) continue;
    const auto count = std::min(size, image.bytes.size() - offset);
    const int code =
        real->pMethods->xWrite(real, image.bytes.data() + offset, static_cast<int>(count),
                               static_cast<sqlite3_int64>(offset));
    if (code != SQLITE_OK) return code;
  }
  image.dirty.clear();
  const int cut = real->pMethods->xTruncate(real, static_cast<sqlite3_int64>(image.bytes.size()));
  if (cut != SQLITE_OK) return cut;
  const int code = real->pMethods->xSync(real, flags);
  Failpoint("sqlite_synced");
  return code;
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(Of(file).image->bytes.size());
  return SQLITE_OK;
}

int Lock(sqlite3_file* file, int level) { return Real(file)->pMethods->xLock(Real(file), level); }

int Unlock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xUnlock(Real(file), level);
}

int CheckReservedLock(sqlite3_file* file, int* out) {
  return Real(file)->pMethods->xCheckReservedLock(Real(file), out);
}

// A hint of the size would let the real file grow.
int FileControl(sqlite3_file* file, int operation, void* argument) {
  if (operation == SQLITE_FCNTL_SIZE_HINT) return SQLITE_OK;
  return Real(file)->pMethods->xFileControl(Real(file), operation, argument);
}

int SectorSize(sqlite3_file* file) { return Real(file)->pMethods->xSectorSize(Real(file)); }

int DeviceCharacteristics(sqlite3_file* file) {
  return Real(file)->pMethods->xDeviceCharacteristics(Real(file));
}

int ShmMap(sqlite3_file* file, int page, int size, int extend, volatile void** out) {
  return Real(file)->pMethods->xShmMap(Real(file), page, size, extend, out);
}

int ShmLock(sqlite3_file* file, int offset, int count, int flags) {
  return Real(file)->pMethods->xShmLock(Real(file), offset, count, flags);
}

void ShmBarrier(sqlite3_file* file) { Real(file)->pMethods->xShmBarrier(Real(file)); }

int ShmUnmap(sqlite3_file* file, int deletes) {
  return Real(file)->pMethods->xShmUnmap(Real(file), deletes);
}

const sqlite3_io_methods kMethods = {2,
                                     Close,
                                     Read,
                                     Write,
                                     Truncate,
                                     Sync,
                                     FileSize,
                                     Lock,
                                     Unlock,
                                     CheckReservedLock,
                                     FileControl,
                                     SectorSize,
                                     DeviceCharacteristics,
                                     ShmMap,
                                     ShmLock,
                                     ShmBarrier,
                                     ShmUnmap,
                                     nullptr,
                                     nullptr};

Image* ImageOf(sqlite3_file* real) {
  sqlite3_int64 size = 0;
  BUTTRESS_CHECK(real->pMethods->xFileSize(real, &size) == SQLITE_OK, "the file has a size");
  auto* const image = new Image{std::string(static_cast<std::size_t>(size), '\0'), {}};
  if (size > 0) {
    BUTTRESS_CHECK(
        real->pMethods->xRead(real, image->bytes.data(), static_cast<int>(size), 0) == SQLITE_OK,
        "the file can be read");
  }
  return image;
}

int Open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* out, int flags, int* out_flags) {
  File& file = *new (out) File{};
  file.real = reinterpret_cast<sqlite3_file*>(&file + 1);
  const int code = disk->xOpen(disk, name, file.real, flags, out_flags);
  if (code != SQLITE_OK) return code;
  BUTTRESS_CHECK((flags & kKept) != 0, "a ledger has no temporary files");
  file.image = ImageOf(file.real);
  file.base.pMethods = &kMethods;
  return SQLITE_OK;
}

}  // namespace

void UseVolatileFiles() {
  disk = sqlite3_vfs_find(nullptr);
  static sqlite3_vfs layer = *disk;
  layer.szOsFile = static_cast<int>(sizeof(File)) + disk->szOsFile;
  layer.zName = "volatile";
  layer.pNext = nullptr;
  layer.xOpen = Open;
  BUTTRESS_CHECK(sqlite3_vfs_register(&layer, /*makeDflt=*/1) == SQLITE_OK, "the layer is known");
}

}  // namespace buttress
