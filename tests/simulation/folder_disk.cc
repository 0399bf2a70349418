#include "tests/simulation/folder_disk.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <fstream>

#include "lib/base/report/check.h"
#include "tests/simulation/learner/learner_disk.h"
#include "tests/simulation/seams.h"
#include "tests/simulation/standby/standby_disk.h"

namespace buttress::simulation {
namespace {

namespace fs = std::filesystem;

FolderDisk* folder_disk = nullptr;  // the one that lives

bool IsSegment(const std::string& path) { return path.ends_with(".seg"); }

int Answer(SimulatedDisk::Answer answer) {
  if (answer == SimulatedDisk::Answer::kDone) return 0;
  errno = answer == SimulatedDisk::Answer::kNoRoom ? ENOSPC : EIO;
  return -1;
}

// Returns the standby's disk if the file is on it.
StandbyDisk* OfStandby(int descriptor) {
  StandbyDisk* const standby = StandbyDisk::Find();
  return standby != nullptr && standby->Has(descriptor) ? standby : nullptr;
}

// Returns the learner's disk if the file is on it.
LearnerDisk* OfLearner(const char* path) {
  LearnerDisk* const learner = LearnerDisk::Find();
  return learner != nullptr && learner->Owns(path) ? learner : nullptr;
}

}  // namespace

// What the linker calls instead of the system calls.
extern "C" {
int __wrap_open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
  va_end(rest);
  if (StandbyDisk* const standby = StandbyDisk::Find(); standby != nullptr && standby->Owns(path))
    return standby->Open(path, flags, mode);
  if (LearnerDisk* const learner = OfLearner(path)) return learner->Open(path, flags, mode);
  if (folder_disk == nullptr || !folder_disk->Owns(path)) return __real_open(path, flags, mode);
  return folder_disk->Open(path, flags, mode);
}

int __wrap_close(int descriptor) {
  Pass(Seam::kClose);
  if (folder_disk != nullptr) folder_disk->Close(descriptor);
  if (StandbyDisk* const standby = StandbyDisk::Find()) standby->Close(descriptor);
  if (LearnerDisk* const learner = LearnerDisk::Find()) learner->Close(descriptor);
  return __real_close(descriptor);
}

ssize_t __wrap_write(int descriptor, const void* from, size_t size) {
  Pass(Seam::kPlainWrite);
  LearnerDisk* const learner = LearnerDisk::Find();
  if (learner == nullptr || !learner->Has(descriptor)) return __real_write(descriptor, from, size);
  return learner->Write(descriptor, {static_cast<const char*>(from), size});
}

ssize_t __wrap_pwrite(int descriptor, const void* from, size_t size, off_t offset) {
  StandbyDisk* const standby = OfStandby(descriptor);
  if (standby == nullptr) return __real_pwrite(descriptor, from, size, offset);
  return standby->Write(descriptor, {static_cast<const char*>(from), size}, offset);
}

ssize_t __wrap_pwritev(int descriptor, const iovec* parts, int count, off_t offset) {
  if (folder_disk == nullptr || !folder_disk->Has(descriptor))
    return __real_pwritev(descriptor, parts, count, offset);
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return folder_disk->Write(descriptor, bytes, offset);
}

int __wrap_ftruncate(int descriptor, off_t size) {
  if (StandbyDisk* const standby = OfStandby(descriptor))
    return standby->Truncate(descriptor, size);
  if (folder_disk == nullptr || !folder_disk->Has(descriptor))
    return __real_ftruncate(descriptor, size);
  return folder_disk->Truncate(descriptor, size);
}

int __wrap_fdatasync(int descriptor) {
  if (folder_disk == nullptr) return __real_fdatasync(descriptor);
  return folder_disk->Has(descriptor) ? folder_disk->Sync(descriptor) : 0;
}

// The only other descriptors that the code under test syncs are those of folders.
int __wrap_fsync(int descriptor) {
  if (StandbyDisk* const standby = OfStandby(descriptor)) return standby->Sync(descriptor);
  if (LearnerDisk* const learner = LearnerDisk::Find(); learner && learner->Has(descriptor))
    return learner->Sync(descriptor);
  if (folder_disk == nullptr) return __real_fsync(descriptor);
  return folder_disk->Has(descriptor) ? folder_disk->SyncByName(descriptor) : 0;
}

int __wrap_rename(const char* from, const char* to) {
  if (LearnerDisk* const learner = OfLearner(from)) return learner->Rename(from, to);
  if (folder_disk == nullptr || !folder_disk->Owns(from)) return __real_rename(from, to);
  return folder_disk->Rename(from, to);
}

int __wrap_unlink(const char* path) {
  if (LearnerDisk* const learner = OfLearner(path)) return learner->Unlink(path);
  if (folder_disk == nullptr || !folder_disk->Owns(path)) return __real_unlink(path);
  return folder_disk->Unlink(path);
}
}

