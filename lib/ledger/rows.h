// The rows of the ledger as plain values. The state of the coordinator's scheduler consists of
// these rows and nothing else, so that it can be rebuilt from the ledger.
//
// LedgerChanges holds the rows that one turn of the coordinator changed; it is written in one
// transaction. LedgerSnapshot holds what a restarted coordinator starts from.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/experience/group_head.h"
#include "lib/experience/plan.h"
#include "lib/experience/types.h"
#include "lib/rl/collapse/acr.h"
#include "lib/rl/collapse/difficulty.h"
#include "lib/rl/collapse/sources.h"
#include "lib/rl/prompt_selection.h"

namespace buttress {

// The life of a group; coordinator/schedule/scheduler.h shows the moves between the states.
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

// "pending", "leased", ...: the names in tables, metrics and messages.
std::string_view GroupStateName(GroupState state);

// What an operator wants of a worker: nothing, no new leases, or that it leaves.
enum class WorkerOrder : std::uint8_t { kNone, kCordon, kDrain };

inline constexpr std::size_t kWorkerOrders = 3;

// "none", "cordon", "drain".
std::string_view WorkerOrderName(WorkerOrder order);

// Why a group was dropped; kNone for a group in any other state.
enum class DropReason : std::uint8_t {
  kNone,
  kStale,     // it was sampled from a version that is too old to be trained
  kPoison,    // it was leased run.max_attempts times without a result
  kRunEnded,  // the run needs it no more
  kNoSignal,  // it was accepted and counted, but is constant or unscorable: another prompt
              // replaces it (zero_variance: resample)
  kDamaged,   // its payload is damaged: the coordinator found it, or an operator gave it up
};

inline constexpr std::size_t kDropReasons = 6;

// "none", "stale", "poison", "run_ended", "no_signal", "damaged".
std::string_view DropReasonName(DropReason reason);

// One draw of a prompt from the dataset. The prompt source reads tokens and answer again from
// `row`.
struct DrawnPrompt {
  std::string prompt_id;
  std::string source;
  std::uint64_t pass = 0;        // completed passes over its source before this draw
  std::uint64_t row = 0;         // row of the dataset, from 0, counted through all sources
  std::int32_t completions = 0;  // completions wanted, n <= G
  double probability = 1;        // with which it was drawn when its turn came (mode greso)

  bool operator==(const DrawnPrompt&) const = default;
};

// A prompt that was passed over. Every row of a pass is drawn or passed over exactly once.
struct SkipRow {
  std::uint64_t pass = 0;
  std::uint64_t row = 0;  // of the dataset
  SkipReason reason = SkipReason::kEasy;
  std::string source = {};  // of prompts, as SourceRow.name

  bool operator==(const SkipRow&) const = default;
};

// The next position in a source of prompts: an index into the order of `pass`.
struct PromptCursor {
  std::uint64_t pass = 0;
  std::uint64_t index = 0;
  std::uint64_t drawn = 0;  // prompts so far, of all passes

  bool operator==(const PromptCursor&) const = default;
};

// A drawn prompt and its place in the life of a group.
struct GroupRow {
  std::uint64_t group_id = 0;  // from 1, rising in admission order
  DrawnPrompt prompt;
  GroupState state = GroupState::kPending;
  DropReason reason = DropReason::kNone;
  std::int64_t attempts = 0;      // leases that count towards run.max_attempts
  std::uint64_t lease_epoch = 0;  // fencing token: rises with every lease, 0 before the first
  std::string worker_id;          // the worker that holds the lease or sampled the group
  std::uint64_t incarnation = 0;  // of that worker
  PolicyVersion min_version;      // the oldest version that the last lease allowed
  PolicyVersion granted_version;  // the newest version when the group was last leased
  std::uint64_t step = 0;         // of its plan, 0 without one; for kNoSignal and kDamaged, the
                                  // step in which another group replaces this one
  std::uint32_t position = 0;     // in that plan
  std::int64_t passed = 0;        // younger groups that were planned before this one
  bool holds_slot = false;        // active; false again once its step's version is announced, or
                                  // for a planned group, once another learner has started

