#include "coordinator/standby/mirror.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "coordinator/standby/file_record.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/ledger/segment_file.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// What waits in memory for a standby that is slow, or is still being copied to.
constexpr std::uint64_t kMostQueuedBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kToItsEnd = std::numeric_limits<std::uint64_t>::max();
constexpr milliseconds kTick(100);
constexpr char kDatabase[] = "ledger.db";

std::string SegmentName(std::uint64_t segment) { return SegmentPath("payloads", segment); }

// The whole archives in the run's folder, the newest last.
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

Mirror::Mirror(std::string folder, StandbyMode mode, std::int64_t wait_ms, Metrics& metrics)
    : folder_(std::move(folder)),
      mode_(mode),
      wait_ms_(wait_ms),
      metrics_(metrics),
      gauges_(metrics),
      files_(folder_, [this](v1::FileOperation operation, const std::string& file,
                             std::uint64_t offset, std::string data) {
        MutexLock lock(mutex_);
        AddLocked({operation, file, offset, std::move(data)});
      }) {}

void Mirror::Start(std::string run_id) {
  run_id_ = std::move(run_id);
  MutexLock lock(mutex_);
  if (auto sizes = SegmentSizes(JoinPath(folder_, "payloads")); sizes.ok()) segments_ = *sizes;
}

void Mirror::PayloadsSynced() {
  const auto sizes = SegmentSizes(JoinPath(folder_, "payloads"));
  MutexLock lock(mutex_);
  const std::uint64_t last = segments_.empty() ? 0 : segments_.rbegin()->first;
  // The store's descriptor still has the folder, but what is new in it cannot be read by name.
  if (!sizes.ok() || (last > 0 && !sizes->contains(last)))
    return Drop("the folder of payloads cannot be read");
  for (auto size = sizes->lower_bound(last); size != sizes->end(); ++size) {
    std::uint64_t& durable = segments_[size->first];
    AddFromFile(SegmentName(size->first), durable, size->second);
    durable = size->second;
  }
}

void Mirror::PayloadsDeleted(std::uint64_t first_kept) {
  MutexLock lock(mutex_);
  while (!segments_.empty() && segments_.begin()->first < first_kept) {
    AddLocked({v1::FILE_OPERATION_REMOVE, SegmentName(segments_.begin()->first), 0, {}});
    segments_.erase(segments_.begin());
  }
}

// The newest archive may replace one of the same number that a crash left.
void Mirror::Archived() {
  const std::vector<std::string> names = ArchiveNames(folder_);
  MutexLock lock(mutex_);
  if (names.empty()) return;
  AddLocked({v1::FILE_OPERATION_REMOVE, names.back(), 0, {}});
  AddFromFile(names.back(), 0, kToItsEnd);
}

void Mirror::EndTurn() {
  const std::int64_t ended_ms = RealClock().MonotonicMs();
  MutexLock lock(mutex_);
  ++turn_;
  if (id_ != 0) {
    open_turns_.push_back({turn_, ended_ms, recorded_bytes_});
    AddLocked({v1::FILE_OPERATION_TURN, {}, turn_, {}});
  }
  if (mode_ != StandbyMode::kSynchronous) return;
  while (!alone_ && !stopped_ &&
         !changed_.WaitFor(mutex_, kTick, [this]() REQUIRES(mutex_) { return Confirmed(); })) {
    metrics_.health().Beat();
    if (wait_ms_ == 0 || RealClock().MonotonicMs() < ended_ms + wait_ms_) continue;
    alone_ = true;
    Log(kError, "no standby confirms; the coordinator goes on alone, and its disk is the only copy",
        {{"waited_ms", wait_ms_}, {"standby", id_ == 0 ? "away" : "too slow"}});
  }
}

void Mirror::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

std::uint64_t Mirror::Attach() {
  MutexLock lock(mutex_);
  if (id_ != 0) Drop("another one has taken its place");
  id_ = ++last_id_;
  number_ = recorded_bytes_ = copied_ = 0;
  level_sent_ = false;
  PlanCopy();
  Log(kInfo, "a standby follows; it receives a copy", {{"files", copy_.size()}});
  return id_;
}

void Mirror::Detach(std::uint64_t id) {
  MutexLock lock(mutex_);
  if (id == id_) Drop("its connection has ended");
}

void Mirror::Drop(const char* why) {
  if (id_ == 0) return;
  Log(stopped_ ? kInfo : kWarn, "the standby is away", {{"why", why}, {"was_level", level_}});
  id_ = 0;
  level_ = false;
  copy_.clear();
  queue_.clear();
  sent_.clear();
  open_turns_.clear();
  queued_bytes_ = 0;
  ReportLocked();
  changed_.NotifyAll();
}

void Mirror::PlanCopy() {
  for (std::string& name : ArchiveNames(folder_)) copy_.push_back({std::move(name), kToItsEnd});
  for (const auto& [segment, bytes] : segments_) copy_.push_back({SegmentName(segment), bytes});
  // What they grow by is recorded; a copy up to their end would run after a log that grows.
  for (const std::string& name : {std::string(kDatabase), std::string(kDatabase) + "-wal"}) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(JoinPath(folder_, name), error);
    if (!error) copy_.push_back({name, bytes});
  }
}

std::string Mirror::ReadSlice(const std::string& name, std::uint64_t offset, std::uint64_t size) {
  const std::string path = JoinPath(folder_, name);
  OwnedFd other;
  OwnedFd& file = name == kDatabase ? database_ : other;
  if (file.get() < 0) file = OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes(std::min<std::uint64_t>(size, kChunkBytes), '\0');
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return bytes;
}

