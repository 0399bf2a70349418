#include "learner/fetch_groups.h"

#include <c10/util/StringUtil.h>

#include <utility>

namespace buttress {
namespace {

// kDataLoss unless `fetched` is the group that the plan names, with the planned lengths.
Status CheckFetched(const FetchedGroup& fetched, std::uint64_t planned_id,
                    const Assignment& assignment) {
  const Group& group = fetched.group;
  if (group.group_id != planned_id) {
    return DataLoss(
        c10::str("fetched group ", group.group_id, " where the plan has group ", planned_id));
  }
  if (group.prompt_token_ids.empty())
    return DataLoss(c10::str("group ", planned_id, " has no prompt tokens"));
  for (const Completion& completion : group.completions) {
    const std::size_t row = fetched.row(completion);
    const std::int32_t length =
        completion.outcome == Outcome::kUnscorable ? 0 : TrainedLength(completion);
    if (row < assignment.lengths.size() && assignment.lengths[row] == length) continue;
    return DataLoss(c10::str("completion ", completion.index, " of group ", planned_id, " has ",
                             length, " trained tokens, planned were ",
                             row < assignment.lengths.size() ? assignment.lengths[row] : 0));
  }
  return OkStatus();
}

}  // namespace

Status FetchGroups(BatchSource& source, int rank, StepState& state) {
  const Assignment& assignment = state.assignment;
  std::vector<std::size_t> own;
  std::vector<std::uint64_t> ids;
  for (std::size_t k = 0; k < assignment.group_ids.size(); ++k) {
    if (assignment.rank_of_group[k] != rank) continue;
    own.push_back(k);
    ids.push_back(assignment.group_ids[k]);
  }
  if (ids.empty()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<Group> groups, source.Fetch(state.step, ids));
  if (groups.size() != ids.size())
    return DataLoss(c10::str("requested ", ids.size(), " groups, fetched ", groups.size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto first_row = static_cast<std::size_t>(assignment.group_offsets[own[i]]);
    const FetchedGroup& fetched = state.groups.emplace_back(
        FetchedGroup{std::move(groups[i]), first_row, assignment.constant[own[i]] != 0});
    BUTTRESS_RETURN_IF_ERROR(CheckFetched(fetched, ids[i], assignment));
  }
  return OkStatus();
}

}  // namespace buttress
