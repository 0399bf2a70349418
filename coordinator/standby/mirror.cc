#include "coordinator/standby/mirror.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "coordinator/standby/file_record.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/ledger/segment_file.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;

// What waits in memory for a standby that is slow, or is still being copied to.
constexpr std::uint64_t kMostQueuedBytes = std::uint64_t{256} << 20;
// The turns that a standby has not confirmed.
constexpr std::size_t kMostOpenTurns = std::size_t{1} << 16;
constexpr milliseconds kTick(100);

}  // namespace

Mirror::Mirror(std::string folder, StandbyMode mode, std::int64_t wait_ms, Metrics& metrics)
    : folder_(std::move(folder)),
      mode_(mode),
      wait_ms_(wait_ms),
      metrics_(metrics),
      gauges_(metrics),
      copy_(folder_),
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
    const std::uint64_t from = std::exchange(durable, size->second);
    const std::string name = FollowedSegment(size->first);
    if (from < durable && !copy_.Extend(name, from, durable)) AddFromFile(name, from, durable);
  }
}

void Mirror::PayloadsDeleted(std::uint64_t first_kept) {
  MutexLock lock(mutex_);
  while (!segments_.empty() && segments_.begin()->first < first_kept) {
    AddLocked({v1::FILE_OPERATION_REMOVE, FollowedSegment(segments_.begin()->first), 0, {}});
    segments_.erase(segments_.begin());
  }
}

// It may replace one of the same number that a crash left.
void Mirror::Archived(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string name = "archive/" + file.filename().string();
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  MutexLock lock(mutex_);
  if (error) return Drop(path + ": " + error.message());
  AddLocked({v1::FILE_OPERATION_REMOVE, name, 0, {}});
  AddFromFile(name, 0, bytes);
}

void Mirror::EndTurn(const std::function<void()>& meanwhile) {
  RecordTurn(RealClock().MonotonicMs());
  AwaitStandby(meanwhile);
}

void Mirror::AwaitStandby(const std::function<void()>& meanwhile) {
  if (mode_ != StandbyMode::kSynchronous) return;
  const std::int64_t since_ms = RealClock().MonotonicMs();
  while (!MayEnd(since_ms)) {
    metrics_.health().Beat();
    meanwhile();
  }
}

void Mirror::RecordTurn(std::int64_t ended_ms) {
  MutexLock lock(mutex_);
  ++turn_;
  if (id_ == 0) return;
  open_turns_.push_back({turn_, ended_ms});
  AddLocked({v1::FILE_OPERATION_TURN, {}, turn_, {}});
  if (open_turns_.size() > kMostOpenTurns) Drop("it is too many turns behind");
}

bool Mirror::MayEnd(std::int64_t since_ms) {
  MutexLock lock(mutex_);
  const auto may = [this]() REQUIRES(mutex_) { return alone_ || stopped_ || Confirmed(); };
  if (changed_.WaitFor(mutex_, kTick, may)) return true;
  ReportLocked();
  if (wait_ms_ == 0 || RealClock().MonotonicMs() < since_ms + wait_ms_) return false;
  alone_ = true;
  Log(kError, "no standby confirms; the coordinator goes on alone, and its disk is the only copy",
      {{"waited_ms", wait_ms_}, {"standby", id_ == 0 ? "away" : "too slow"}});
  return true;
}

void Mirror::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

std::uint64_t Mirror::Attach(const std::string& name) {
  MutexLock lock(mutex_);
  if (id_ != 0 && name != name_) return 0;
  Drop("it has connected again");
  id_ = ++last_id_;
  name_ = name;
  number_ = 0;
  level_sent_ = false;
  NoteSegments();
  copy_.Begin(segments_);
  Log(kInfo, "a standby follows; it receives a copy",
      {{"standby", name_}, {"bytes", copy_.bytes_left()}});
  return id_;
}

