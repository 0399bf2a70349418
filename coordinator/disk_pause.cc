#include "coordinator/disk_pause.h"

#include <fmt/core.h>

#include <utility>

#include "lib/base/log.h"

namespace buttress {
namespace {

constexpr std::int64_t kRetryMs = 1000;

double MiB(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

DiskPause::DiskPause(std::string folder, Measure measure, CoordinatorMetrics& metrics)
    : folder_(std::move(folder)), measure_(std::move(measure)), metrics_(metrics) {}

bool DiskPause::Check(std::int64_t now_ms) {
  if (paused()) return true;
  const auto free = measure_();
  if (!free || *free >= kPauseBelowBytes) return false;
  since_ms_ = now_ms;
  next_try_ms_ = now_ms + kRetryMs;
  Tell(free);
  return true;
}

void DiskPause::Begin(const Status& full, std::int64_t now_ms) {
  next_try_ms_ = now_ms + kRetryMs;
  error_ = full.message();
  if (paused()) return Note(measure_());
  since_ms_ = now_ms;
  Tell(measure_());
}

bool DiskPause::MayTry(std::int64_t now_ms) {
  if (now_ms < next_try_ms_) return false;
  next_try_ms_ = now_ms + kRetryMs;
  const auto free = measure_();
  Note(free);
  return !free || *free >= kGoOnAtBytes;
}

void DiskPause::End(std::int64_t now_ms) {
  Log(kWarn, "the disk has room again; the run goes on",
      {{"folder", folder_}, {"paused_ms", now_ms - since_ms_}});
  why_.clear();
  error_.clear();
  metrics_.paused.Set(0);
}

void DiskPause::Note(std::optional<std::uint64_t> free) {
  why_ = fmt::format(
      "disk full: {} has {:.1f} MiB free; free space up to {:.0f} MiB, and the run goes on by "
      "itself{}",
      folder_, MiB(free.value_or(0)), MiB(kGoOnAtBytes), error_.empty() ? "" : " (" + error_ + ")");
}

void DiskPause::Tell(std::optional<std::uint64_t> free) {
  Note(free);
  Log(kWarn, "the run is paused",
      {{"why", "disk full"},
       {"folder", folder_},
       {"free_bytes", free.value_or(0)},
       {"needed_bytes", kGoOnAtBytes},
       {"error", error_}});
  metrics_.paused.Set(1);
}

}  // namespace buttress
