#include "coordinator/schedule/group_table.h"

#include <algorithm>
#include <utility>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

std::size_t Index(GroupState state) { return static_cast<std::size_t>(state); }

bool HasPlan(GroupState state) {
  return state == GroupState::kBatched || state == GroupState::kTrained;
}

bool IsUnready(GroupState state) {
  return state == GroupState::kPending || state == GroupState::kLeased;
}

bool IsAccepted(GroupState state) { return state == GroupState::kReady || HasPlan(state); }

bool HasEnded(GroupState state) {
  return state == GroupState::kSettled || state == GroupState::kDropped;
}

}  // namespace

GroupTable::GroupTable(const LedgerSnapshot& snapshot)
    : rows_(snapshot.groups),
      accepted_(snapshot.accepted),
      followers_(snapshot.followers),
      ended_tags_(snapshot.ended_tags),
      next_group_id_(snapshot.run ? snapshot.run->next_group_id : 1),
      dropped_(snapshot.ended.dropped),
      ended_tokens_(snapshot.ended_tokens) {
  for (const auto& [id, row] : rows_) {
    AddDerived(row);
    if (!HasPlan(row.state)) line_.insert(id);
  }
  for (const auto& [id, ended] : snapshot.followers)
    places_[ended.group.prompt.row].followers.insert(ended.accepted.place());
  for (const auto& [id, ended] : snapshot.followers) ForgetFollowers(ended.group.prompt.row);
  counts_[Index(GroupState::kSettled)] = snapshot.ended.settled;
  for (const std::int64_t count : dropped_) counts_[Index(GroupState::kDropped)] += count;
}

void GroupTable::Add(const GroupRow& row, LedgerChanges& out) {
  BUTTRESS_CHECK(row.state == GroupState::kPending, "a group begins as pending");
  BUTTRESS_CHECK(next_group_id_ <= row.group_id, "group ids rise in admission order");
  next_group_id_ = row.group_id + 1;
  ForgetOldTags();
  rows_.emplace(row.group_id, row);
  line_.insert(row.group_id);
  AddDerived(row);
  out.groups.push_back(row);
}

const GroupRow* GroupTable::Find(std::uint64_t group_id) const {
  const auto row = rows_.find(group_id);
  return row == rows_.end() ? nullptr : &row->second;
}

void GroupTable::Drop(std::uint64_t group_id, DropReason reason, LedgerChanges& out,
                      std::uint64_t replaced_in) {
  ++dropped_[static_cast<std::size_t>(reason)];
  Move(group_id, GroupState::kDropped, out, [&](GroupRow& row) {
    row.reason = reason;
    if (replaced_in != 0) row.step = replaced_in;
  });
}

void GroupTable::Accept(AcceptedGroup accepted, LedgerChanges& out) {
  const std::uint64_t id = accepted.id();
  out.accepted.push_back(accepted);
  accepted_.emplace(id, std::move(accepted));
  Move(id, GroupState::kReady, out);
}

void GroupTable::SampleAgain(std::uint64_t group_id, LedgerChanges& out) {
  Move(group_id, GroupState::kPending, out, [](GroupRow& row) {
    --row.attempts;
    row.worker_id.clear();
    row.incarnation = 0;
  });
  ended_tokens_.stale += TokensOf(*accepted(group_id).head);
  out.ended_tokens = ended_tokens_;
  accepted_.erase(group_id);
  out.changed.erase(group_id);
  const auto same = [group_id](const AcceptedGroup& group) { return group.id() == group_id; };
  // The ledger has no content yet of a group that was accepted in this turn.
  if (std::erase_if(out.accepted, same) == 0) out.returned.push_back(group_id);
}

void GroupTable::SetRecord(std::uint64_t group_id, const PromptRecord& record, LedgerChanges& out) {
  const auto ended = followers_.find(group_id);
  const auto row = accepted_.find(group_id);
  BUTTRESS_CHECK(ended != followers_.end() || row != accepted_.end(),
                 "only an accepted group has a record before it");
  AcceptedGroup& group = ended != followers_.end() ? ended->second.accepted : row->second;
  v1::GroupHead head = *group.head;
  *head.mutable_record() = ToProto(record);
  group.head = std::make_shared<const v1::GroupHead>(std::move(head));
  out.changed[group_id] = group;
}

const AcceptedGroup& GroupTable::accepted(std::uint64_t group_id) const {
  const auto row = accepted_.find(group_id);
  BUTTRESS_CHECK(row != accepted_.end(), "only an accepted group has content");
  return row->second;
}

std::optional<std::uint64_t> GroupTable::EndedTag(std::uint64_t group_id) const {
  const auto tag = ended_tags_.find(group_id);
  return tag == ended_tags_.end() ? std::nullopt : std::optional(tag->second);
}

std::optional<std::uint64_t> GroupTable::first_unready() const {
  return unready_.empty() ? std::nullopt : std::optional(*unready_.begin());
}

std::uint64_t GroupTable::OldestStep(const GroupRow& row) const {
  const AcceptedGroup& group = accepted(row.group_id);
  return std::max(OldestStepOf(*group.head), row.min_version.step);
}

std::optional<std::uint64_t> GroupTable::oldest_ready_step() const {
  return ready_steps_.empty() ? std::nullopt : std::optional(*ready_steps_.begin());
}

