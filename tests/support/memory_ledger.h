// A ledger in memory: what lib/ledger does with a batch, without SQLite, for tests of the
// scheduler.
#pragma once

#include <map>
#include <string>

#include "lib/ledger/rows.h"

namespace buttress {

struct MemoryLedger {
  std::optional<RunRow> run;
  std::map<std::uint64_t, GroupRow> groups;
  std::map<std::uint64_t, AcceptedRow> accepted;
  std::map<std::string, PromptHistory> history;
  std::map<std::string, CollapseCounts> collapse;
  std::map<std::uint64_t, PromptRecord> records;
  std::vector<SkipRow> skipped;
  std::map<std::uint64_t, PlanRow> plans;
  std::vector<LearnerRow> learners;
  std::optional<ManifestRow> announced;

  void Write(const LedgerChanges& batch) {
    if (batch.run) run = batch.run;
    for (const GroupRow& row : batch.groups) groups[row.group_id] = row;
    for (const AcceptedRow& row : batch.accepted) {
      BUTTRESS_CHECK(accepted.emplace(row.group_id, row).second, "a group is accepted once");
      PromptHistory& sum = history[groups.at(row.group_id).prompt.prompt_id];
      sum.correct += row.own_history().correct;
      sum.scored += row.own_history().scored;
    }
    for (const auto& [source, row] : batch.collapse) collapse[source] = row;
    for (const auto& [dataset_row, row] : batch.records) records[dataset_row] = row;
    skipped.insert(skipped.end(), batch.skipped.begin(), batch.skipped.end());
    for (const PlanRow& row : batch.plans)
      BUTTRESS_CHECK(plans.emplace(row.step, row).second, "a step is planned once");
    learners.insert(learners.end(), batch.learners.begin(), batch.learners.end());
    if (!batch.manifests.empty()) announced = batch.manifests.back();
  }

  LedgerSnapshot Load() const {
    LedgerSnapshot snapshot;
    if (!run) return snapshot;
    snapshot.run = run;
    snapshot.history = history;
    snapshot.collapse = collapse;
    snapshot.records = records;
    for (const SkipRow& skip : skipped) ++snapshot.skipped[static_cast<std::size_t>(skip.reason)];
    snapshot.learners = learners;
    snapshot.announced = announced;
    for (const auto& [id, row] : groups) {
      if (row.state == GroupState::kSettled) {
        snapshot.ended_tags[id] = ContentTag(accepted.at(id).content_sha256);
      } else if (row.state == GroupState::kDropped) {
        ++snapshot.dropped[static_cast<std::size_t>(row.reason)];
        if (row.reason == DropReason::kNoSignal)
          snapshot.ended_tags[id] = ContentTag(accepted.at(id).content_sha256);
        const bool of_next_step =
            row.reason == DropReason::kNoSignal && row.step == run->planned_step + 1;
        if (of_next_step) snapshot.replaced[id] = accepted.at(id);
      } else {
        snapshot.groups[id] = row;
        if (accepted.contains(id)) snapshot.accepted[id] = accepted.at(id);
      }
    }
    for (const auto& [step, plan] : plans) {
      if (step > run->settled_step) snapshot.plans[step] = plan;
    }
    return snapshot;
  }
};

}  // namespace buttress
