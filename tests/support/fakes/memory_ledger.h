// A ledger in memory, which applies changes as lib/ledger does, for tests of the scheduler.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "lib/ledger/rows.h"

namespace buttress {

struct MemoryLedger {
  std::optional<RunRow> run;
  std::map<std::uint64_t, GroupRow> groups;
  std::map<std::uint64_t, AcceptedGroup> accepted;
  std::vector<PromptHistory> histories;
  std::map<std::string, CollapseCounts> collapse;
  std::map<std::uint64_t, PromptRecord> records;
  std::vector<SkipRow> skipped;
  std::map<std::uint64_t, PlanRow> plans;
  std::vector<LearnerRow> learners;
  std::optional<ManifestRow> announced;
  std::map<std::string, WorkerOrderRow> orders;
  std::vector<StartRow> starts;
  std::vector<PolicyVersion> versions;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> checkpoints;
  std::optional<EarlyEndRow> early_end;  // the last one
  EndedTokens ended_tokens;
  std::map<std::pair<std::string, std::uint64_t>, WorkerTokensRow> worker_tokens;

  void Write(const LedgerChanges& changes) {
    for (const std::uint64_t id : changes.returned) accepted.erase(id);
    starts.insert(starts.end(), changes.starts.begin(), changes.starts.end());
    for (const ManifestRow& row : changes.manifests) versions.push_back(row.version);
    for (const CheckpointRow& row : changes.checkpoints)
      checkpoints[{row.learner_epoch, row.step}] = row.digest;
    if (changes.early_end) early_end = changes.early_end;
    ended_tokens = changes.ended_tokens.value_or(ended_tokens);
    for (const WorkerTokensRow& row : changes.worker_tokens)
      worker_tokens[{row.worker_id, row.incarnation}] = row;
    if (changes.run) run = changes.run;
    for (const GroupRow& row : changes.groups) groups[row.group_id] = row;
    for (const AcceptedGroup& row : changes.accepted)
      BUTTRESS_CHECK(accepted.emplace(row.id(), row).second, "a group is accepted once");
    for (const auto& [dataset_row, row] : changes.histories) {
      if (histories.size() <= dataset_row) histories.resize(dataset_row + 1);
      histories[dataset_row] = row;
    }
    for (const auto& [source, row] : changes.collapse) collapse[source] = row;
    for (const auto& [dataset_row, row] : changes.records) records[dataset_row] = row;
    for (const auto& [group_id, row] : changes.changed) accepted.at(group_id) = row;
    skipped.insert(skipped.end(), changes.skipped.begin(), changes.skipped.end());
    for (const DropRow& row : changes.drops) {
      if (row.step != 0) plans.at(row.step).group_ids[row.position] = 0;
    }
    for (const PlanRow& row : changes.plans)
      BUTTRESS_CHECK(plans.emplace(row.step, row).second, "a step is planned once");
    for (const RefillRow& row : changes.refills) {
      PlanRow& plan = plans.at(row.plan.step);
      BUTTRESS_CHECK(plan.group_ids[row.position] == 0, "a place is filled once");
      plan.group_ids[row.position] = row.group_id();
      plan.collapse = row.plan.collapse;
      plan.drawn = row.plan.drawn;
    }
    learners.insert(learners.end(), changes.learners.begin(), changes.learners.end());
    if (!changes.manifests.empty()) announced = changes.manifests.back();
    for (const WorkerOrderRow& row : changes.orders) orders[row.worker_id] = row;
    std::erase_if(orders, [](const auto& o) { return o.second.order == WorkerOrder::kNone; });
  }

  // Of the prompts that are drawn.
  std::map<std::uint64_t, PromptRecord> RecordsOf(const std::vector<DrawnPrompt>& prompts) const {
    std::map<std::uint64_t, PromptRecord> found;
    for (const DrawnPrompt& prompt : prompts) {
      const auto record = records.find(prompt.row);
      found[prompt.row] = record == records.end() ? PromptRecord() : record->second;
    }
    return found;
  }

  static bool HasEnded(GroupState state) {
    return state == GroupState::kSettled || state == GroupState::kDropped;
  }

  std::map<std::uint64_t, EndedGroup> Followers() const {
    std::optional<std::pair<PayloadEnd, std::uint64_t>> first;
    std::set<std::uint64_t> prompts;
    for (const auto& [id, row] : groups) {
      if (!accepted.contains(id) || HasEnded(row.state)) continue;
      first = std::min(first.value_or(accepted.at(id).place()), accepted.at(id).place());
      prompts.insert(row.prompt.row);
    }
    std::map<std::uint64_t, EndedGroup> followers;
    for (const auto& [id, content] : accepted) {
      const GroupRow& row = groups.at(id);
      if (HasEnded(row.state) && prompts.contains(row.prompt.row) && content.place() > *first)
        followers[id] = {row, content};
    }
    return followers;
  }

  LedgerSnapshot Load() const {
    LedgerSnapshot snapshot;
    if (!run) return snapshot;
    snapshot.run = run;
    snapshot.histories = histories;
    snapshot.collapse = collapse;
    for (const auto& [id, row] : accepted) {
      if (row.trials().own.scored > 0)
        snapshot.difficulty[row.head->source()].Add(id, row.trials());
    }
    for (const SkipRow& skip : skipped)
      ++snapshot.skipped[skip.source][static_cast<std::size_t>(skip.reason)];
    snapshot.learners = learners;
    snapshot.announced = announced;
    snapshot.orders = orders;
    snapshot.ended_tokens = ended_tokens;
    for (const auto& [process, row] : worker_tokens) snapshot.worker_tokens.push_back(row);
    snapshot.starts = starts;
    snapshot.versions = versions;
    for (const auto& [version, digest] : checkpoints) {
      if (version.second >= run->settled_step)
        snapshot.checkpoints.push_back({version.first, version.second, digest});
    }
    if (early_end && early_end->learner_epoch == run->learner_epoch) snapshot.early_end = early_end;
    for (const auto& [id, row] : groups) {
      if (HasEnded(row.state) && accepted.contains(id))
        snapshot.ended_tags[id] = ContentTag(accepted.at(id).content_sha256);
      if (row.state == GroupState::kSettled) {
        ++snapshot.ended.settled;
      } else if (row.state == GroupState::kDropped) {
        ++snapshot.ended.dropped[static_cast<std::size_t>(row.reason)];
        const bool of_next_step =
            row.reason == DropReason::kNoSignal && row.step == run->planned_step + 1;
        if (of_next_step) snapshot.replaced[id] = accepted.at(id);
      } else {
        snapshot.groups[id] = row;
        const auto record = records.find(row.prompt.row);
        if (record != records.end()) snapshot.records.insert(*record);
        if (accepted.contains(id)) snapshot.accepted[id] = accepted.at(id);
      }
    }
    snapshot.followers = Followers();
    const std::uint64_t first_tag = FirstEndedTag(run->next_group_id);
    std::erase_if(snapshot.ended_tags, [=](const auto& tag) { return tag.first < first_tag; });
    for (const auto& [step, plan] : plans) {
      if (step > run->settled_step) snapshot.plans[step] = plan;
      if (step + kRecentSteps < run->planned_step) continue;
      for (const SourceCollapse& source : plan.collapse.sources)
        snapshot.recent[step][source.source] = source.step;
      snapshot.control = plan.control;  // the last one stays
    }
    return snapshot;
  }
};

}  // namespace buttress
