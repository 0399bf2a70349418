// What the ledger holds, as plain values: the coordinator's scheduler speaks of nothing else, so it
// can be rebuilt from them.
//
// A LedgerBatch is what one batch of requests changed; its rows replace older rows of the same key.
// It is written in one transaction. A LedgerSnapshot is what a restarted coordinator starts from.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/experience/types.h"
#include "lib/rl/acr.h"
#include "lib/rl/prompt_selection.h"

namespace buttress {

// Life of a group; the moves stand at the head of coordinator/scheduler.h.
enum class GroupState : std::uint8_t {
  kPending,
  kLeased,
  kReady,
  kBatched,
  kTrained,
  kSettled,
  kDropped
};

inline constexpr std::size_t kGroupStates = 7;

// "pending", "leased", ...: the only names, in tables, metrics and text.
std::string_view GroupStateName(GroupState state);

// Why a group was dropped; kNone for every other state.
enum class DropReason : std::uint8_t {
  kNone,
  kStale,      // sampled from a version too old to be trained
  kAbandoned,  // sampled from a version that the learner went back behind
  kPoison,     // leased run.max_attempts times without a result
  kRunEnded,   // not needed any more
  // accepted and counted, but constant or unscorable, and replaced by another prompt
  // (zero_variance: resample)
  kNoSignal,
};

inline constexpr std::size_t kDropReasons = 6;

// "none", "stale", "abandoned", "poison", "run_ended", "no_signal".
std::string_view DropReasonName(DropReason reason);

// One draw of a prompt from the dataset. The prompt source finds tokens and answer again from
// `row`.
struct DrawnPrompt {
  std::string prompt_id;
  std::string source;
  std::uint64_t pass = 0;        // times the dataset was gone through before
  std::uint64_t row = 0;         // row of the dataset, from 0
  std::int32_t completions = 0;  // responses wanted, n <= G

  bool operator==(const DrawnPrompt&) const = default;
};

// One prompt that was passed over. Every position of a pass is drawn or passed over, once.
struct SkipRow {
  std::uint64_t pass = 0;
  std::uint64_t row = 0;  // of the dataset
  SkipReason reason = SkipReason::kEasy;

  bool operator==(const SkipRow&) const = default;
};

// Where the prompt source goes on: the next position in the order of `pass`.
struct PromptCursor {
  std::uint64_t pass = 0;
  std::uint64_t index = 0;

  bool operator==(const PromptCursor&) const = default;
};

// One drawn prompt on its way. Replaced whole at each move.
struct GroupRow {
  std::uint64_t group_id = 0;  // from 1, rising in admission order
  DrawnPrompt prompt;
  GroupState state = GroupState::kPending;
  DropReason reason = DropReason::kNone;
  std::int64_t attempts = 0;      // leases that count towards run.max_attempts
  std::uint64_t lease_epoch = 0;  // fence: rises with every lease, 0 before the first
  std::string worker_id;          // holder of the lease, or who sampled it
  std::uint64_t incarnation = 0;  // of that worker
  PolicyVersion min_version;      // as the last lease demanded
  PolicyVersion granted_version;  // announced when it was leased last
  std::uint64_t step =
      // of its plan; 0 while it has none. Dropped for kNoSignal: the step that it was replaced in
      0;
  std::uint32_t position = 0;  // in that plan
  std::int64_t passed = 0;     // younger groups that were planned before it
  bool holds_slot =
      false;  // active until announced; not so once the learner went back behind its step

  bool operator==(const GroupRow&) const = default;
};

// First byte after a payload's record; segment 0: there is none.
struct PayloadEnd {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;

  auto operator<=>(const PayloadEnd&) const = default;
};

inline constexpr std::uint64_t kPayloadHeaderBytes = 8;

// Where a payload lies (payload_store.h).
struct PayloadRef {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;  // of the record's first byte
  std::uint32_t bytes = 0;
  std::uint32_t check = 0;  // first four bytes of its SHA-256

  PayloadEnd end() const { return {segment, offset + kPayloadHeaderBytes + bytes}; }

  bool operator==(const PayloadRef&) const = default;
};

// One response without its tokens.
struct CompletionRow {
  Outcome outcome = Outcome::kUnspecified;
  FinishReason finish_reason = FinishReason::kUnspecified;
  double raw_reward = 0;
  double reward = 0;
  std::int32_t trained_tokens = 0;
  std::int32_t total_tokens = 0;
  std::uint64_t version_epoch = 0;  // oldest version that sampled it
  std::uint64_t version_step = 0;

  bool operator==(const CompletionRow&) const = default;
};

// Everything of an accepted group but its tokens; written once.
struct AcceptedRow {
  std::uint64_t group_id = 0;
  std::uint64_t lease_epoch = 0;
  std::string content_sha256;  // 32 bytes
  std::int32_t prompt_tokens = 0;
  std::vector<CompletionRow> completions;    // [n], by index
  std::vector<std::string> component_names;  // [C]
  std::vector<double> components;  // [n * C] row-major; 0 where an unscorable completion has none
  std::vector<PolicyVersion>
      versions;  // all that sampled it, oldest first, without digests; empty: no tokens
  CollapseClass collapse = CollapseClass::kUnscorable;
  PromptHistory history;  // of the prompt, as it was read before this group's own update
  PayloadRef payload;

