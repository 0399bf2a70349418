// What another prompt selection would have passed over.
#include <map>

#include "cli/operations/replay.h"
#include "lib/rl/passed_over.h"

namespace buttress {

Result<SelectionReplay> RunReplay::Selection() {
  const SelectionConfig& selection = selection_.selection;
  SelectionReplay replay;
  GresoBases bases{selection.greso.keep_easy, selection.greso.keep_hard};
  std::map<std::uint64_t, PromptRecord> records;  // by row, of the groups that stay
  CollapseCounts of_step;
  const auto visit = [&](const GroupRecord& record) {
    if (!record.accepted) return;
    const AcceptedRow& accepted = *record.accepted;
    const PromptPlace place{record.group.prompt.pass, record.group.prompt.row};
    const auto history = records.find(place.row);
    if (history != records.end() &&
        PassedOver(selection, selection_.seed, place, history->second, bases)) {
      replay.passed_over.Add(accepted.collapse);
      return;
    }
    replay.drawn.Add(accepted.collapse);
    AddGroup(accepted.raw_rewards(), accepted.outcomes(), accepted.collapse, place.pass,
             selection.mopps.decay, records[place.row]);
    of_step.Add(accepted.collapse);
    if (of_step.groups < selection_.prompts) return;
    bases = AdaptGreso(bases, of_step, selection.greso.target);
    of_step = {};
  };
  BUTTRESS_RETURN_IF_ERROR(reader_->ForEachGroup(visit));
  return replay;
}

}  // namespace buttress
