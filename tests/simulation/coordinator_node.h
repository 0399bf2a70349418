// The process of the coordinator: the real loop, scheduler, ledger and payload store, without their
// thread and without gRPC. It dies at any event or between two of its calls that change the disk,
// and its supervisor starts it again on what the disk has.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/loop/loop_core.h"
#include "coordinator/rpc/arriving_group.h"
#include "coordinator/rpc/known_starts.h"
#include "coordinator/standby/mirror.h"
#include "lib/data/prompt_set.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/folder_disk.h"
#include "tests/simulation/world.h"

namespace buttress::simulation {

// What every process of the run is configured with.
struct RunSetup {
  SchedulerOptions options;
  RunSettings run;  // as far as prompts are drawn by it
  const PromptSet* prompts = nullptr;
  RunTerms terms;
  std::uint64_t segment_bytes = 4096;
  bool keep_payloads = false;
  std::uint64_t archive_steps = 0;
  std::uint64_t ended_tags = kEndedTags;  // in the place of that number
  std::int64_t checkpoint_interval = 2;
  std::int64_t partial_ms = 0;  // as WorkerOptions'
  bool mask_old = false;
  StandbyMode standby = StandbyMode::kOff;
};

// A state of the ledger: the start of the coordinator, and its turns that wrote.
struct LedgerPlace {
  std::uint64_t start = 0;
  std::uint64_t turn = 0;

  auto operator<=>(const LedgerPlace&) const = default;
};

class CoordinatorNode;

// A call that has arrived.
class NodeCall : public LoopRequest {
 public:
  NodeCall(CoordinatorNode& node, const RequestTerms& how) : LoopRequest(how), node_(node) {}

  void Answer(const Status& status) final;

  // Sends the answer, after the turn that gave it.
  virtual void Reply(const Status& status, std::unique_ptr<NodeCall> self) = 0;

  // The process is gone.
  virtual void Drop() = 0;

  std::uint64_t number = 0;

 protected:
  CoordinatorNode& node_;
};

class CoordinatorNode final : public Inbox {
 public:
  CoordinatorNode(World& world, Checker& checker, FolderDisk& disk, const RunSetup& setup);
  ~CoordinatorNode() override;
  CoordinatorNode(const CoordinatorNode&) = delete;
  CoordinatorNode& operator=(const CoordinatorNode&) = delete;

  // Starts the process; one that cannot start is tried again. REQUIRES: it does not run.
  void Start();

  // The process dies, the power of its machine fails, or the run folder is put back from a copy.
  void Kill();
  void FailPower();
  void PutBack(const FolderDisk::Copy& copy, const History& history);

  // For the standby: the mirror while the process runs and may be followed, otherwise null.
  Mirror* mirror() { return running() ? mirror_.get() : nullptr; }

  const LedgerPlace& place() const { return place_; }

  // The last place of which a caller has learnt.
  const LedgerPlace& acknowledged() const { return acknowledged_; }

  // What is known of the run at a place of which the standby has a copy; a transaction after it may
  // be there as well.
  History HistoryAt(const LedgerPlace& place) const;

  // Is called when there are records for the standby, with whether the process dies.
  void OnRecords(std::function<void(bool)> records) { records_ = std::move(records); }

  void DetachStandby(std::uint64_t id) {
    if (mirror_) mirror_->Detach(id);
  }

  // The standby has confirmed a place.
  void StandbyHas(const LedgerPlace& place);

  // SIGTERM: answers what waits, closes, and starts again.
  void Drain();

  // The process ends and does not start again before StartSoon: by itself, or killed.
  void Stop(bool kill);
  void StartSoon();

  // Is called instead of another start when the ledger is found to be damaged.
  void OnDamage(std::function<void()> repair) { repair_ = std::move(repair); }

  // The process dies in its next archive, before this call that changes the disk; nullopt: no more.
  void KillInArchive(std::optional<std::uint64_t> calls) { kill_in_archive_ = calls; }

  // Another process is started on the same disk. REQUIRES: this one runs.
  void StartSecond();

  const KnownStarts& known_starts() const { return known_starts_; }