FolderDisk::FolderDisk(std::uint64_t seed, std::string folder, const Lies& lies)
    : folder_(std::move(folder)),
      lies_(lies),
      disk_(seed, lies.syncs ? SimulatedDisk::Syncs::kIgnored : SimulatedDisk::Syncs::kKeep),
      dice_(seed, "folder disk") {
  BUTTRESS_CHECK(folder_disk == nullptr, "one disk lives at a time");
  folder_disk = this;
}

FolderDisk::~FolderDisk() { folder_disk = nullptr; }

void FolderDisk::ShowDatabase() {
  for (const char* name : {"/ledger.db", "/ledger.db-wal"}) ShowFile(folder_ + name);
}

void FolderDisk::ShowFile(const std::string& path) {
  const auto file = disk_.files().find(path);
  if (file != disk_.files().end() && !file->second.seen.empty()) {
    WriteReal(path, file->second.seen);
  } else {
    __real_unlink(path.c_str());
  }
}

void FolderDisk::ForgetDeleted() {
  std::erase_if(disk_.files(),
                [](const auto& file) { return IsSegment(file.first) && !fs::exists(file.first); });
}

void FolderDisk::HideDatabase() {
  for (const char* name : {"/ledger.db", "/ledger.db-wal"}) __real_unlink((folder_ + name).c_str());
}