  bool operator==(const GroupRow&) const = default;
};

// The first byte behind a payload's record; segment 0 if there is no record.
struct PayloadEnd {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;

  auto operator<=>(const PayloadEnd&) const = default;
};

inline constexpr std::uint64_t kPayloadHeaderBytes = 32;

// Where a payload is stored (payload_store.h).
struct PayloadRef {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;  // of the record's first byte
  std::uint32_t bytes = 0;
  std::uint64_t check = 0;  // of header and payload

  PayloadEnd end() const { return {segment, offset + kPayloadHeaderBytes + bytes}; }

  bool operator==(const PayloadRef&) const = default;
};

// An accepted group without its tokens.
struct AcceptedGroup {
  // With everything that the coordinator fills in: history, record and class.
  GroupHeadPtr head;
  std::uint64_t lease_epoch = 0;
  std::string content_sha256;  // 32 bytes
  PayloadRef payload;

  std::uint64_t id() const { return head->group_id(); }

  // Its results, after those of the prompt's visits of late.
  GroupTrials trials() const {
    return {RecentTrialsOf(HistoryOf(*head)), TrialsOf(OwnHistoryOf(*head))};
  }

  // Returns the place of the group in the order in which groups came in.
  std::pair<PayloadEnd, std::uint64_t> place() const { return {payload.end(), id()}; }

  // Heads are compared by their content.
  bool operator==(const AcceptedGroup& other) const;
};

// Returns the head of `group`. The scheduler fills source, history and record when it accepts the
// group.
v1::GroupHead SummarizeGroup(v1::Group group);

// The prompt's record in a head, and back.
PromptRecord RecordOf(const v1::GroupHead& head);
v1::PromptRecord ToProto(const PromptRecord& record);

struct PlanRow {
  std::uint64_t step = 0;
  std::vector<std::uint64_t> group_ids;  // [P], in order; 0 where a group was dropped and no other
                                         // has taken its place yet
  CollapseSnapshot collapse;  // `step` counts the groups drawn for the step: those of the
                              // plan and those that they replaced
  DrawnTotals drawn = {};     // of the same groups
  std::optional<DrawControl> control = {};

  bool operator==(const PlanRow&) const = default;
};

// A group that was given up because its payload is damaged.
struct DropRow {
  std::uint64_t group_id = 0;
  std::uint64_t step = 0;  // of the plan that held it, 0 without one
  std::uint32_t position = 0;
  std::uint64_t replaced_by = 0;  // the group that has its place now, 0 without one; not written
  std::string reason;             // what is damaged, or the operator's words

  bool operator==(const DropRow&) const = default;
};

// A group that takes the place of a dropped one.
struct RefillRow {
  PlanRow plan;  // as it is now
  std::uint32_t position = 0;

  std::uint64_t group_id() const { return plan.group_ids[position]; }

  bool operator==(const RefillRow&) const = default;
};

// A start of the learner job and the checkpoint that it started from.
struct LearnerRow {
  std::uint64_t learner_epoch = 0;
  std::uint64_t start_step = 0;
  std::string checkpoint_digest;  // 32 bytes, or empty
  std::uint32_t world_size = 0;
  std::string secret_sha256 = {};  // of the secret that the job names in its calls, 32 bytes

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

// A learner ended the run with its newest checkpoint, before the last step. It counts until a
// learner registers, which has a higher epoch.
struct EarlyEndRow {
  std::uint64_t learner_epoch = 0;
  std::uint64_t step = 0;               // of the checkpoint
  std::uint64_t coordinator_epoch = 0;  // at that time
  std::string reason;                   // the learner's words

  bool operator==(const EarlyEndRow&) const = default;
};

// An order in force for a worker until it is taken back (kNone).
struct WorkerOrderRow {
  std::string worker_id;
  WorkerOrder order = WorkerOrder::kNone;
  std::string reason;

