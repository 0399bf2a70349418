// All groups of the run: the rows of those under way, the content tags of those that ended last,
// and the counts of all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/experience/plan.h"
#include "lib/ledger/rows.h"
#include "lib/ledger/token_account.h"

namespace buttress {

// A set of group ids in rising order; order_of_key returns how many are below one, in O(log n).
using GroupLine =
    __gnu_pbds::tree<std::uint64_t, __gnu_pbds::null_type, std::less<>, __gnu_pbds::rb_tree_tag,
                     __gnu_pbds::tree_order_statistics_node_update>;

// Sums over completions whose mean length is reported.
struct LengthTotals {
  std::int64_t completions = 0;
  std::int64_t tokens = 0;

  // A `sign` of -1 takes them back.
  void Add(const DrawnTotals& totals, std::int64_t sign) {
    completions += sign * totals.completions;
    tokens += sign * totals.tokens;
  }

  // Returns 0 without completions.
  double mean() const {
    return completions == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(completions);
  }

  bool operator==(const LengthTotals&) const = default;
};

// Not thread-safe. A call costs the same however many planned and ended groups the table holds,
// where it does not say otherwise. Every method that changes a group appends its row to `out`.
class GroupTable {
 public:
  GroupTable() = default;
  explicit GroupTable(const LedgerSnapshot& snapshot);

  // REQUIRES: the group is pending and its id is above all earlier ones.
  void Add(const GroupRow& row, LedgerChanges& out);

  // Returns null if the group has ended or was never admitted. The pointer is valid until the group
  // ends.
  const GroupRow* Find(std::uint64_t group_id) const;

  // Changes the state of a group; nothing else does. `change` edits further fields of the row
  // first. Settled and dropped groups leave the table.
  template <class Change>
  void Move(std::uint64_t group_id, GroupState state, LedgerChanges& out, Change change) {
    GroupRow& row = Detach(group_id);
    change(row);
    Attach(row, state, out);
  }

  void Move(std::uint64_t group_id, GroupState state, LedgerChanges& out) {
    Move(group_id, state, out, [](GroupRow&) {});
  }

  // `replaced_in` is, for kNoSignal, the step in which another group replaces this one.
  void Drop(std::uint64_t group_id, DropReason reason, LedgerChanges& out,
            std::uint64_t replaced_in = 0);

  // Changes a row but not its state.
  template <class Change>
  void Edit(std::uint64_t group_id, LedgerChanges& out, Change change) {
    Move(group_id, Find(group_id)->state, out, change);
  }

  // Moves a group from leased to ready, with its content.
  void Accept(AcceptedGroup accepted, LedgerChanges& out);

  // Moves a ready group to pending, and deletes its content.
  void SampleAgain(std::uint64_t group_id, LedgerChanges& out);

  // Changes the record in the head of an accepted group that has not ended, or is one of
  // followers().
  void SetRecord(std::uint64_t group_id, const PromptRecord& record, LedgerChanges& out);

  // REQUIRES: the group was accepted and has not ended.
  const AcceptedGroup& accepted(std::uint64_t group_id) const;

  // Returns the contents of all accepted groups that have not ended, by id.
  const std::map<std::uint64_t, AcceptedGroup>& accepted() const { return accepted_; }

  // Returns the accepted groups that have ended while a group of the same prompt that had come in
  // before them is under way, by id. That one may still be taken back: at once, or as soon as a
  // learner that goes back has taken it out of its plan.
  const std::map<std::uint64_t, EndedGroup>& followers() const { return followers_; }

  // Returns the ContentTag of an accepted group that has ended, from FirstEndedTag on, nullopt for
  // any other.
  std::optional<std::uint64_t> EndedTag(std::uint64_t group_id) const;

  // Returns the ids of the groups in `state`, in rising order, after a walk through all rows.
  // REQUIRES: a state of groups under way.
  std::vector<std::uint64_t> InState(GroupState state) const;

  // Returns the groups without a plan (pending, leased, ready), in admission order.
  const GroupLine& line() const { return line_; }

  // Returns the pending groups of the line.
  const std::set<std::uint64_t>& pending() const { return pending_; }

  // Returns the first group of the line that is not ready; nullopt if all are.
  std::optional<std::uint64_t> first_unready() const;

  // Returns the step of the oldest version that sampled an accepted group, but none that is older
  // than its lease allowed: such tokens are masked, or trained as they are (run.async.old_tokens).
  std::uint64_t OldestStep(const GroupRow& row) const;

  // Returns the least OldestStep of the ready groups; nullopt without a group.
  std::optional<std::uint64_t> oldest_ready_step() const;

  const std::map<std::uint64_t, GroupRow>& rows() const { return rows_; }

  // Returns the groups that hold a slot.
  const std::set<std::uint64_t>& slot_holders() const { return slot_holders_; }

  std::int64_t active_slots() const { return static_cast<std::int64_t>(slot_holders_.size()); }

  const std::array<std::int64_t, kGroupStates>& counts() const { return counts_; }

  const std::array<std::int64_t, kDropReasons>& dropped() const { return dropped_; }

  // Adds what became of the tokens of all accepted groups.
  void AddTokensTo(TokenAccount& account) const;

  // Returns the sums over the completions of the groups that have a plan and have not ended.
  const LengthTotals& planned() const { return planned_; }

  bool operator==(const GroupTable& other) const;

 private:
  using Place = std::pair<PayloadEnd, std::uint64_t>;  // AcceptedGroup::place

  // Of a prompt with accepted groups under way: these, and its followers.
  struct PromptPlaces {
    std::set<Place> accepted;
    std::set<Place> followers;
  };

  GroupRow& Detach(std::uint64_t group_id);
  void Attach(GroupRow& row, GroupState state, LedgerChanges& out);
  void ForgetOldTags();
  // Whether the group came in after an accepted one of its prompt that is under way.
  bool Follows(const GroupRow& group, const AcceptedGroup& accepted) const;
  // Forgets the followers of a prompt that no group under way came in before.
  void ForgetFollowers(std::uint64_t prompt_row);
  void CountEnded(const GroupRow& row, const v1::GroupHead& head, LedgerChanges& out);
  // Add the row to, and remove it from, everything that is derived from rows.
  void AddDerived(const GroupRow& row);
  void RemoveDerived(const GroupRow& row);
  void Count(const GroupRow& row, std::int64_t sign);

  std::map<std::uint64_t, GroupRow> rows_;
  std::map<std::uint64_t, AcceptedGroup> accepted_;
  std::map<std::uint64_t, EndedGroup> followers_;
  GroupLine line_;
  std::set<std::uint64_t> pending_;
  std::set<std::uint64_t> unready_;  // pending and leased
  std::set<std::uint64_t> slot_holders_;
  std::multiset<std::uint64_t> ready_steps_;           // OldestStep of the ready groups
  std::map<std::uint64_t, PromptPlaces> places_;       // by row of the dataset
  std::map<std::uint64_t, std::uint64_t> ended_tags_;  // by group id
  std::uint64_t next_group_id_ = 1;
  std::array<std::int64_t, kGroupStates> counts_{};
  std::array<std::int64_t, kDropReasons> dropped_{};
  EndedTokens ended_tokens_;
  TokenAccount tokens_under_way_;
  LengthTotals planned_;
};

}  // namespace buttress
