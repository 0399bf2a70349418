#include "tests/support/fakes/simulated_disk.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

SimulatedDisk* simulated = nullptr;  // the one that lives

void Put(std::string& content, const SimulatedDisk::Change& change) {
  if (change.truncates) return content.resize(change.offset);
  content.resize(std::max<std::size_t>(content.size(), change.offset + change.bytes.size()));
  std::memcpy(content.data() + change.offset, change.bytes.data(), change.bytes.size());
}

// An open file. The index of the write-ahead log belongs to the process.
struct OpenFile {
  sqlite3_file base;
  SimulatedDisk::File* file;
  std::map<int, std::unique_ptr<std::string>>* index;
};

OpenFile& Of(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }

int Close(sqlite3_file* file) {
  delete Of(file).index;
  return SQLITE_OK;
}

int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  const std::string& seen = Of(file).file->seen;
  const auto begin = std::min(static_cast<std::size_t>(offset), seen.size());
  const auto count = std::min(static_cast<std::size_t>(size), seen.size() - begin);
  std::memcpy(to, seen.data() + begin, count);
  std::memset(static_cast<char*>(to) + count, 0, static_cast<std::size_t>(size) - count);
  return count == static_cast<std::size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int Code(SimulatedDisk::Answer answer, int failed) {
  if (answer == SimulatedDisk::Answer::kNoRoom) return SQLITE_FULL;
  return answer == SimulatedDisk::Answer::kDone ? SQLITE_OK : failed;
}

int Write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  const auto* const bytes = static_cast<const char*>(from);
  const auto answer =
      simulated->Apply(*Of(file).file, {static_cast<std::uint64_t>(offset),
                                        std::string(bytes, static_cast<std::size_t>(size)), false});
  return Code(answer, SQLITE_IOERR_WRITE);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  return Code(simulated->Apply(*Of(file).file, {static_cast<std::uint64_t>(size), "", true}),
              SQLITE_IOERR_TRUNCATE);
}

int Sync(sqlite3_file* file, int) {
  return Code(simulated->Sync(*Of(file).file), SQLITE_IOERR_FSYNC);
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(Of(file).file->seen.size());
  return SQLITE_OK;
}

int Lock(sqlite3_file*, int) { return SQLITE_OK; }

int CheckReservedLock(sqlite3_file*, int* out) {
  *out = 0;
  return SQLITE_OK;
}

int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }

int SectorSize(sqlite3_file*) { return static_cast<int>(SimulatedDisk::kSectorBytes); }

int DeviceCharacteristics(sqlite3_file*) { return 0; }

int ShmMap(sqlite3_file* file, int region, int size, int extend, volatile void** out) {
  auto& place = (*Of(file).index)[region];
  if (place == nullptr && extend != 0)
    place = std::make_unique<std::string>(static_cast<std::size_t>(size), '\0');
  *out = place == nullptr ? nullptr : place->data();
  return SQLITE_OK;
}

int ShmLock(sqlite3_file*, int, int, int) { return SQLITE_OK; }

void ShmBarrier(sqlite3_file*) {}

int ShmUnmap(sqlite3_file* file, int) {
  Of(file).index->clear();
  return SQLITE_OK;
}

const sqlite3_io_methods kMethods = {2,
                                     Close,
                                     Read,
                                     Write,
                                     Truncate,
                                     Sync,
                                     FileSize,
                                     Lock,
                                     Lock,
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

int Open(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* out, int flags, int* out_flags) {
  BUTTRESS_CHECK(name != nullptr, "a ledger has no temporary files");
  OpenFile& file = *new (out) OpenFile{};
  file.file = &simulated->files()[name];
  file.index = new std::map<int, std::unique_ptr<std::string>>;
  file.base.pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs*, const char* name, int) {
  return Code(simulated->Remove(name), SQLITE_IOERR_DELETE);
}

int Access(sqlite3_vfs*, const char* name, int, int* out) {
  *out = simulated->files().contains(name) ? 1 : 0;
  return SQLITE_OK;
}

sqlite3_vfs& Layer() {
  static sqlite3_vfs layer = [] {
    sqlite3_vfs made = *sqlite3_vfs_find(nullptr);
    made.szOsFile = static_cast<int>(sizeof(OpenFile));
    made.zName = "simulated";
    made.pNext = nullptr;
    made.xOpen = Open;
    made.xDelete = Delete;
    made.xAccess = Access;
    return made;
  }();
  return layer;
}

}  // namespace

SimulatedDisk::SimulatedDisk(std::uint64_t seed, Syncs syncs)
    : random_({seed, HashText("disk")}), syncs_(syncs) {
  BUTTRESS_CHECK(simulated == nullptr, "one disk lives at a time");
  simulated = this;
  sqlite3_vfs_register(&Layer(), /*makeDflt=*/1);
}

SimulatedDisk::~SimulatedDisk() {
  sqlite3_vfs_unregister(&Layer());
  simulated = nullptr;
}

bool SimulatedDisk::Lives() {
  if (!killed_ && left_ > 0 && --left_ == 0) {
    killed_ = true;
    Count(DiskFault::kKilled);
  }
  return !killed_;
}

SimulatedDisk::Answer SimulatedDisk::Apply(File& file, const Change& change) {
  if (!Lives()) return Answer::kFailed;
  std::uint64_t used = 0;
  for (const auto& [name, other] : files_) used += other.seen.size();
  const std::uint64_t end = change.offset + change.bytes.size();
  if (end > file.seen.size() && used + (end - file.seen.size()) > capacity_) {
    Count(DiskFault::kFull);
    return Answer::kNoRoom;
  }
  Put(file.seen, change);
  if (change.truncates) {
    file.unsynced.push_back(change);
    return Answer::kDone;
  }
  for (std::size_t done = 0; done < change.bytes.size();) {
    const std::uint64_t at = change.offset + done;
    const std::size_t size =
        std::min<std::size_t>(kSectorBytes - at % kSectorBytes, change.bytes.size() - done);
    file.unsynced.push_back({at, change.bytes.substr(done, size), false});
    done += size;
  }
  return Answer::kDone;
}

SimulatedDisk::Answer SimulatedDisk::Sync(File& file) {
  if (!Lives()) return Answer::kFailed;
  if (syncs_left_ > 0 && --syncs_left_ == 0) {
    Count(DiskFault::kSyncFailed);
    return Answer::kFailed;
  }
  if (syncs_ == Syncs::kIgnored) return Answer::kDone;
  for (const Change& change : file.unsynced) Put(file.durable, change);
  file.unsynced.clear();
  return Answer::kDone;
}

SimulatedDisk::Answer SimulatedDisk::Remove(const std::string& name) {
  if (!Lives()) return Answer::kFailed;
  files_.erase(name);
  return Answer::kDone;
}

void SimulatedDisk::Restart() {
  killed_ = false;
  left_ = 0;
  syncs_left_ = 0;
}

void SimulatedDisk::FailPower() {
  Count(DiskFault::kPowerFailed);
  for (auto& [name, file] : files_) {
    std::size_t kept = 0;
    const std::uint64_t percent = random_.Below(101);
    for (const Change& change : file.unsynced) {
      if (random_.Below(100) >= percent) continue;
      Put(file.durable, change);
      ++kept;
    }
    if (kept > 0 && kept < file.unsynced.size()) Count(DiskFault::kTorn);
    file.unsynced.clear();
    file.seen = file.durable;
  }
  Restart();
}

}  // namespace buttress
