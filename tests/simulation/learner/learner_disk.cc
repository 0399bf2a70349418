#include "tests/simulation/learner/learner_disk.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>

#include "lib/base/report/check.h"
#include "tests/simulation/seams.h"

namespace buttress::simulation {
namespace {

namespace fs = std::filesystem;

LearnerDisk* learner_disk = nullptr;  // the one that lives

ino_t NodeOf(const std::string& path) {
  struct stat info {};

  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

int Returned(SimulatedDisk::Answer answer) {
  if (answer == SimulatedDisk::Answer::kDone) return 0;
  errno = EIO;
  return -1;
}

}  // namespace

LearnerDisk::LearnerDisk(std::uint64_t seed, std::string folder, const Lies& lies)
    : folder_(std::move(folder)),
      lies_(lies),
      disk_(seed, lies.files ? SimulatedDisk::Syncs::kIgnored : SimulatedDisk::Syncs::kKeep,
            SimulatedDisk::Under::kTest),
      dice_(seed, "learner disk"),
      trees_(1) {
  BUTTRESS_CHECK(learner_disk == nullptr, "one disk of a learner lives at a time");
  learner_disk = this;
}

LearnerDisk::~LearnerDisk() { learner_disk = nullptr; }

LearnerDisk* LearnerDisk::Find() { return learner_disk; }

std::string LearnerDisk::NewName() { return fmt::format("{:06}", ++made_); }

LearnerDisk::Tree LearnerDisk::Look() const {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    const std::string path = entry.path().string();
    const auto name = names_.find(NodeOf(path));
    const bool is_file = entry.is_regular_file() && name != names_.end();
    tree[path.substr(folder_.size() + 1)] = is_file ? name->second : "";
  }
  return tree;
}

// A folder comes before what is in it.
void LearnerDisk::Become(const Tree& tree) {
  for (const auto& entry : fs::directory_iterator(folder_)) fs::remove_all(entry.path());
  names_.clear();
  for (const auto& [path, name] : tree) {
    const std::string full = folder_ + "/" + path;
    if (name.empty()) {
      fs::create_directory(full);
    } else {
      std::ofstream(full, std::ios::binary | std::ios::trunc) << disk_.files()[name].seen;
      names_[NodeOf(full)] = name;
    }
  }
  trees_ = {tree};
}

void LearnerDisk::FailPower() {
  if (power_fails_) power_fails_();
  trees_.push_back(Look());
  const Tree tree = trees_[dice_.Below(trees_.size())];
  disk_.FailPower();
  Become(tree);
}

LearnerDisk::Copy LearnerDisk::Files() const {
  Copy copy;
  for (const auto& [path, name] : Look())
    if (!name.empty()) copy[path] = disk_.files().at(name).seen;
  return copy;
}

void LearnerDisk::PutBack(const Copy& copy) {
  Tree tree;
  for (const auto& [path, content] : copy) {
    if (const std::size_t slash = path.find('/'); slash != std::string::npos)
      tree[path.substr(0, slash)];
    disk_.files()[tree[path] = NewName()] = {content, content, {}};
  }
  Become(tree);
  disk_.Restart();
}

void LearnerDisk::Flip(const std::string& path, std::uint64_t at) {
  SimulatedDisk::File& file = disk_.files()[names_[NodeOf(path)]];
  if (file.seen.empty()) return;
  const auto byte = static_cast<char>(file.seen[at % file.seen.size()] ^ 0x10);
  file.seen[at % file.seen.size()] = byte;
  file = {file.seen, file.seen, {}};
  std::fstream real(path, std::ios::binary | std::ios::in | std::ios::out);
  real.seekp(static_cast<std::streamoff>(at % file.seen.size()));
  real.put(byte);
}

void LearnerDisk::Remove(const std::string& path) {
  fs::remove_all(path);
  trees_ = {Look()};
}

int LearnerDisk::Open(const char* path, int flags, unsigned mode) {
  const ino_t before = NodeOf(path);
  const bool is_new = before == 0 && (flags & O_CREAT) != 0;
  const bool cuts = before != 0 && (flags & O_TRUNC) != 0;
  if (is_new &&
      Returned(disk_.killed() ? SimulatedDisk::Answer::kFailed : SimulatedDisk::Answer::kDone) != 0)
    return -1;
  const auto known = names_.find(before);
  if (cuts && known != names_.end() &&
      Returned(disk_.Apply(disk_.files()[known->second], {0, "", true})) != 0)
    return -1;
  const int descriptor = __real_open(path, flags, mode);
  if (descriptor < 0) return descriptor;
  if (fs::is_directory(path)) {
    open_[descriptor];
    return descriptor;
  }
  std::string& name = names_[NodeOf(path)];
  if (is_new || name.empty()) name = NewName();
  const std::uint64_t end = disk_.files()[name].seen.size();
  open_[descriptor] = {name, (flags & O_APPEND) != 0 ? end : 0};
  if (is_new) trees_.push_back(Look());
  return descriptor;
}

long LearnerDisk::Write(int descriptor, const std::string& bytes) {
  OpenFile& file = open_.at(descriptor);
  if (Returned(disk_.Apply(disk_.files()[file.name], {file.offset, bytes, false})) != 0) return -1;
  file.offset += bytes.size();
  return __real_write(descriptor, bytes.data(), bytes.size());
}

int LearnerDisk::Sync(int descriptor) {
  const std::string& name = open_.at(descriptor).name;
  if (!name.empty()) return Returned(disk_.Sync(disk_.files()[name]));
  if (disk_.killed()) return Returned(SimulatedDisk::Answer::kFailed);
  if (!lies_.names) trees_ = {Look()};
  return 0;
}

int LearnerDisk::Unlink(const char* path) {
  if (disk_.killed()) return Returned(SimulatedDisk::Answer::kFailed);
  const int unlinked = __real_unlink(path);
  if (unlinked == 0) trees_.push_back(Look());
  return unlinked;
}

int LearnerDisk::Rename(const char* from, const char* to) {
  // It is one of the calls before which a process may die.
  SimulatedDisk::File none;
  if (Returned(disk_.Apply(none, {})) != 0) return -1;
  const int renamed = __real_rename(from, to);
  if (renamed == 0) trees_.push_back(Look());
  return renamed;
}

}  // namespace buttress::simulation
