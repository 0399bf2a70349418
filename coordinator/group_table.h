// All groups of the run: rows of those under way, what is remembered of those that ended, and the
// counts of both.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/group_line.h"
#include "lib/ledger/rows.h"

namespace buttress {

// Not thread-safe. Every change is appended to the LedgerChanges that it is given.
class GroupTable {
 public:
  GroupTable() = default;
  explicit GroupTable(const LedgerSnapshot& snapshot);

  // REQUIRES: pending, with an id above all before it.
  void Add(const GroupRow& row, LedgerChanges& out);

  // Null if the group ended or never was. Pointers and rows stay valid until the group ends.
  const GroupRow* Find(std::uint64_t group_id) const;

  // The one place where a group changes state. `change` edits further fields of the row first.
  // Settled and dropped groups leave the table; `row` is then gone.
  template <class Change>
  void Move(std::uint64_t group_id, GroupState state, LedgerChanges& out, Change change) {
    GroupRow& row = Take(group_id);
    change(row);
    Put(row, state, out);
  }

  void Move(std::uint64_t group_id, GroupState state, LedgerChanges& out) {
    Move(group_id, state, out, [](GroupRow&) {});
  }

  // `replaced_in`: for kNoSignal, the step that another group takes its place in.
  void Drop(std::uint64_t group_id, DropReason reason, LedgerChanges& out,
            std::uint64_t replaced_in = 0);

  // Changes a row without a change of state.
  template <class Change>
  void Edit(std::uint64_t group_id, LedgerChanges& out, Change change) {
    Move(group_id, Find(group_id)->state, out, change);
  }

  // leased -> ready, with what was accepted.
  void Accept(AcceptedRow accepted, LedgerChanges& out);

  // REQUIRES: the group was accepted and has not ended.
  const AcceptedRow& accepted(std::uint64_t group_id) const;

  // Of all groups that were accepted and have not ended, by id.
  const std::map<std::uint64_t, AcceptedRow>& accepted() const { return accepted_; }

  // ContentTag of a settled or replaced group; none for any other.
  std::optional<std::uint64_t> EndedTag(std::uint64_t group_id) const;

  // Ids of groups in `state`, rising; not for settled and dropped.
  std::vector<std::uint64_t> InState(GroupState state) const;

  // Groups without a plan (pending, leased, ready), in admission order.
  const GroupLine& line() const { return line_; }

  // Those of the line that are pending.
  const std::set<std::uint64_t>& pending() const { return pending_; }

  // Groups leased by each worker; workers without any are left out.
  const std::map<std::string, std::set<std::uint64_t>>& leased() const { return leased_; }

  // Groups leased by `worker_id`, rising.
  std::vector<std::uint64_t> LeasedBy(const std::string& worker_id) const;

  const std::map<std::uint64_t, GroupRow>& rows() const { return rows_; }

  // Groups that hold a slot.
  std::int64_t active_slots() const { return active_slots_; }

  const std::array<std::int64_t, kGroupStates>& counts() const { return counts_; }

  const std::array<std::int64_t, kDropReasons>& dropped() const { return dropped_; }

  bool operator==(const GroupTable& other) const;

 private:
  GroupRow& Take(std::uint64_t group_id);
  void Put(GroupRow& row, GroupState state, LedgerChanges& out);
  // Adds to, or takes from, everything that is derived from the row.
  void Enter(const GroupRow& row);
  void Leave(const GroupRow& row);

  std::map<std::uint64_t, GroupRow> rows_;
  std::map<std::uint64_t, AcceptedRow> accepted_;
  GroupLine line_;
  std::set<std::uint64_t> pending_;
  std::map<std::string, std::set<std::uint64_t>> leased_;
  std::vector<std::uint64_t> ended_tags_;  // by group id, 0 where there is none
  std::int64_t active_slots_ = 0;
  std::array<std::int64_t, kGroupStates> counts_{};
  std::array<std::int64_t, kDropReasons> dropped_{};
};

}  // namespace buttress