  bool operator==(const WorkerOrderRow&) const = default;
};

// Tokens of accepted groups that have ended.
struct EndedTokens {
  std::int64_t trained = 0;  // of settled groups, in the loss
  std::int64_t masked = 0;   // of settled groups, outside of the loss
  std::int64_t stale = 0;    // of dropped groups, and of those that are sampled again

  bool operator==(const EndedTokens&) const = default;
};

// What a worker process has said of the tokens that its engine sampled (v1::WorkerTokens), and how
// many of them are in groups that were accepted.
struct WorkerTokensRow {
  std::string worker_id;
  std::uint64_t incarnation = 0;
  std::int64_t generated = 0;
  std::int64_t cut = 0;
  std::int64_t refused = 0;
  std::int64_t accepted = 0;

  bool operator==(const WorkerTokensRow&) const = default;
};

// What identifies a dataset wherever it lies.
struct DatasetIdentity {
  std::uint64_t rows = 0;
  std::string sha256;  // hex, of the file

  bool operator==(const DatasetIdentity&) const = default;
};

// A start of the coordinator.
struct StartRow {
  std::uint64_t coordinator_epoch = 0;
  std::string start_id;  // random, 32 hex digits: two copies of a ledger differ in it

  bool operator==(const StartRow&) const = default;
};

// A source of prompts and how far the run has drawn from it.
struct SourceRow {
  std::string name;  // in run.data.sources; empty for run.data.prompts
  DatasetIdentity dataset;
  PromptCursor cursor;

  bool operator==(const SourceRow&) const = default;
};

// The one row about the run itself.
struct RunRow {
  std::string run_id = {};  // random, 32 hex digits: made with the ledger, never changed
  std::string run_name;
  std::string config_sha256;  // hex, of the `run` half of the configuration
  // By name. Rows of the dataset are counted through all of them: the first row of a source is
  // behind the last one of the source before it.
  std::vector<SourceRow> sources;
  std::uint64_t coordinator_epoch = 0;  // starts of the coordinator
  std::uint64_t next_group_id = 1;
  std::uint64_t learner_epoch = 0;
  std::uint64_t planned_step = 0;     // last step with a plan
  std::uint64_t committed_step = 0;   // last step trained in the present lineage
  std::uint64_t checkpoint_step = 0;  // last step behind a durable checkpoint
  std::uint64_t settled_step = 0;     // last step behind the durable checkpoint before that one
  std::optional<double> acr_ema;      // over the planned steps; nullopt before the first
  std::optional<GresoBases> greso;    // adapted by the planned steps; nullopt before the first
  bool finished = false;              // the last step is settled
  std::optional<std::int64_t> ordered_max_age;  // in place of run.batch.max_age

  bool operator==(const RunRow&) const = default;
};

// The checkpoint of another run that this run began from (`buttress launch --from`).
struct OriginRow {
  std::string run_id;                           // of that run
  std::uint64_t step = 0;                       // of the checkpoint; this run began with the next
  std::string digest;                           // of the checkpoint, 32 bytes
  std::map<std::string, PromptCursor> cursors;  // from which this run draws, by source

  bool operator==(const OriginRow&) const = default;
};

// Rows to insert, or to replace rows of the same key.
struct LedgerChanges {
  std::optional<RunRow> run;
  std::vector<GroupRow> groups;  // in order: a later row of a group replaces an earlier one
  std::vector<AcceptedGroup> accepted;
  // Accepted groups whose record changes, because an earlier group of the prompt is taken back.
  std::map<std::uint64_t, AcceptedGroup> changed;
  std::map<std::string, CollapseCounts> collapse;    // of all accepted groups, by source
  std::map<std::uint64_t, PromptHistory> histories;  // by row of the dataset
  std::map<std::uint64_t, PromptRecord> records;     // by row of the dataset
  std::vector<SkipRow> skipped;
  std::vector<PlanRow> plans;
  std::vector<DropRow> drops;      // also take the groups out of their plans
  std::vector<RefillRow> refills;  // put groups into plans
  std::vector<LearnerRow> learners;
  std::vector<CommitRow> commits;
  std::vector<ManifestRow> manifests;
  std::vector<CheckpointRow> checkpoints;
  std::optional<EarlyEndRow> early_end;
  std::vector<WorkerOrderRow> orders;  // in order: a later row of a worker replaces an earlier one
  std::vector<StartRow> starts;
  std::optional<OriginRow> origin;  // with the first changes of a run
  std::optional<EndedTokens> ended_tokens;
  std::vector<WorkerTokensRow> worker_tokens;  // in order, as orders
  std::vector<std::uint64_t> returned;  // groups whose content is taken back, to be sampled again;
                                        // deleted before anything else is written