// Turns that found the folder of payloads away have grown segments by bytes that no record has.
// What is not durable yet may be copied as well: no transaction of the copy names it.
void Mirror::NoteSegments() {
  const auto sizes = SegmentSizes(JoinPath(folder_, "payloads"));
  if (!sizes.ok()) return;
  for (const auto& [segment, bytes] : *sizes) {
    std::uint64_t& noted = segments_[segment];
    noted = std::max(noted, bytes);
  }
}

void Mirror::Detach(std::uint64_t id) {
  MutexLock lock(mutex_);
  if (id == id_) Drop("its connection has ended");
}

bool Mirror::attached(std::uint64_t id) const {
  MutexLock lock(mutex_);
  return id == id_;
}

void Mirror::Drop(const std::string& why) {
  if (id_ == 0) return;
  Log(stopped_ ? kInfo : kWarn, "the standby is away",
      {{"standby", name_}, {"why", why}, {"was_level", level_}});
  id_ = 0;
  level_ = false;
  copy_.Stop();
  queue_.clear();
  sent_.clear();
  open_turns_.clear();
  queued_bytes_ = 0;
  ReportLocked();
  changed_.NotifyAll();
}

void Mirror::AddFromFile(const std::string& name, std::uint64_t from, std::uint64_t to) {
  while (id_ != 0 && from < to) {
    auto bytes = copy_.Read(name, from, to - from);
    if (!bytes.ok()) return Drop(bytes.status().message());
    if (bytes->empty()) return Drop(name + " is shorter than what was written to it");
    const std::uint64_t offset = from;
    from += bytes->size();
    AddLocked({v1::FILE_OPERATION_WRITE, name, offset, *std::move(bytes)});
  }
  AddLocked({v1::FILE_OPERATION_SYNC, name, 0, {}});
}

void Mirror::AddLocked(FollowItem item) {
  if (id_ == 0) return;
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
  if (queued_bytes_ > kMostQueuedBytes) return Drop("it is too many bytes behind");
  changed_.NotifyAll();
}

bool Mirror::HasNext() const { return !copy_.done() || !level_sent_ || !queue_.empty(); }

FollowItem Mirror::NextItem() {
  FollowItem item = {};
  const auto copied = copy_.Next(item);
  if (!copied.ok()) Drop(copied.status().message());
  if (!copied.ok() || *copied) return item;
  // Everything since the copy began is in the queue, and makes it whole.
  if (!std::exchange(level_sent_, true))
    queue_.push_back({v1::FILE_OPERATION_LEVEL, {}, turn_, {}});
  item = std::move(queue_.front());
  queue_.pop_front();
  queued_bytes_ -= item.data.size();
  return item;
}

Mirror::Next Mirror::Take(std::uint64_t id, milliseconds timeout, v1::FollowResponse& record) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, timeout,
                   [&]() REQUIRES(mutex_) { return id != id_ || stopped_ || HasNext(); });
  if (id != id_ || stopped_) return Next::kReplaced;
  if (!HasNext()) return Next::kNothing;
  FollowItem item = NextItem();
  if (id != id_) return Next::kReplaced;
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
    level_ = was_level_ = true;
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
  const std::string mode = std::string(ChoiceName(mode_)) + " standby: ";
  const std::uint64_t turns = turn_ - confirmed_turn_;
  const bool waits = mode_ == StandbyMode::kSynchronous && !alone_ && !Confirmed();
  const char* const end = alone_  ? "; turns do not wait for it"
                          : waits ? "; turns wait for it"
                                  : "";
  if (id_ == 0 && !was_level_) return mode + "away since this coordinator started" + end;
  if (id_ == 0) return fmt::format("{}away, {} turns are on this disk alone{}", mode, turns, end);
  if (!level_)
    return fmt::format("{}receives its copy, {} bytes are left{}", mode, copy_.bytes_left(), end);
  return fmt::format("{}{} turns behind, {} bytes, {:.1f} s{}", mode, turns, queued_bytes_,
                     static_cast<double>(LagMs()) / 1000, end);
}

}  // namespace buttress
