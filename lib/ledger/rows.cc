#include "lib/ledger/rows.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "lib/base/check.h"
#include "lib/base/digest.h"

namespace buttress {
namespace {

PolicyVersion WithoutDigest(const PolicyVersion& version) {
  return {version.learner_epoch, version.step, ""};
}

static_assert(std::endian::native == std::endian::little,
              "TokenDigest hashes token ids as they are in memory");

std::string TokenDigest(std::span<const std::int32_t> token_ids) {
  constexpr std::size_t kDigestBytes = 16;
  return Sha256Of({reinterpret_cast<const char*>(token_ids.data()), token_ids.size_bytes()})
      .substr(0, kDigestBytes);
}

CompletionRow SummarizeCompletion(const Completion& completion) {
  const bool scorable = completion.outcome != Outcome::kUnscorable;
  CompletionRow row;
  row.outcome = completion.outcome;
  row.finish_reason = completion.finish_reason;
  // The rewards of an unscorable completion have no meaning and may be NaN; nothing reads them.
  row.raw_reward = scorable ? completion.raw_reward : 0.0;
  row.reward = scorable ? completion.reward : 0.0;
  row.trained_tokens = TrainedLength(completion);
  row.total_tokens = static_cast<std::int32_t>(completion.token_ids.size());
  if (!completion.segments.empty()) {
    row.version_epoch = completion.segments.front().version.learner_epoch;
    row.version_step = completion.segments.front().version.step;
  }
  row.logprob_sum = std::accumulate(completion.logprobs.begin(), completion.logprobs.end(), 0.0);
  row.token_digest = TokenDigest(completion.token_ids);
  row.token_sketch = SketchTokens(completion.token_ids);
  return row;
}

}  // namespace

std::string_view GroupStateName(GroupState state) {
  static constexpr std::array<std::string_view, kGroupStates> kNames = {
      "pending", "leased", "ready", "batched", "trained", "settled", "dropped"};
  return kNames[static_cast<std::size_t>(state)];
}

std::string_view WorkerOrderName(WorkerOrder order) {
  constexpr std::string_view kNames[kWorkerOrders] = {"none", "cordon", "drain"};
  return kNames[static_cast<std::size_t>(order)];
}

std::string_view DropReasonName(DropReason reason) {
  static constexpr std::array<std::string_view, kDropReasons> kNames = {
      "none", "stale", "poison", "run_ended", "no_signal", "damaged"};
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
  row.versions.erase(std::unique(row.versions.begin(), row.versions.end()), row.versions.end());
  row.collapse = ClassifyGroup(row.raw_rewards(), row.outcomes());
  return row;
}

std::uint64_t AcceptedRow::oldest_step() const {
  return std::ranges::min(versions, {}, &PolicyVersion::step).step;
}

PromptHistory AcceptedRow::own_history() const {
  std::int64_t correct = 0, scored = 0;
  for (const CompletionRow& row : completions) {
    correct += row.outcome == Outcome::kCorrect ? 1 : 0;
    scored += row.outcome == Outcome::kCorrect || row.outcome == Outcome::kWrong ? 1 : 0;
  }
  return {correct, scored};
}

bool LedgerChanges::empty() const {
  return !run && groups.empty() && accepted.empty() && collapse.empty() && records.empty() &&
         skipped.empty() && plans.empty() && drops.empty() && refills.empty() && learners.empty() &&
         commits.empty() && manifests.empty() && checkpoints.empty() && !early_end &&
         orders.empty() && starts.empty() && returned.empty() && records_before.empty() && !origin;
}

std::uint64_t ContentTag(std::string_view sha256) {
  BUTTRESS_CHECK(sha256.size() == 32, "a content hash has 32 bytes");
  std::uint64_t tag = 0;
  for (std::size_t i = 0; i < 8; ++i) tag = (tag << 8) | static_cast<unsigned char>(sha256[i]);
  return tag == 0 ? 1 : tag;
}

}  // namespace buttress