  bool operator==(const LedgerChanges&) const = default;

  bool empty() const { return *this == LedgerChanges(); }
};

// The first 8 bytes of a SHA-256, never 0. The scheduler keeps it of the last accepted groups that
// have ended, to recognise a repeated submission.
std::uint64_t ContentTag(std::string_view sha256);

// How far back ended groups are remembered: a submission that is repeated later finds only that its
// lease has ended.
inline constexpr std::uint64_t kEndedTags = 4096;

// Returns the first group whose ContentTag is kept when the next group to be admitted is
// `next_group_id`.
std::uint64_t FirstEndedTag(std::uint64_t next_group_id);

// How many of the newest announced versions are remembered. No group may be older than
// run.batch.max_age and the window allow, which is far less.
inline constexpr std::uint64_t kKeptVersions = 512;

// The groups that have ended.
struct EndedCounts {
  std::int64_t settled = 0;
  std::array<std::int64_t, kDropReasons> dropped{};  // by reason

  bool operator==(const EndedCounts&) const = default;
};

// An accepted group that has ended.
struct EndedGroup {
  GroupRow group;
  AcceptedGroup accepted;

  bool operator==(const EndedGroup&) const = default;
};

struct LedgerSnapshot {
  std::optional<RunRow> run;                        // nullopt for a new ledger
  std::map<std::uint64_t, GroupRow> groups;         // neither settled nor dropped
  std::map<std::uint64_t, AcceptedGroup> accepted;  // the accepted ones of `groups`
  std::map<std::uint64_t, EndedGroup> followers;    // ended ones of the prompts of `accepted`,
                                                    // which came in after the first of those
  std::vector<PromptHistory> histories;             // by row of the dataset; later rows have none
  std::map<std::string, CollapseCounts> collapse;   // of all accepted groups, by source
  std::map<std::string, RecentDifficulty> difficulty;  // by source
  RecentCollapse recent;                               // of the last planned steps
  std::optional<DrawControl> control;                  // of the last planned step
  std::map<std::uint64_t, PromptRecord> records;       // of the prompts of `groups`, by row of the
                                                       // dataset; a row without any is missing
  std::map<std::string, SkipCounts> skipped;           // prompts passed over, by source
  std::map<std::uint64_t, AcceptedGroup> replaced;     // by group id: kNoSignal since the last plan
  std::map<std::uint64_t, PlanRow> plans;              // not settled
  std::vector<LearnerRow> learners;                    // by epoch
  std::optional<ManifestRow> announced;                // the newest version
  std::map<std::uint64_t, std::uint64_t> ended_tags;   // group id -> ContentTag, of accepted groups
                                                       // that have ended, from FirstEndedTag on
  EndedCounts ended;
  std::map<std::string, WorkerOrderRow> orders;  // by worker id, without kNone
  std::vector<StartRow> starts;                  // by epoch
  std::vector<PolicyVersion> versions;     // announced: the newest kKeptVersions, oldest first
  std::vector<CheckpointRow> checkpoints;  // from settled_step on, by learner epoch, then step
  std::optional<EarlyEndRow> early_end;    // by the learner that registered last
  EndedTokens ended_tokens;
  std::vector<WorkerTokensRow> worker_tokens;  // by worker id, then incarnation

  bool operator==(const LedgerSnapshot&) const = default;
};

}  // namespace buttress
