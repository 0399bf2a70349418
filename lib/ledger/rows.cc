#include "lib/ledger/rows.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

#include "lib/base/check.h"
#include "lib/base/digest.h"
#include "lib/base/minhash.h"

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little,
              "TokenDigest hashes token ids as they are in memory");

std::string TokenDigest(std::span<const std::int32_t> token_ids) {
  constexpr std::size_t kDigestBytes = 16;
  return Sha256Of({reinterpret_cast<const char*>(token_ids.data()), token_ids.size_bytes()})
      .substr(0, kDigestBytes);
}

// The rewards of an unscorable completion have no meaning and may be NaN: 0 stands for them.
void AddCompletion(const Completion& completion, v1::GroupHead& head) {
  const bool scorable = completion.outcome != Outcome::kUnscorable;
  head.add_outcomes(static_cast<v1::Outcome>(completion.outcome));
  head.add_finish_reasons(static_cast<v1::FinishReason>(completion.finish_reason));
  head.add_raw_rewards(scorable ? completion.raw_reward : 0.0);
  head.add_rewards(scorable ? completion.reward : 0.0);
  head.add_lengths(static_cast<std::int32_t>(completion.token_ids.size()));
  head.add_trained_lengths(scorable ? TrainedLength(completion) : 0);
  head.add_logprob_sums(
      std::accumulate(completion.logprobs.begin(), completion.logprobs.end(), 0.0));
  *head.mutable_token_digests() += TokenDigest(completion.token_ids);
  const MinHash sketch = SketchTokens(completion.token_ids);
  head.mutable_token_sketches()->append(reinterpret_cast<const char*>(sketch.data()),
                                        sizeof(sketch));
  for (int c = 0; c < head.component_names_size(); ++c) {
    const auto part = static_cast<std::size_t>(c);
    head.add_components(part < completion.components.size() ? completion.components[part].value
                                                            : 0.0);
  }
}

void AddVersions(const Group& group, v1::GroupHead& head) {
  std::vector<PolicyVersion> versions;
  for (const Completion& completion : group.completions) {
    for (const Segment& segment : completion.segments)
      versions.push_back({segment.version.learner_epoch, segment.version.step, ""});
  }
  std::ranges::sort(versions, OlderThan);
  versions.erase(std::unique(versions.begin(), versions.end()), versions.end());
  for (const PolicyVersion& version : versions) {
    v1::PolicyVersion* out = head.add_versions();
    out->set_learner_epoch(version.learner_epoch);
    out->set_step(version.step);
  }
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

v1::GroupHead SummarizeGroup(const Group& group) {
  v1::GroupHead head;
  head.set_group_id(group.group_id);
  head.set_prompt_id(group.prompt_id);
  head.set_source(group.source);
  head.set_worker_id(group.worker_id);
  head.set_prompt_tokens(static_cast<std::int32_t>(group.prompt_token_ids.size()));
  std::vector<const Completion*> ordered;
  for (const Completion& completion : group.completions) ordered.push_back(&completion);
  std::ranges::sort(ordered, {}, &Completion::index);
  for (const Completion* completion : ordered) {
    if (head.component_names_size() > 0) break;
    for (const RewardComponent& part : completion->components) {
      head.add_component_names(part.name);
      head.add_component_weights(part.weight);
    }
  }
  for (const Completion* completion : ordered) AddCompletion(*completion, head);
  AddVersions(group, head);
  head.set_collapse(
      static_cast<v1::CollapseClass>(ClassifyGroup(RawRewardsOf(head), OutcomesOf(head))));
  return head;
}

bool AcceptedGroup::operator==(const AcceptedGroup& other) const {
  return head->SerializeAsString() == other.head->SerializeAsString() &&
         lease_epoch == other.lease_epoch && content_sha256 == other.content_sha256 &&
         payload == other.payload && damaged == other.damaged;
}

PromptRecord RecordOf(const v1::GroupHead& head) {
  const v1::PromptRecord& record = head.record();
  return {.easy_in_a_row = record.easy_in_a_row(),
          .hard_in_a_row = record.hard_in_a_row(),
          .last_constant = record.last_constant(),
          .last_pass = record.last_pass(),
          .correct = record.correct(),
          .wrong = record.wrong()};
}

v1::PromptRecord ToProto(const PromptRecord& record) {
  v1::PromptRecord proto;
  proto.set_easy_in_a_row(record.easy_in_a_row);
  proto.set_hard_in_a_row(record.hard_in_a_row);
  proto.set_last_constant(record.last_constant);
  proto.set_last_pass(record.last_pass);
  proto.set_correct(record.correct);
  proto.set_wrong(record.wrong);
  return proto;
}

bool LedgerChanges::empty() const {
  return !run && groups.empty() && accepted.empty() && changed.empty() && collapse.empty() &&
         histories.empty() && records.empty() && skipped.empty() && plans.empty() &&
         drops.empty() && refills.empty() && learners.empty() && commits.empty() &&
         manifests.empty() && checkpoints.empty() && !early_end && orders.empty() &&
         starts.empty() && returned.empty() && !origin;
}

std::uint64_t ContentTag(std::string_view sha256) {
  BUTTRESS_CHECK(sha256.size() == 32, "a content hash has 32 bytes");
  std::uint64_t tag = 0;
  for (std::size_t i = 0; i < 8; ++i) tag = (tag << 8) | static_cast<unsigned char>(sha256[i]);
  return tag == 0 ? 1 : tag;
}

}  // namespace buttress
