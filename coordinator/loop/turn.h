// The state that the coordinator's loop and its requests share: a request reads and changes a turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "buttress/v1/weights.pb.h"
#include "coordinator/coordinator_metrics.h"
#include "coordinator/prompt_source.h"
#include "coordinator/run_reports.h"
#include "coordinator/schedule/scheduler.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// The constants of the run that requests read.
struct RunTerms {
  std::string start_id;  // of this start of the coordinator
  std::string config_sha256;
  std::uint64_t seed = 1;
  SamplingParams sampling;
  // Of sources whose completions have another bound than `sampling`.
  std::map<std::string, std::int32_t> max_tokens = {};
  ControlOptions controls = {};
  // kInvalidArgument, in the words of ValidateRunConfig, if run.batch.max_age cannot be this.
  std::function<Status(std::int64_t max_age)> check_max_age = {};
  std::int64_t max_hold_ms = 10000;  // bound of a long poll: its caller renews leases between calls
};

// The manifest of the newest weights, which every worker receives: parsed once.
struct AnnouncedManifest {
  PolicyVersion version;
  v1::WeightManifest manifest;

  // Makes this the manifest of `weights`. kDataLoss if its bytes are none.
  Status Parse(const ManifestRow& weights);
};

// What a request reads and changes while it is applied.
struct Turn {
  const RunTerms& terms;
  Scheduler& scheduler;
  PromptMix& prompts;
  PayloadStore& payloads;
  CoordinatorMetrics& metrics;
  LedgerChanges& changes;
  std::map<std::uint64_t, std::string>& leased_prompts;  // digest of the tokens, by leased group
  RunReports& reports;
  AnnouncedManifest& announced;
  std::int64_t now_ms = 0;
  bool draining = false;           // no new leases are granted and long polls are answered
  bool payloads_appended = false;  // set by a request that appends a payload
  std::string paused = {};         // why the run is paused, while only reads are applied
  Status full = {};                // set by a request that finds the disk full
  Status failed = {};              // set by a request after which the process must end
};

// What brings the answer to a parked call, in the order in which a turn visits them.
enum class Awaited : std::uint8_t {
  kChanges,  // anything that changes the run; few calls wait for this
  kNews,  // a worker with nothing to do but what it has: weights, orders, groups that were dropped
  kGroups,  // the same, or a group to lease
};

// How the loop treats a request.
struct RequestTerms {
  std::int64_t hold_ms = 0;            // how long it may be parked
  Awaited awaits = Awaited::kChanges;  // what it waits for while it is parked
  bool only_reads = false;  // changes nothing and is never parked; a pause does not refuse it
  std::size_t bytes = 0;    // memory that it takes while it waits; 0 where it is counted elsewhere
};

// A call that waits for the loop. The loop calls all methods on its own thread. The object lives
// until Answer is called.
class LoopRequest {
 public:
  explicit LoopRequest(const RequestTerms& t = {}) : terms(t) {}

  virtual ~LoopRequest() = default;

  // Applies the request to the run and returns its answer, or nullopt to keep a long poll parked.
  // REQUIRES: returns an answer if `last` or if the turn is draining.
  virtual std::optional<Status> Apply(Turn& turn, bool last) = 0;

  // Returns true once nobody waits for the answer.
  virtual bool cancelled() const = 0;

  // Receives the answer once everything that Apply changed is durable. May delete the request.
  virtual void Answer(const Status& status) = 0;

  const RequestTerms terms;
};

}  // namespace buttress
