#include "coordinator/schedule/refusals.h"

#include <fmt/core.h>

namespace buttress {

Status Refusals::Note(
    const std::string& worker_id, const std::string& why,
    const std::function<bool(const std::set<std::string>& workers)>& is_everybody) {
  std::string kind = why;
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  if (kind != kind_) *this = {};
  kind_ = std::move(kind);
  ++count_;
  workers_.insert(worker_id);
  if (count_ < kMost || !is_everybody(workers_)) return OkStatus();
  return InvalidArgument(fmt::format(
      "the last {} groups were refused, of every worker, and none was accepted between them: {}; "
      "start coordinator and workers from the same build, with the same run file, model and "
      "datasets",
      count_, why));
}

}  // namespace buttress
