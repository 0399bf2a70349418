#include "tests/support/fakes/simulated_disk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/report/check.h"
#include "lib/ledger/sqlite_layer.h"

namespace buttress {
namespace {

void Put(std::string& content, const SimulatedDisk::Change& change) {
  if (change.truncates) return content.resize(change.offset);
  content.resize(std::max<std::size_t>(content.size(), change.offset + change.bytes.size()));
  std::memcpy(content.data() + change.offset, change.bytes.data(), change.bytes.size());
}

int Code(SimulatedDisk::Answer answer, int failed) {
  if (answer == SimulatedDisk::Answer::kNoRoom) return SQLITE_FULL;
  return answer == SimulatedDisk::Answer::kDone ? SQLITE_OK : failed;
}

class SimulatedFile : public SqliteFile {
 public:
  SimulatedFile(SimulatedDisk& disk, SimulatedDisk::File& file) : disk_(disk), file_(file) {}

  int Read(void* to, int size, sqlite3_int64 offset) override {
    const std::string& seen = file_.seen;
    const auto begin = std::min(static_cast<std::size_t>(offset), seen.size());
    const auto count = std::min(static_cast<std::size_t>(size), seen.size() - begin);
    std::memcpy(to, seen.data() + begin, count);
    std::memset(static_cast<char*>(to) + count, 0, static_cast<std::size_t>(size) - count);
    return count == static_cast<std::size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
  }

  int Write(const void* from, int size, sqlite3_int64 offset) override {
    const std::string bytes(static_cast<const char*>(from), static_cast<std::size_t>(size));
    return Code(disk_.Apply(file_, {static_cast<std::uint64_t>(offset), bytes, false}),
                SQLITE_IOERR_WRITE);
  }

  int Truncate(sqlite3_int64 size) override {
    return Code(disk_.Apply(file_, {static_cast<std::uint64_t>(size), "", true}),
                SQLITE_IOERR_TRUNCATE);
  }

  int Sync(int) override { return Code(disk_.Sync(file_), SQLITE_IOERR_FSYNC); }

  int FileSize(sqlite3_int64* size) override {
    *size = static_cast<sqlite3_int64>(file_.seen.size());
    return SQLITE_OK;
  }

  int Lock(int) override { return SQLITE_OK; }

  int Unlock(int) override { return SQLITE_OK; }

  int CheckReservedLock(int* out) override {
    *out = 0;
    return SQLITE_OK;
  }

  int FileControl(int, void*) override { return SQLITE_NOTFOUND; }

  int SectorSize() override { return static_cast<int>(SimulatedDisk::kSectorBytes); }

  int DeviceCharacteristics() override { return 0; }

  int ShmMap(int region, int size, int extend, volatile void** out) override {
    auto& place = index_[region];
    if (place == nullptr && extend != 0)
      place = std::make_unique<std::string>(static_cast<std::size_t>(size), '\0');
    *out = place == nullptr ? nullptr : place->data();
    return SQLITE_OK;
  }

  int ShmLock(int, int, int) override { return SQLITE_OK; }

  void ShmBarrier() override {}

  int ShmUnmap(int) override {
    index_.clear();
    return SQLITE_OK;
  }

 private:
  SimulatedDisk& disk_;
  SimulatedDisk::File& file_;
  // Of the write-ahead log. It belongs to the process.
  std::map<int, std::unique_ptr<std::string>> index_;
};

}  // namespace

class SimulatedDisk::Layer : public SqliteLayer {
 public:
  explicit Layer(SimulatedDisk& disk) : SqliteLayer("simulated", Use::kDefault), disk_(disk) {}

  int Open(sqlite3_filename name, int flags, int* out_flags,
           std::unique_ptr<SqliteFile>& file) override {
    BUTTRESS_CHECK(name != nullptr, "a ledger has no temporary files");
    file = std::make_unique<SimulatedFile>(disk_, disk_.files()[name]);
    if (out_flags != nullptr) *out_flags = flags;
    return SQLITE_OK;
  }

  int Delete(const char* name, int) override {
    return Code(disk_.Remove(name), SQLITE_IOERR_DELETE);
  }

  // A file without bytes is none, as in SQLite's own layer.
  int Access(const char* name, int, int* out) override {
    const auto file = disk_.files().find(name);
    *out = file != disk_.files().end() && !file->second.seen.empty() ? 1 : 0;
    return SQLITE_OK;
  }

 private:
  SimulatedDisk& disk_;
};

bool SimulatedDisk::lives_ = false;

SimulatedDisk::SimulatedDisk(std::uint64_t seed, Syncs syncs, Under under)
    : random_({seed, HashText("disk")}), syncs_(syncs) {
  if (under == Under::kTest) return;
  BUTTRESS_CHECK(!std::exchange(lives_, true), "one disk lives at a time");
  layer_ = std::make_unique<Layer>(*this);
}

SimulatedDisk::~SimulatedDisk() {
  if (layer_) lives_ = false;
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
