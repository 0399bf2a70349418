#include "lib/ledger/rows.h"

#include <algorithm>
#include <cstring>

#include "lib/base/report/check.h"
#include "lib/experience/episodes.h"
#include "lib/experience/group.h"

namespace buttress {

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

v1::GroupHead SummarizeGroup(v1::Group group) {
  FillDerivedColumns(group);
  v1::GroupHead head = std::move(*group.mutable_head());
  const auto [raw_rewards, outcomes] = VerdictsOf(head);
  head.set_collapse(static_cast<v1::CollapseClass>(ClassifyGroup(raw_rewards, outcomes)));
  return head;
}

bool AcceptedGroup::operator==(const AcceptedGroup& other) const {
  return head->SerializeAsString() == other.head->SerializeAsString() &&
         lease_epoch == other.lease_epoch && content_sha256 == other.content_sha256 &&
         payload == other.payload;
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

std::uint64_t FirstEndedTag(std::uint64_t next_group_id) {
  return next_group_id > kEndedTags ? next_group_id - kEndedTags : 1;
}

std::uint64_t ContentTag(std::string_view sha256) {
  BUTTRESS_CHECK(sha256.size() == 32, "a content hash has 32 bytes");
  std::uint64_t tag = 0;
  for (std::size_t i = 0; i < 8; ++i) tag = (tag << 8) | static_cast<unsigned char>(sha256[i]);
  return tag == 0 ? 1 : tag;
}

}  // namespace buttress
