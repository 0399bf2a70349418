// A layer of files under SQLite (https://www.sqlite.org/vfs.html) as two classes.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace buttress {

// An open file, which its destructor closes. The members are the calls of sqlite3_io_methods, with
// their meaning and their codes.
class SqliteFile {
 public:
  virtual ~SqliteFile() = default;
  virtual int Read(void* to, int size, sqlite3_int64 offset) = 0;
  virtual int Write(const void* from, int size, sqlite3_int64 offset) = 0;
  virtual int Truncate(sqlite3_int64 size) = 0;
  virtual int Sync(int flags) = 0;
  virtual int FileSize(sqlite3_int64* size) = 0;
  virtual int Lock(int level) = 0;
  virtual int Unlock(int level) = 0;
  virtual int CheckReservedLock(int* out) = 0;
  virtual int FileControl(int operation, void* argument) = 0;
  virtual int SectorSize() = 0;
  virtual int DeviceCharacteristics() = 0;
  virtual int ShmMap(int region, int size, int extend, volatile void** out) = 0;
  virtual int ShmLock(int offset, int count, int flags) = 0;
  virtual void ShmBarrier() = 0;
  virtual int ShmUnmap(int deletes) = 0;
};

struct CloseSqliteFile {
  void operator()(sqlite3_file* file) const;
};

using OpenSqliteFile = std::unique_ptr<sqlite3_file, CloseSqliteFile>;

// Passes every call to a file of another layer.
class ForwardingFile : public SqliteFile {
 public:
  explicit ForwardingFile(OpenSqliteFile real) : real_(std::move(real)) {}

  int Read(void* to, int size, sqlite3_int64 offset) override;
  int Write(const void* from, int size, sqlite3_int64 offset) override;
  int Truncate(sqlite3_int64 size) override;
  int Sync(int flags) override;
  int FileSize(sqlite3_int64* size) override;
  int Lock(int level) override;
  int Unlock(int level) override;
  int CheckReservedLock(int* out) override;
  int FileControl(int operation, void* argument) override;
  int SectorSize() override;
  int DeviceCharacteristics() override;
  int ShmMap(int region, int size, int extend, volatile void** out) override;
  int ShmLock(int offset, int count, int flags) override;
  void ShmBarrier() override;
  int ShmUnmap(int deletes) override;

 private:
  const OpenSqliteFile real_;
};

// A registered layer. Calls that it does not define go to the layer below: to the default one, or,
// if this is the default, to the one that was before.
class SqliteLayer {
 public:
  enum class Use : std::uint8_t { kByName, kDefault };

  // REQUIRES: `name` outlives the layer.
  SqliteLayer(const char* name, Use use);
  virtual ~SqliteLayer();
  SqliteLayer(const SqliteLayer&) = delete;
  SqliteLayer& operator=(const SqliteLayer&) = delete;

  // Opens a file and sets `out_flags`, unless it is null; `name` is null for a temporary file.
  virtual int Open(sqlite3_filename name, int flags, int* out_flags,
                   std::unique_ptr<SqliteFile>& file) = 0;
  virtual int Delete(const char* name, int sync_folder);
  virtual int Access(const char* name, int flags, int* out);

 protected:
  // Opens a file of the layer below.
  int OpenBelow(sqlite3_filename name, int flags, int* out_flags, OpenSqliteFile& file) const;

 private:
  sqlite3_vfs& below() const;

  sqlite3_vfs* const before_;  // the default layer before this one
  const Use use_;
  sqlite3_vfs registered_;
};

}  // namespace buttress
