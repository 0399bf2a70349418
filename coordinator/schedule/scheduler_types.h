// The arguments and results of the scheduler as plain values. The service converts them to and from
// the wire.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/sections/async_config.h"
#include "lib/config/sections/data_config.h"
#include "lib/config/sections/draw_control_config.h"
#include "lib/experience/episode_ends.h"
#include "lib/experience/lease.h"
#include "lib/experience/partial.h"
#include "lib/experience/plan.h"
#include "lib/experience/types.h"
#include "lib/ledger/rows.h"
#include "lib/ledger/token_account.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {

struct SchedulerOptions {
  std::string run_name;
  std::string config_sha256;              // hex, of the `run` half of the configuration
  std::string new_run_id;                 // random: the id of a run that starts now
  std::string start_id;                   // random: the id of this start
  std::vector<SourceRow> sources;         // at the beginning of each
  std::uint64_t steps = 1;                // of the run
  std::int64_t prompts = 1;               // P
  std::int64_t max_age = 1;               // S
  std::int64_t window = 1;                // W
  std::int64_t lease_ms = 30000;          // life of a lease that is not renewed
  std::int64_t lease_limit_ms = 3600000;  // life of a lease that is renewed
  std::int64_t max_attempts = 5;          // leases of a group before it is dropped as poison
  bool deterministic = false;             // leases name exact versions
  OldTokens old_tokens = OldTokens::kDrop;
  // With `resample`, groups without a signal are replaced: at most replace_cap between two plans
  // and replace_budget in the run (0: no bound).
  bool resample = false;
  std::int64_t replace_cap = 0;
  std::int64_t replace_budget = 0;
  DrawControlConfig control;  // decides how many of replace_cap a step may use
  SelectionConfig selection;  // decides what is recorded of prompts
  double history_decay = 1;   // of a prompt's recent results at each of its groups
};

// What the prompt source reads of earlier groups.
struct PromptMemory {
  // Returns the record of the prompt in a row of the dataset, a default one before its first
  // accepted group.
  std::function<Result<PromptRecord>(std::uint64_t row)> record;
  GresoBases greso;
};

// Work handed to a worker.
struct GrantedLease {
  LeaseRef ref;
  DrawnPrompt prompt;
  PolicyVersion min_version;   // load this or a newer one first
  bool exact_version = false;  // only min_version itself will do
  std::int64_t ttl_ms = 0;
  std::vector<PartialCompletion> partials = {};  // to continue
};

struct WorkerExchange {
  std::string worker_id;
  std::uint64_t incarnation = 0;
  std::vector<LeaseRef> held;
  std::vector<LeaseRef> finished;
  std::vector<ReturnedLease> returned;
  // Groups that it can take beyond those it holds; 0 while the coordinator or the worker drains.
  std::int64_t capacity = 0;
  PolicyVersion loaded_version;
  std::string secret_sha256 = {};
  WorkerTokens tokens = {};
  std::vector<std::pair<LeaseRef, PartialCompletion>> partials = {};
};

struct ExchangeReply {
  std::vector<GrantedLease> leases;  // held ones that it did not name, then new ones
  std::vector<LeaseRef> revoked;
};

// A group that a worker submits. `head` comes from SummarizeGroup; the scheduler fills what it
// knows of the prompt when it accepts the group.
struct Submission {
  std::string worker_id;
  std::uint64_t incarnation = 0;
  LeaseRef lease;
  std::string content_sha256;  // 32 bytes
  v1::GroupHead head;
  PayloadRef payload;  // Submit needs it, Check does not
};

enum class SubmitOutcome : std::uint8_t {
  kAccepted,
  kDuplicate,    // the same content was accepted before
  kStaleFence,   // the lease has ended; nothing changes
  kStalePolicy,  // sampled from a version that is too old or abandoned: refused, and the group is
                 // sampled again
  kConflict,     // other content was accepted under this lease; refused
  kMismatch,     // not what was leased: another prompt, no or too many completions, or a version
                 // that was never announced; refused
};

