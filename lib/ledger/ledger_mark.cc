#include "lib/ledger/ledger_mark.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "lib/base/file.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxMarkBytes = 4096;

Result<std::uint64_t> InodeOf(const std::string& path) {
  struct stat info {};

  if (::stat(path.c_str(), &info) != 0) return Unavailable(path + ": " + std::strerror(errno));
  return static_cast<std::uint64_t>(info.st_ino);
}

// Returns why the ledger cannot be one of the run of `mark`; "" if it may be.
std::string OtherRun(const LedgerMark& mark, const LedgerSays& ledger) {
  if (ledger.run_id.empty()) return "it is empty";
  return ledger.run_id == mark.run_id ? "" : fmt::format("it is of run {}", ledger.run_id);
}

}  // namespace

std::string LedgerMarkPath(const std::string& path) { return path + ".mark"; }

Status WriteLedgerMark(const std::string& path, LedgerMark mark) {
  BUTTRESS_ASSIGN_OR_RETURN(mark.inode, InodeOf(path));
  return WriteFileAtomic(
      LedgerMarkPath(path),
      fmt::format("{} {} {} {} {} {}\n", mark.run_id, mark.start.coordinator_epoch,
                  mark.start.start_id, mark.checkpoint_step, mark.inode, mark.learner_epoch));
}

Result<std::optional<LedgerMark>> ReadLedgerMark(const std::string& path) {
  const auto text = ReadFile(LedgerMarkPath(path), kMaxMarkBytes);
  if (text.status().code() == StatusCode::kNotFound) return std::optional<LedgerMark>();
  BUTTRESS_RETURN_IF_ERROR(text.status());
  std::istringstream words(*text);
  LedgerMark mark;
  words >> mark.run_id >> mark.start.coordinator_epoch >> mark.start.start_id >>
      mark.checkpoint_step >> mark.inode;
  if (words) {
    words >> mark.learner_epoch;
    return std::optional(mark);
  }
  return DataLoss(LedgerMarkPath(path) +
                  " is damaged; remove it once you know that the ledger is the newest one");
}

std::string OlderThanMark(const LedgerMark& mark, const LedgerSays& ledger) {
  const StartRow last = ledger.start.value_or(StartRow());
  if (last.coordinator_epoch < mark.start.coordinator_epoch) {
    return fmt::format("it knows {} starts of the coordinator, and there were {}",
                       last.coordinator_epoch, mark.start.coordinator_epoch);
  }
  if (last.coordinator_epoch == mark.start.coordinator_epoch &&
      last.start_id != mark.start.start_id) {
    return "it is a copy that went on elsewhere";
  }
  if (ledger.learner_epoch > mark.learner_epoch) return "";
  if (ledger.checkpoint_step < mark.checkpoint_step) {
    return fmt::format("it knows the checkpoint of step {}, and there was one of step {}",
                       ledger.checkpoint_step, mark.checkpoint_step);
  }
  if (ledger.learner_epoch < mark.learner_epoch) {
    return fmt::format("it knows {} starts of the learner, and there were {}", ledger.learner_epoch,
                       mark.learner_epoch);
  }
  return "";
}

Status CheckLedgerMark(const std::string& path, const LedgerSays& ledger, LedgerAge age) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<LedgerMark> mark, ReadLedgerMark(path));
  if (!mark) return OkStatus();
  const std::string other = OtherRun(*mark, ledger);
  const std::string difference = other.empty() ? OlderThanMark(*mark, ledger) : other;
  if (!difference.empty()) {
    if (other.empty() && age == LedgerAge::kOlderToo) return OkStatus();
    return DataLoss(fmt::format(
        "{} is not the newest ledger of run {}: {}. What was acknowledged since is not in it. Put "
        "the newest ledger back, with the files -wal and payloads/ that lay beside it; or restore "
        "a backup (`buttress restore`), which has ledger, payloads and checkpoint of one moment; "
        "or give the run a new folder (local.out){}",
        path, mark->run_id, difference,
        other.empty() ? "; or, if the newest ledger is lost, go on with this one: `buttress ledger "
                        "rewind` says what that loses"
                      : ""));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::uint64_t inode, InodeOf(path));
  if (inode == mark->inode) return OkStatus();
  return InvalidArgument(fmt::format(
      "{} is a copy of the ledger of run {}, and the original may still be in use: two "
      "coordinators "
      "would lease the same groups. To go on here, end the original for good and remove {}; to "
      "keep both, start the copy as a run of its own (`buttress backup` and `buttress restore` "
      "move a run)",
      path, mark->run_id, LedgerMarkPath(path)));
}

}  // namespace buttress
