#include "lib/measure/pending_evals.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <tuple>

#include "lib/base/os/file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

// Reads "v<learner epoch>.<step>"; nullopt for another name.
std::optional<PendingEval> ParseName(std::string_view name) {
  PendingEval pending;
  const char* const end = name.data() + name.size();
  if (!name.starts_with('v')) return std::nullopt;
  const auto epoch = std::from_chars(name.data() + 1, end, pending.learner_epoch);
  if (epoch.ec != std::errc() || epoch.ptr == end || *epoch.ptr != '.') return std::nullopt;
  const auto step = std::from_chars(epoch.ptr + 1, end, pending.step);
  if (step.ec != std::errc() || step.ptr != end || pending.step < 0) return std::nullopt;
  return pending;
}

Status RemoveEval(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  return error ? Unavailable("cannot remove " + folder + ": " + error.message()) : OkStatus();
}

}  // namespace

std::string PendingEvalsFolder(const std::string& out) { return JoinPath(out, "evals"); }

std::string PendingEvalFolderOf(const std::string& out, std::uint64_t learner_epoch,
                                std::int64_t step) {
  return JoinPath(PendingEvalsFolder(out), fmt::format("v{}.{}", learner_epoch, step));
}

std::string UnfinishedEvalFolder(const std::string& out) {
  return JoinPath(PendingEvalsFolder(out), "part");
}

std::vector<PendingEval> ListPendingEvals(const std::string& out) {
  std::vector<PendingEval> found;
  std::error_code error;
  for (fs::directory_iterator it(PendingEvalsFolder(out), error), end; !error && it != end;
       it.increment(error)) {
    auto pending = ParseName(it->path().filename().string());
    if (!pending) continue;
    pending->folder = it->path().string();
    found.push_back(*std::move(pending));
  }
  std::ranges::sort(found, {},
                    [](const PendingEval& one) { return std::tuple(one.learner_epoch, one.step); });
  return found;
}

Status RemovePendingEvalsAfter(const std::string& out, std::int64_t step) {
  BUTTRESS_RETURN_IF_ERROR(RemoveEval(UnfinishedEvalFolder(out)));
  for (const PendingEval& pending : ListPendingEvals(out)) {
    if (pending.step > step) BUTTRESS_RETURN_IF_ERROR(RemoveEval(pending.folder));
  }
  return OkStatus();
}

}  // namespace buttress