  // The process stops for a while and goes on.
  void Pause(std::int64_t ms);

  // Hands over a call; the process runs.
  void Receive(std::unique_ptr<NodeCall> call);

  bool running() const { return core_ != nullptr; }

  const ProcessPtr& process() const { return process_; }

  // REQUIRES: running().
  const LoopCore& core() const { return *core_; }

  PayloadStore& payloads() { return *payloads_; }

  MachineClock& clock() { return clock_; }

  FolderDisk& disk() { return disk_; }

  World& world() { return world_; }

  Checker& checker() { return checker_; }

  const RunSetup& setup() const { return setup_; }

  Quota& arriving() { return arriving_; }

  CoordinatorMetrics& metrics() { return *metrics_; }

  void SetFreeBytes(std::uint64_t bytes) { free_bytes_ = bytes; }

  // The turn that runs has an answer to `call`.
  void Finish(NodeCall& call, const Status& status) { outbox_.emplace_back(call.number, status); }

  // For the seam under the ledger: what a transaction of this process does.
  Status WriteLedger(Ledger& ledger, const LedgerChanges& changes);
  Status SyncPayloads(PayloadStore& payloads);
  Result<std::int64_t> Archive(const std::function<Result<std::int64_t>()>& real);
  std::uint64_t FirstTag(std::uint64_t next_group_id) const;

  bool in_turn() const { return in_turn_; }

  // For planted faults: of the learner that registered last, and first answers by step.
  std::string newest_secret;
  std::map<std::uint64_t, v1::Plan> first_plans;

  // A leap of the machine's time, of which leases must not notice.
  void ExpectNoExpiry() { leapt_ = true; }

 private:
  Status Open();
  void Close();
  // The process has ended for this reason.
  void StartAfter(const Status& why);
  // What is left of a process that has died.
  void Bury();
  void RunTurn();
  void RunTurnsOfTheStall();
  // Whether the answers of the turn wait for a synchronous standby, as in Mirror::EndTurn, which
  // would keep the only thread.
  bool MustWait() const;
  void KeepHistory();
  void EndTurn();
  void PlanTurn(std::int64_t delay_ms);
  void Flush();

  std::vector<LoopRequest*> Take() override { return std::exchange(inbox_, {}); }

  bool empty() const override { return inbox_.empty(); }

  bool draining() const override { return draining_; }

  void Done(const LoopRequest&) override {}

  World& world_;
  Checker& checker_;
  FolderDisk& disk_;
  const RunSetup& setup_;
  Dice dice_;
  MachineClock clock_;
  ProcessPtr process_;
  std::unique_ptr<Metrics> registry_;
  std::unique_ptr<CoordinatorMetrics> metrics_;
  std::unique_ptr<Mirror> mirror_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PayloadStore> payloads_;
  std::unique_ptr<LoopCore> core_;
  std::map<std::uint64_t, std::unique_ptr<NodeCall>> calls_;
  std::vector<LoopRequest*> inbox_;
  std::vector<std::pair<std::uint64_t, Status>> outbox_;
  Quota arriving_{4096, std::uint64_t{1} << 30};
  std::function<void()> repair_;
  std::optional<LedgerSnapshot> first_snapshot_;  // planted
  std::uint64_t next_call_ = 1;
  std::uint64_t starts_ = 0;
  KnownStarts known_starts_;
  std::function<void(bool)> records_;
  LedgerPlace place_, acknowledged_, confirmed_;
  std::map<LedgerPlace, History> histories_;  // at places that the standby may have
  bool waits_ = false;                        // for the standby
  std::uint64_t turn_number_ = 0;             // of the turn that is planned
  std::int64_t turn_at_ms_ = -1;
  std::int64_t last_turn_ms_ = 0;
  std::uint64_t free_bytes_ = std::uint64_t{1} << 40;
  int overdue_turns_ = 0;  // one behind the other
  bool draining_ = false;
  bool in_turn_ = false;
  bool archives_ = false;  // an archive is being written
  std::optional<std::uint64_t> kill_in_archive_;
  bool leapt_ = false;
  bool sync_left_ = false;  // planted: of payloads, after the commit
};

}  // namespace buttress::simulation
