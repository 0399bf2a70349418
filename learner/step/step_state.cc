#include "learner/step/step_state.h"

#include <c10/util/StringUtil.h>

#include <utility>

namespace buttress {
namespace {

// kDataLoss unless `fetched` is the group that the plan names, with the planned lengths and, where
// this rank has the plan, the planned rewards.
Status CheckFetched(const FetchedGroup& fetched, std::size_t k, const StepState& state) {
  const Assignment& assignment = state.assignment;
  const std::uint64_t planned_id = assignment.group_ids[k];
  const v1::GroupHead& head = fetched.group.head();
  if (head.group_id() != planned_id) {
    return DataLoss(
        c10::str("fetched group ", head.group_id(), " where the plan has group ", planned_id));
  }
  const int planned = assignment.group_offsets[k + 1] - assignment.group_offsets[k];
  if (fetched.completions() != planned) {
    return DataLoss(c10::str("group ", planned_id, " has ", fetched.completions(),
                             " completions, planned were ", planned));
  }
  for (int i = 0; i < fetched.completions(); ++i) {
    const std::size_t row = fetched.row(i);
    if (assignment.lengths[row] != head.trained_lengths(i)) {
      return DataLoss(c10::str("completion ", i, " of group ", planned_id, " has ",
                               head.trained_lengths(i), " trained tokens, planned were ",
                               assignment.lengths[row]));
    }
    const std::vector<std::int32_t>& offsets = assignment.turn_offsets;
    const int turns = head.turns().empty() ? 0 : head.turns(i);
    if (!offsets.empty() && offsets[row + 1] - offsets[row] != turns) {
      return DataLoss(c10::str("completion ", i, " of group ", planned_id, " has ", turns,
                               " turns, planned were ", offsets[row + 1] - offsets[row]));
    }
    if (k >= state.plan.groups.size()) continue;
    const double reward = state.plan.groups[k]->rewards(i);
    if (reward == head.rewards(i)) continue;
    return DataLoss(c10::str("completion ", i, " of group ", planned_id, " has the reward ",
                             head.rewards(i), ", planned was ", reward));
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
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<v1::Group> groups, source.Fetch(state.step, ids));
  if (groups.size() != ids.size())
    return DataLoss(c10::str("requested ", ids.size(), " groups, fetched ", groups.size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto first_row = static_cast<std::size_t>(assignment.group_offsets[own[i]]);
    const FetchedGroup& fetched = state.groups.emplace_back(
        FetchedGroup{std::move(groups[i]), first_row, assignment.constant[own[i]] != 0});
    BUTTRESS_RETURN_IF_ERROR(CheckFetched(fetched, own[i], state));
  }
  return OkStatus();
}

}  // namespace buttress