inline constexpr std::size_t kSubmitOutcomes = 6;

// "accepted", "duplicate", ...: labels of buttress_coordinator_submissions_total.
std::string_view SubmitOutcomeName(SubmitOutcome outcome);

// host:port; empty where a worker has no such port.
struct WorkerAddresses {
  std::string metrics;
  std::string weights;  // of its Weights service
};

// Workers that are known at the same time.
inline constexpr std::size_t kMaxWorkers = std::size_t{1} << 16;

// A process that registers as a worker.
struct JoiningWorker {
  std::string id;
  std::uint64_t incarnation = 0;
  WorkerAddresses addresses = {};
  std::string run_id = {};    // of its registration before; empty for a new process
  std::string start_id = {};  // of the coordinator that it registered with before
  std::string secret_sha256 = {};
};

// Ends of leases that were no delivery, since the last delivery of the worker.
struct WorkerStrikes {
  int count = 0;
  std::int64_t last_ms = 0;
  std::set<std::string> groups;  // ids of the first few
};

struct WorkerInfo {
  std::uint64_t incarnation = 0;
  std::string secret_sha256;
  WorkerAddresses addresses;
  PolicyVersion loaded_version;
  std::int64_t last_heard_ms = 0;
  std::uint64_t joined = 0;             // coordinator epoch in which its process first registered
  std::vector<std::uint64_t> replaced;  // incarnations before this one; the newest few
  WorkerStrikes strikes;
};

// Counts events since this process started, for metrics that restart with it.
// Accepted episodes of run.env.
struct EpisodeEvents {
  std::array<std::int64_t, kEpisodeEnds.size()> ends{};  // by v1::EpisodeEnd
  std::int64_t turns = 0;
  std::int64_t policy_tokens = 0;       // that the policy sampled
  std::int64_t environment_tokens = 0;  // that tools, environments and agents wrote
  std::int64_t tool_calls = 0, failed_tool_calls = 0;

  // Adds the episodes of a group; nothing outside of run.env.
  void Add(const v1::GroupHead& head);

  bool operator==(const EpisodeEvents&) const = default;
};

struct SchedulerEvents {
  std::int64_t leases_granted = 0;
  std::int64_t leases_shared = 0;  // of late groups, granted to a further worker
  std::int64_t leases_expired = 0;
  std::int64_t leases_returned = 0;
  std::int64_t tokens_continued = 0;         // kept tokens of groups, handed to a further lease
  std::int64_t leases_lost_with_worker = 0;  // its process was replaced
  std::int64_t batches_filled = 0;           // plans that hold groups without a signal, because no
                                             // more could be replaced
  std::array<std::int64_t, kSubmitOutcomes> submissions{};
  EpisodeEvents episodes;
};

// How far an operator's stop of the run has come. A restart of the coordinator forgets it.
enum class StopPhase : std::uint8_t {
  kNone,
  kRequested,  // no plan and no new lease is given
  kDone,       // the learner knows, and all that it committed is in a durable checkpoint
};

struct SchedulerStatus {
  RunRow run;
  std::uint64_t total_steps = 0;
  std::optional<PolicyVersion> announced;
  std::array<std::int64_t, kGroupStates> groups{};   // by state; the sum is all prompts drawn
  std::array<std::int64_t, kDropReasons> dropped{};  // by reason
  std::map<std::string, SkipCounts> skipped;         // prompts passed over, by source of prompts
  std::optional<GresoBases> greso;                   // if the selection is greso
  std::int64_t active_slots = 0;
  std::int64_t slot_budget = 0;  // B
  CollapseCounts collapse;       // all accepted groups
  std::map<std::string, CollapseCounts> collapse_by_source;
  TokenAccount tokens;
  std::int64_t max_age = 0;      // S in force
  std::int64_t kept_tokens = 0;  // of unfinished groups, for leases that follow
  // Mean tokens of the completions drawn for the plans that are not settled, and of those in these
  // plans; 0 without any.
  double drawn_length = 0;
  double planned_length = 0;
};

}  // namespace buttress
