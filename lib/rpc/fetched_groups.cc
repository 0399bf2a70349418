#include "lib/rpc/fetched_groups.h"

#include <fmt/core.h>

#include <utility>

#include "lib/experience/group.h"

namespace buttress {

void FetchedGroups::Clear() {
  bytes_.clear();
  groups_.clear();
}

Status FetchedGroups::Add(const v1::FetchGroupsResponse& part) {
  bytes_ += part.data();
  if (!part.last()) return OkStatus();
  Result<v1::Group> group = ParseGroup(std::exchange(bytes_, {}));
  if (!group.ok())
    return DataLoss(fmt::format("group {}: {}", part.group_id(), group.status().message()));
  const auto next = static_cast<int>(groups_.size());
  if (next >= request_.group_ids_size() || group->head().group_id() != request_.group_ids(next)) {
    return DataLoss(
        fmt::format("group {} arrived in the place of another group", group->head().group_id()));
  }
  groups_.push_back(*std::move(group));
  return OkStatus();
}

Result<std::vector<v1::Group>> FetchedGroups::Take() {
  if (groups_.size() != static_cast<std::size_t>(request_.group_ids_size())) {
    return DataLoss(
        fmt::format("{} groups arrived; expected {}", groups_.size(), request_.group_ids_size()));
  }
  return std::move(groups_);
}

}  // namespace buttress