// Sets `item` to the next part of the copy. Returns false at its end.
bool Mirror::CopySlice(Item& item) {
  if (copy_.empty()) return false;
  const CopiedFile file = copy_.front();
  std::string bytes = ReadSlice(file.name, copied_, file.limit - copied_);
  if (bytes.empty()) {  // at its end, or deleted meanwhile, of which a record tells
    copy_.pop_front();
    const bool any = std::exchange(copied_, 0) > 0;
    if (!any) return CopySlice(item);
    item = {v1::FILE_OPERATION_SYNC, file.name, 0, {}};
    return true;
  }
  item = {v1::FILE_OPERATION_WRITE, file.name, copied_, std::move(bytes)};
  copied_ += item.data.size();
  return true;
}

void Mirror::AddFromFile(const std::string& name, std::uint64_t from, std::uint64_t to) {
  if (id_ == 0 || from >= to) return;
  for (std::string bytes; !(bytes = ReadSlice(name, from, to - from)).empty();) {
    from += bytes.size();
    AddLocked({v1::FILE_OPERATION_WRITE, name, from - bytes.size(), std::move(bytes)});
  }
  AddLocked({v1::FILE_OPERATION_SYNC, name, 0, {}});
}

void Mirror::AddLocked(Item item) {
  if (id_ == 0) return;
  recorded_bytes_ += item.data.size();
  queued_bytes_ += item.data.size();
  // SQLite writes a page of its log in two parts.
  const bool continues = !queue_.empty() && item.operation == v1::FILE_OPERATION_WRITE &&
                         queue_.back().operation == item.operation &&
                         queue_.back().file == item.file &&
                         queue_.back().offset + queue_.back().data.size() == item.offset &&
                         queue_.back().data.size() + item.data.size() <= kChunkBytes;
  if (continues) {
    queue_.back().data += item.data;
  } else {
    queue_.push_back(std::move(item));
  }
  if (queued_bytes_ > kMostQueuedBytes) return Drop("it is too far behind");
  changed_.NotifyAll();
}

bool Mirror::HasNext() const { return !copy_.empty() || !level_sent_ || !queue_.empty(); }

Mirror::Next Mirror::Take(std::uint64_t id, milliseconds timeout, v1::FollowResponse& record) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout,
                   [&]() REQUIRES(mutex_) { return id != id_ || stopped_ || HasNext(); });
  if (id != id_ || stopped_) return Next::kReplaced;
  if (!HasNext()) return Next::kNothing;
  Item item = {};
  if (!CopySlice(item)) {
    // Everything since the copy began is in the queue, and makes it whole.
    if (!std::exchange(level_sent_, true))
      queue_.push_back({v1::FILE_OPERATION_LEVEL, {}, turn_, {}});
    item = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= item.data.size();
  }
  if (item.operation == v1::FILE_OPERATION_TURN || item.operation == v1::FILE_OPERATION_LEVEL)
    sent_.push_back({number_ + 1, item.offset, item.operation == v1::FILE_OPERATION_LEVEL});
  record.set_number(++number_);
  record.set_operation(item.operation);
  record.set_file(std::move(item.file));
  record.set_offset(item.offset);
  record.set_data(std::move(item.data));
  record.set_check(CheckOf(record));
  return Next::kRecord;
}

void Mirror::Confirm(std::uint64_t id, std::uint64_t number) {
  MutexLock lock(mutex_);
  if (id != id_) return;
  for (; !sent_.empty() && sent_.front().number <= number; sent_.pop_front()) {
    confirmed_turn_ = std::max(confirmed_turn_, sent_.front().turn);
    if (!sent_.front().level) continue;
    level_ = true;
    Log(kInfo, "the standby is level", {{"turn", sent_.front().turn}});
  }
  while (!open_turns_.empty() && open_turns_.front().turn <= confirmed_turn_)
    open_turns_.pop_front();
  if (alone_ && Confirmed()) {
    alone_ = false;
    Log(kInfo, "a standby confirms every turn again");
  }
  ReportLocked();
  changed_.NotifyAll();
}

void Mirror::Report() {
  MutexLock lock(mutex_);
  ReportLocked();
}

std::int64_t Mirror::LagMs() const {
  if (open_turns_.empty()) return 0;
  return RealClock().MonotonicMs() - open_turns_.front().ended_ms;
}

void Mirror::ReportLocked() {
  gauges_.level.Set(level_ && !alone_ ? 1 : 0);
  gauges_.lag_turns.Set(static_cast<double>(turn_ - confirmed_turn_));
  gauges_.lag_bytes.Set(static_cast<double>(queued_bytes_));
  gauges_.lag_seconds.Set(static_cast<double>(LagMs()) / 1000);
}

std::string Mirror::StatusText() const {
  MutexLock lock(mutex_);
  const std::string mode(ChoiceName(mode_));
  const std::uint64_t turns = turn_ - confirmed_turn_;
  if (id_ == 0) {
    return fmt::format(
        "{} standby: away, {} turns are on this disk alone{}", mode, turns,
        mode_ == StandbyMode::kSynchronous && !alone_ ? "; the run waits for it" : "");
  }
  if (!level_) return mode + " standby: receives its copy";
  return fmt::format("{} standby: {} turns behind, {} bytes, {:.1f} s{}", mode, turns,
                     queued_bytes_, static_cast<double>(LagMs()) / 1000,
                     alone_ ? "; turns do not wait for it" : "");
}

}  // namespace buttress