void FolderDisk::WriteReal(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

int FolderDisk::Open(const char* path, int flags, unsigned mode) {
  Pass(Seam::kOpen);
  const bool makes = (flags & O_CREAT) != 0;
  const bool fresh = makes && IsSegment(path);
  if (fresh && Answer(disk_.Apply(disk_.files()[path], {0, "", true})) != 0) return -1;
  if (IsArchive(path)) ShowFile(path);
  const int descriptor = __real_open(path, flags, mode);
  if (descriptor < 0) return descriptor;
  open_[descriptor] = path;
  if (fresh) nameless_.insert(path);
  return descriptor;
}

long FolderDisk::Write(int descriptor, const std::string& bytes, std::int64_t offset) {
  Pass(Seam::kWrite);
  const std::string& path = open_.at(descriptor);
  // A disk may take a part of what it is given.
  const std::size_t size =
      bytes.size() > 1 && dice_.Chance(10) ? 1 + dice_.Below(bytes.size() - 1) : bytes.size();
  const SimulatedDisk::Change change = {static_cast<std::uint64_t>(offset), bytes.substr(0, size),
                                        false};
  if (Answer(disk_.Apply(disk_.files()[path], change)) != 0) return -1;
  const long written = ::pwrite(descriptor, change.bytes.data(), size, offset);
  return lies_.short_writes && written > 0 ? static_cast<long>(bytes.size()) : written;
}

int FolderDisk::Truncate(int descriptor, std::int64_t size) {
  Pass(Seam::kTruncate);
  const SimulatedDisk::Change change = {static_cast<std::uint64_t>(size), "", true};
  if (Answer(disk_.Apply(disk_.files()[open_.at(descriptor)], change)) != 0) return -1;
  return __real_ftruncate(descriptor, size);
}

int FolderDisk::Sync(int descriptor) {
  Pass(Seam::kSync);
  if (lies_.payload_syncs) return 0;
  return Answer(disk_.Sync(disk_.files()[open_.at(descriptor)]));
}

int FolderDisk::SyncByName(int descriptor) {
  Pass(Seam::kFolderSync);
  const std::string& path = open_.at(descriptor);
  if (IsArchive(path)) return lies_.archive_syncs ? 0 : Answer(disk_.Sync(disk_.files()[path]));
  if (disk_.killed()) return Answer(SimulatedDisk::Answer::kFailed);
  if (path == folder_ + "/archive") {
    if (!lies_.archive_names) renamed_.clear();
    return 0;
  }
  if (lies_.folder_syncs) return 0;
  nameless_.clear();
  deleted_.clear();
  return 0;
}

int FolderDisk::Unlink(const char* path) {
  Pass(Seam::kUnlink);
  if (IsArchive(path)) return UnlinkArchive(path);
  if (const auto file = disk_.files().find(path); file != disk_.files().end()) {
    const std::string durable = file->second.durable;
    if (Answer(disk_.Remove(path)) != 0) return -1;
    deleted_[path] = durable;
    nameless_.erase(path);
  }
  return __real_unlink(path);
}

void FolderDisk::FailPower() {
  SetAway(false);
  for (const std::string& path : nameless_) {
    if (dice_.Chance(50)) continue;
    disk_.files().erase(path);
    __real_unlink(path.c_str());
  }
  nameless_.clear();
  for (const auto& [path, content] : deleted_) {
    if (!disk_.files().contains(path) && dice_.Chance(50))
      disk_.files()[path] = {content, content, {}};
  }
  deleted_.clear();
  LoseNames();
  disk_.FailPower();
  for (const auto& [path, file] : disk_.files()) {
    if (IsSegment(path)) WriteReal(path, file.seen);
    if (IsArchive(path)) ShowFile(path);
  }
}

FolderDisk::Copy FolderDisk::Files() const {
  Copy copy;
  for (const auto& [path, file] : disk_.files()) copy[path] = file.seen;
  return copy;
}

void FolderDisk::PutBack(const Copy& copy) {
  SetAway(false);
  nameless_.clear();
  deleted_.clear();
  renamed_.clear();
  for (const auto& [path, file] : disk_.files())
    if (IsSegment(path) || IsArchive(path)) __real_unlink(path.c_str());
  disk_.files().clear();
  // A copy has no lock, which names the last transaction that a process acknowledged.
  __real_unlink((folder_ + "/ledger.db.lock").c_str());
  for (const auto& [path, content] : copy) {
    disk_.files()[path] = {content, content, {}};
    if (IsSegment(path)) WriteReal(path, content);
    if (IsArchive(path)) ShowFile(path);
  }
}

bool FolderDisk::Flip(const std::string& path, std::uint64_t at) {
  const auto found = disk_.files().find(path);
  if (found == disk_.files().end() || at >= found->second.seen.size() ||
      at >= found->second.durable.size())
    return false;
  for (std::string* content : {&found->second.seen, &found->second.durable})
    (*content)[at] = static_cast<char>((*content)[at] ^ 0x10);
  const std::string real =
      (away_ ? Payloads() + ".away" : Payloads()) + path.substr(Payloads().size());
  const int descriptor = __real_open(real.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool flipped =
      ::pwrite(descriptor, &found->second.seen[at], 1, static_cast<off_t>(at)) == 1;
  __real_close(descriptor);
  return flipped;
}

void FolderDisk::SetAway(bool away) {
  if (away == away_ || !fs::exists(away ? Payloads() : Payloads() + ".away")) return;
  fs::rename(away ? Payloads() : Payloads() + ".away", away ? Payloads() + ".away" : Payloads());
  away_ = away;
}

std::uint64_t FolderDisk::UsedBytes() {
  std::uint64_t bytes = 0;
  for (const auto& [path, file] : disk_.files()) bytes += file.seen.size();
  return bytes;
}

}  // namespace buttress::simulation