  // [n]
  std::vector<Outcome> outcomes() const;
  std::vector<double> raw_rewards() const;

  // Of its completions: what the prompt's history grows by.
  PromptHistory own_history() const;

  bool operator==(const AcceptedRow&) const = default;
};

// Content of `group` for the ledger; lease epoch, hash, history and payload are the acceptance's to
// fill.
AcceptedRow SummarizeGroup(const Group& group);

struct PlanRow {
  std::uint64_t step = 0;
  std::vector<std::uint64_t> group_ids;  // [P], in order
  CollapseSnapshot
      // its step's counts are those of the groups drawn for it: of the plan, and replaced
      collapse;

  bool operator==(const PlanRow&) const = default;
};

// One start of the learner job and the checkpoint that it began from.
struct LearnerRow {
  std::uint64_t learner_epoch = 0;
  std::uint64_t start_step = 0;
  std::string checkpoint_digest;  // 32 bytes, or empty
  std::uint32_t world_size = 0;

  bool operator==(const LearnerRow&) const = default;
};

struct CommitRow {
  std::uint64_t learner_epoch = 0;
  std::uint64_t step = 0;

  bool operator==(const CommitRow&) const = default;
};

struct ManifestRow {
  PolicyVersion version;
  std::string bytes;  // v1::WeightManifest, serialized

  bool operator==(const ManifestRow&) const = default;
};

struct CheckpointRow {
  std::uint64_t learner_epoch = 0;
  std::uint64_t step = 0;
  std::string digest;  // 32 bytes

  bool operator==(const CheckpointRow&) const = default;
};

// The one row about the run itself.
struct RunRow {
  std::string run_name;
  std::string config_sha256;            // hex, of the `run` half of the configuration
  std::uint64_t coordinator_epoch = 0;  // starts of the coordinator
  std::uint64_t next_group_id = 1;
  PromptCursor cursor;
  std::uint64_t learner_epoch = 0;
  std::uint64_t planned_step = 0;    // last step with a plan
  std::uint64_t committed_step = 0;  // last step trained in the present lineage
  std::uint64_t settled_step = 0;    // last step behind a durable checkpoint
  std::optional<double> acr_ema;     // over planned steps; none before the first
  std::optional<GresoBases> greso;   // as the planned steps moved them; none before the first
  bool finished = false;             // the last step is settled

  bool operator==(const RunRow&) const = default;
};

// Rows to insert or replace.
struct LedgerBatch {
  std::optional<RunRow> run;
  std::vector<GroupRow> groups;  // in order: a later row of the same group replaces an earlier one
  std::vector<AcceptedRow> accepted;
  std::map<std::string, CollapseCounts> collapse;  // of all accepted groups, by source
  std::map<std::uint64_t, PromptRecord>
      records;  // by row of the dataset; only where the selection needs them
  std::vector<SkipRow> skipped;
  std::vector<PlanRow> plans;
  std::vector<LearnerRow> learners;
  std::vector<CommitRow> commits;
  std::vector<ManifestRow> manifests;
  std::vector<CheckpointRow> checkpoints;

  bool empty() const;

  // Nothing but groups that were accepted: the payload files alone can bring this back.
  bool accepts_only() const;

  // Puts what changed later behind this.
  void Append(LedgerBatch&& later);
};

// First 8 bytes of a SHA-256, never 0: what is remembered of a settled or replaced group, to
// recognise a submission that comes again.
std::uint64_t ContentTag(std::string_view sha256);

struct LedgerSnapshot {
  std::optional<RunRow> run;                      // none: a new ledger
  std::map<std::uint64_t, GroupRow> groups;       // neither settled nor dropped
  std::map<std::uint64_t, AcceptedRow> accepted;  // of those, the accepted ones
  std::map<std::string, PromptHistory>
      history;  // by prompt id: the sum over all its accepted groups
  std::map<std::string, CollapseCounts> collapse;
  std::map<std::uint64_t, PromptRecord> records;
  std::array<std::int64_t, kSkipReasons> skipped{};
  std::map<std::uint64_t, AcceptedRow>
      replaced;                            // by group id: dropped for kNoSignal since the last plan
  std::map<std::uint64_t, PlanRow> plans;  // not settled
  std::vector<LearnerRow> learners;        // by epoch
  std::optional<ManifestRow> announced;    // newest
  std::map<std::uint64_t, std::uint64_t>
      ended_tags;  // group id -> ContentTag, of settled and of replaced groups
  std::array<std::int64_t, kDropReasons> dropped{};

  bool operator==(const LedgerSnapshot&) const = default;
};

}  // namespace buttress
