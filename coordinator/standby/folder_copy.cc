#include "coordinator/standby/folder_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/ledger/segment_file.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr char kDatabase[] = "ledger.db";

Status ReadError(const std::string& path) {
  const std::string message = path + ": " + std::strerror(errno);
  return errno == ENOENT ? NotFound(message) : Unavailable(message);
}

// The whole archives in the run's folder.
std::vector<std::string> ArchiveNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(JoinPath(folder, "archive"), error)) {
    if (entry.path().extension() == ".db")
      names.push_back("archive/" + entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string FollowedSegment(std::uint64_t segment) { return SegmentPath("payloads", segment); }

// What the database and its log grow by is recorded, so their sizes of now suffice; a copy up to
// their end would run after a log that grows.
void FolderCopy::Begin(const SegmentBytes& segments) {
  Stop();
  newest_ = segments.empty() ? "" : FollowedSegment(segments.rbegin()->first);
  for (const std::string& name : ArchiveNames(folder_)) Add(name);
  for (const auto& [segment, bytes] : segments)
    parts_.push_back({FollowedSegment(segment), 0, bytes});
  for (const char* name : {kDatabase, "ledger.db-wal"}) Add(name);
}

void FolderCopy::Add(const std::string& name) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(JoinPath(folder_, name), error);
  if (!error) parts_.push_back({name, 0, bytes});
}

bool FolderCopy::Extend(const std::string& name, std::uint64_t from, std::uint64_t to) {
  if (done()) return false;
  const auto part = std::ranges::find(parts_, name, &Part::name);
  if (part == parts_.end()) {
    parts_.push_front({name, from, to});
    newest_ = std::max(newest_, name);
  } else {
    part->to = to;
  }
  return true;
}

Result<bool> FolderCopy::Next(FollowItem& item) {
  while (!done()) {
    Part& part = parts_.front();
    auto bytes = Read(part.name, part.from, part.to - part.from);
    if (!bytes.ok() && (bytes.status().code() != StatusCode::kNotFound || PayloadsAreAway()))
      return bytes.status();
    if (bytes.ok() && !bytes->empty()) {
      item = {v1::FILE_OPERATION_WRITE, part.name, part.from, *std::move(bytes)};
      part.from += item.data.size();
      part.any = true;
      return true;
    }
    const Part ended = std::move(part);
    parts_.pop_front();
    if (!ended.any) continue;
    item = {v1::FILE_OPERATION_SYNC, ended.name, 0, {}};
    return true;
  }
  return false;
}

bool FolderCopy::PayloadsAreAway() const {
  std::error_code ignored;
  return !newest_.empty() && !fs::exists(JoinPath(folder_, newest_), ignored);
}

std::uint64_t FolderCopy::bytes_left() const {
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.to - part.from;
  return bytes;
}

Result<std::string> FolderCopy::Read(const std::string& name, std::uint64_t offset,
                                     std::uint64_t size) {
  const std::string path = JoinPath(folder_, name);
  OwnedFd other;
  OwnedFd& file = name == kDatabase ? database_ : other;
  if (file.get() < 0) file = OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return ReadError(path);
  std::string bytes(std::min<std::uint64_t>(size, kChunkBytes), '\0');
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
  if (count < 0) return ReadError(path);
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

}  // namespace buttress
