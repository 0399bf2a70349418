#include "lib/ledger/rows.h"

#include <algorithm>

#include "lib/base/check.h"

namespace buttress {
namespace {

PolicyVersion WithoutDigest(const PolicyVersion& version) {
  return {version.learner_epoch, version.step, ""};
}

CompletionRow SummarizeCompletion(const Completion& completion) {
  const bool scorable = completion.outcome != Outcome::kUnscorable;
  CompletionRow row;
  row.outcome = completion.outcome;
  row.finish_reason = completion.finish_reason;
  // The rewards of an unscorable completion mean nothing and may be NaN; no reader looks at them.
  row.raw_reward = scorable ? completion.raw_reward : 0.0;
  row.reward = scorable ? completion.reward : 0.0;
  row.trained_tokens = TrainedLength(completion);
  row.total_tokens = static_cast<std::int32_t>(completion.token_ids.size());
  if (!completion.segments.empty()) {
    row.version_epoch = completion.segments.front().version.learner_epoch;
    row.version_step = completion.segments.front().version.step;
  }
  return row;
}

}  // namespace

std::string_view GroupStateName(GroupState state) {
  static constexpr std::array<std::string_view, kGroupStates> kNames = {
      "pending", "leased", "ready", "batched", "trained", "settled", "dropped"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view DropReasonName(DropReason reason) {
  static constexpr std::array<std::string_view, kDropReasons> kNames = {
      "none", "stale", "abandoned", "poison", "run_ended", "no_signal"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::vector<Outcome> AcceptedRow::outcomes() const {
  std::vector<Outcome> values;
  for (const CompletionRow& row : completions) values.push_back(row.outcome);
  return values;
}

std::vector<double> AcceptedRow::raw_rewards() const {
  std::vector<double> values;
  for (const CompletionRow& row : completions) values.push_back(row.raw_reward);
  return values;
}

AcceptedRow SummarizeGroup(const Group& group) {
  AcceptedRow row;
  row.group_id = group.group_id;
  row.prompt_tokens = static_cast<std::int32_t>(group.prompt_token_ids.size());
  std::vector<const Completion*> ordered;
  for (const Completion& completion : group.completions) ordered.push_back(&completion);
  std::ranges::sort(ordered, {}, &Completion::index);
  for (const Completion* completion : ordered) {
    row.completions.push_back(SummarizeCompletion(*completion));
    if (row.component_names.empty()) {
      for (const RewardComponent& part : completion->components)
        row.component_names.push_back(part.name);
    }
    for (const Segment& segment : completion->segments)
      row.versions.push_back(WithoutDigest(segment.version));
  }
  for (const Completion* completion : ordered) {
    for (std::size_t c = 0; c < row.component_names.size(); ++c) {
      row.components.push_back(c < completion->components.size() ? completion->components[c].value
                                                                 : 0.0);
    }
  }
  std::ranges::sort(row.versions, OlderThan);
  const auto repeated = std::ranges::unique(row.versions);
  row.versions.erase(repeated.begin(), repeated.end());
  row.collapse = ClassifyGroup(row.raw_rewards(), row.outcomes());
  return row;
}

PromptHistory AcceptedRow::own_history() const {
  PromptHistory own;
  for (const CompletionRow& row : completions) {
    own.correct += row.outcome == Outcome::kCorrect ? 1 : 0;
    own.scored += row.outcome == Outcome::kCorrect || row.outcome == Outcome::kWrong ? 1 : 0;
  }
  return own;
}

bool LedgerBatch::empty() const {
  return !run && groups.empty() && accepted.empty() && collapse.empty() && records.empty() &&
         skipped.empty() && plans.empty() && learners.empty() && commits.empty() &&
         manifests.empty() && checkpoints.empty();
}

bool LedgerBatch::accepts_only() const {
  const bool others = run || !skipped.empty() || !plans.empty() || !learners.empty() ||
                      !commits.empty() || !manifests.empty() || !checkpoints.empty();
  return !others && !accepted.empty() && std::ranges::all_of(groups, [](const GroupRow& group) {
    return group.state == GroupState::kReady || group.reason == DropReason::kNoSignal;
  });
}

void LedgerBatch::Append(LedgerBatch&& later) {
  const auto append = [](auto& rows, auto& more) {
    if (rows.empty()) return rows.swap(more);
    rows.insert(rows.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
  };
  if (later.run) run = std::move(later.run);
  append(groups, later.groups);
  append(accepted, later.accepted);
  for (auto& [source, counts] : later.collapse) collapse[source] = counts;
  for (auto& [row, record] : later.records) records[row] = record;
  append(skipped, later.skipped);
  append(plans, later.plans);
  append(learners, later.learners);
  append(commits, later.commits);
  append(manifests, later.manifests);
  append(checkpoints, later.checkpoints);
}

std::uint64_t ContentTag(std::string_view sha256) {
  BUTTRESS_CHECK(sha256.size() == 32, "a content hash has 32 bytes");
  std::uint64_t tag = 0;
  for (std::size_t i = 0; i < 8; ++i) tag = (tag << 8) | static_cast<unsigned char>(sha256[i]);
  return tag == 0 ? 1 : tag;
}

}  // namespace buttress