// The other members are derived from these; of the derived ones, the sums are compared as well, so
// that a restored table proves them.
bool GroupTable::operator==(const GroupTable& other) const {
  return rows_ == other.rows_ && accepted_ == other.accepted_ && ended_tags_ == other.ended_tags_ &&
         dropped_ == other.dropped_ && counts_ == other.counts_ &&
         slot_holders_ == other.slot_holders_ && followers_ == other.followers_ &&
         ended_tokens_ == other.ended_tokens_ && tokens_under_way_ == other.tokens_under_way_ &&
         planned_ == other.planned_;
}

std::vector<std::uint64_t> GroupTable::InState(GroupState state) const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, row] : rows_) {
    if (row.state == state) ids.push_back(id);
  }
  return ids;
}

GroupRow& GroupTable::Detach(std::uint64_t group_id) {
  const auto row = rows_.find(group_id);
  BUTTRESS_CHECK(row != rows_.end(), "a group that moves is under way");
  RemoveDerived(row->second);
  return row->second;
}

void GroupTable::Attach(GroupRow& row, GroupState state, LedgerChanges& out) {
  const std::uint64_t id = row.group_id;
  row.state = state;
  if (state == GroupState::kLeased) row.holds_slot = true;
  if (state == GroupState::kPending || HasEnded(state)) row.holds_slot = false;
  AddDerived(row);
  out.groups.push_back(row);
  if (HasPlan(state) || HasEnded(state)) line_.erase(id);
  if (!IsAccepted(state)) ForgetFollowers(row.prompt.row);
  if (!HasEnded(state)) return;
  if (const auto content = accepted_.find(id); content != accepted_.end()) {
    CountEnded(row, *content->second.head, out);
    if (Follows(row, content->second)) {
      followers_[id] = {row, content->second};
      places_[row.prompt.row].followers.insert(content->second.place());
    }
    ended_tags_[id] = ContentTag(content->second.content_sha256);
    ForgetOldTags();
  }
  accepted_.erase(id);
  rows_.erase(id);
}

void GroupTable::CountEnded(const GroupRow& row, const v1::GroupHead& head, LedgerChanges& out) {
  const std::int64_t tokens = TokensOf(head);
  if (row.state == GroupState::kSettled) {
    const std::int64_t trained = TrainedTokensOf(head);
    ended_tokens_.trained += trained;
    ended_tokens_.masked += tokens - trained;
  } else {
    ended_tokens_.stale += tokens;
  }
  out.ended_tokens = ended_tokens_;
}

void GroupTable::AddTokensTo(TokenAccount& account) const {
  account.trained += ended_tokens_.trained + tokens_under_way_.trained;
  account.masked += ended_tokens_.masked + tokens_under_way_.masked;
  account.stale += ended_tokens_.stale;
  account.parked += tokens_under_way_.parked;
}

bool GroupTable::Follows(const GroupRow& group, const AcceptedGroup& accepted) const {
  const auto prompt = places_.find(group.prompt.row);
  return prompt != places_.end() && *prompt->second.accepted.begin() < accepted.place();
}

void GroupTable::ForgetFollowers(std::uint64_t prompt_row) {
  auto& [accepted, followers] = places_[prompt_row];
  while (!followers.empty() && (accepted.empty() || *followers.begin() < *accepted.begin())) {
    followers_.erase(followers.begin()->second);
    followers.erase(followers.begin());
  }
  if (accepted.empty()) places_.erase(prompt_row);
}

void GroupTable::ForgetOldTags() {
  const auto first = ended_tags_.lower_bound(FirstEndedTag(next_group_id_));
  ended_tags_.erase(ended_tags_.begin(), first);
}

void GroupTable::AddDerived(const GroupRow& row) {
  const std::uint64_t id = row.group_id;
  Count(row, 1);
  if (row.holds_slot) slot_holders_.insert(id);
  if (row.state == GroupState::kPending) pending_.insert(id);
  if (IsUnready(row.state)) unready_.insert(id);
  if (IsAccepted(row.state)) places_[row.prompt.row].accepted.insert(accepted(id).place());
  if (row.state == GroupState::kReady) ready_steps_.insert(OldestStep(row));
}

void GroupTable::RemoveDerived(const GroupRow& row) {
  const std::uint64_t id = row.group_id;
  Count(row, -1);
  slot_holders_.erase(id);
  pending_.erase(id);
  unready_.erase(id);
  if (IsAccepted(row.state)) places_[row.prompt.row].accepted.erase(accepted(id).place());
  if (row.state == GroupState::kReady) ready_steps_.erase(ready_steps_.find(OldestStep(row)));
}

void GroupTable::Count(const GroupRow& row, std::int64_t sign) {
  counts_[Index(row.state)] += sign;
  if (!IsAccepted(row.state)) return;
  const v1::GroupHead& head = *accepted(row.group_id).head;
  TokenAccount tokens;
  AddGroup(row, head, tokens);
  tokens_under_way_.trained += sign * tokens.trained;
  tokens_under_way_.masked += sign * tokens.masked;
  tokens_under_way_.parked += sign * tokens.parked;
  if (!HasPlan(row.state)) return;
  DrawnTotals totals;
  totals.Add(head);
  planned_.Add(totals, sign);
}

}  // namespace buttress
