#include "lib/ledger/sqlite_layer.h"

#include <cstring>
#include <new>
#include <utility>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

// What SQLite has of an open file.
struct Handle {
  sqlite3_file base;
  SqliteFile* file;
};

SqliteFile& Of(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file)->file; }

SqliteLayer& LayerOf(sqlite3_vfs* layer) { return *static_cast<SqliteLayer*>(layer->pAppData); }

int Close(sqlite3_file* file) {
  delete reinterpret_cast<Handle*>(file)->file;
  return SQLITE_OK;
}

// The version has no memory-mapped reads, which no layer would see.
constexpr sqlite3_io_methods kMethods = {
    .iVersion = 2,
    .xClose = Close,
    .xRead = [](sqlite3_file* file, void* to, int size,
                sqlite3_int64 offset) { return Of(file).Read(to, size, offset); },
    .xWrite = [](sqlite3_file* file, const void* from, int size,
                 sqlite3_int64 offset) { return Of(file).Write(from, size, offset); },
    .xTruncate = [](sqlite3_file* file, sqlite3_int64 size) { return Of(file).Truncate(size); },
    .xSync = [](sqlite3_file* file, int flags) { return Of(file).Sync(flags); },
    .xFileSize = [](sqlite3_file* file, sqlite3_int64* size) { return Of(file).FileSize(size); },
    .xLock = [](sqlite3_file* file, int level) { return Of(file).Lock(level); },
    .xUnlock = [](sqlite3_file* file, int level) { return Of(file).Unlock(level); },
    .xCheckReservedLock = [](sqlite3_file* file,
                             int* out) { return Of(file).CheckReservedLock(out); },
    .xFileControl = [](sqlite3_file* file, int operation,
                       void* argument) { return Of(file).FileControl(operation, argument); },
    .xSectorSize = [](sqlite3_file* file) { return Of(file).SectorSize(); },
    .xDeviceCharacteristics = [](sqlite3_file* file) { return Of(file).DeviceCharacteristics(); },
    .xShmMap = [](sqlite3_file* file, int region, int size, int extend,
                  volatile void** out) { return Of(file).ShmMap(region, size, extend, out); },
    .xShmLock = [](sqlite3_file* file, int offset, int count,
                   int flags) { return Of(file).ShmLock(offset, count, flags); },
    .xShmBarrier = [](sqlite3_file* file) { Of(file).ShmBarrier(); },
    .xShmUnmap = [](sqlite3_file* file, int deletes) { return Of(file).ShmUnmap(deletes); },
    .xFetch = nullptr,
    .xUnfetch = nullptr};

int Open(sqlite3_vfs* layer, sqlite3_filename name, sqlite3_file* out, int flags, int* out_flags) {
  auto& handle = *new (out) Handle{};  // without methods SQLite does not close it
  std::unique_ptr<SqliteFile> file;
  const int code = LayerOf(layer).Open(name, flags, out_flags, file);
  if (code != SQLITE_OK) return code;
  handle.file = file.release();
  handle.base.pMethods = &kMethods;
  return SQLITE_OK;
}

}  // namespace

void CloseSqliteFile::operator()(sqlite3_file* file) const {
  if (file->pMethods != nullptr) file->pMethods->xClose(file);
  ::operator delete(file);
}

int ForwardingFile::Read(void* to, int size, sqlite3_int64 offset) {
  return real_->pMethods->xRead(real_.get(), to, size, offset);
}

int ForwardingFile::Write(const void* from, int size, sqlite3_int64 offset) {
  return real_->pMethods->xWrite(real_.get(), from, size, offset);
}

int ForwardingFile::Truncate(sqlite3_int64 size) {
  return real_->pMethods->xTruncate(real_.get(), size);
}

int ForwardingFile::Sync(int flags) { return real_->pMethods->xSync(real_.get(), flags); }

int ForwardingFile::FileSize(sqlite3_int64* size) {
  return real_->pMethods->xFileSize(real_.get(), size);
}

int ForwardingFile::Lock(int level) { return real_->pMethods->xLock(real_.get(), level); }

int ForwardingFile::Unlock(int level) { return real_->pMethods->xUnlock(real_.get(), level); }

int ForwardingFile::CheckReservedLock(int* out) {
  return real_->pMethods->xCheckReservedLock(real_.get(), out);
}

int ForwardingFile::FileControl(int operation, void* argument) {
  return real_->pMethods->xFileControl(real_.get(), operation, argument);
}

int ForwardingFile::SectorSize() { return real_->pMethods->xSectorSize(real_.get()); }

int ForwardingFile::DeviceCharacteristics() {
  return real_->pMethods->xDeviceCharacteristics(real_.get());
}

int ForwardingFile::ShmMap(int region, int size, int extend, volatile void** out) {
  return real_->pMethods->xShmMap(real_.get(), region, size, extend, out);
}

int ForwardingFile::ShmLock(int offset, int count, int flags) {
  return real_->pMethods->xShmLock(real_.get(), offset, count, flags);
}

void ForwardingFile::ShmBarrier() { real_->pMethods->xShmBarrier(real_.get()); }

int ForwardingFile::ShmUnmap(int deletes) {
  return real_->pMethods->xShmUnmap(real_.get(), deletes);
}

SqliteLayer::SqliteLayer(const char* name, Use use)
    : before_(sqlite3_vfs_find(nullptr)), use_(use), registered_(*before_) {
  registered_.szOsFile = static_cast<int>(sizeof(Handle));
  registered_.pNext = nullptr;
  registered_.zName = name;
  registered_.pAppData = this;
  registered_.xOpen = buttress::Open;
  registered_.xDelete = [](sqlite3_vfs* layer, const char* file, int sync_folder) {
    return LayerOf(layer).Delete(file, sync_folder);
  };
  registered_.xAccess = [](sqlite3_vfs* layer, const char* file, int flags, int* out) {
    return LayerOf(layer).Access(file, flags, out);
  };
  const int code = sqlite3_vfs_register(&registered_, use == Use::kDefault ? 1 : 0);
  BUTTRESS_CHECK(code == SQLITE_OK, "a layer of SQLite can be registered");
}

SqliteLayer::~SqliteLayer() {
  sqlite3_vfs_unregister(&registered_);
  if (use_ == Use::kDefault) sqlite3_vfs_register(before_, /*makeDflt=*/1);
}

int SqliteLayer::Delete(const char* name, int sync_folder) {
  return below().xDelete(&below(), name, sync_folder);
}

int SqliteLayer::Access(const char* name, int flags, int* out) {
  return below().xAccess(&below(), name, flags, out);
}

int SqliteLayer::OpenBelow(sqlite3_filename name, int flags, int* out_flags,
                           OpenSqliteFile& file) const {
  sqlite3_vfs& layer = below();
  const auto size = static_cast<std::size_t>(layer.szOsFile);
  file.reset(static_cast<sqlite3_file*>(std::memset(::operator new(size), 0, size)));
  return layer.xOpen(&layer, name, file.get(), flags, out_flags);
}

sqlite3_vfs& SqliteLayer::below() const {
  return use_ == Use::kDefault ? *before_ : *sqlite3_vfs_find(nullptr);
}

}  // namespace buttress
