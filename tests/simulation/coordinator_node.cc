#include "tests/simulation/coordinator_node.h"

#include <algorithm>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/checked_files.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/plants.h"
#include "tests/simulation/seams.h"

namespace buttress::simulation {
namespace {

constexpr int kMostOverdueTurns = 100;
constexpr std::uint64_t kNever = std::uint64_t{1} << 60;
constexpr std::int64_t kLongestStallMs = LeaseClock::kLongestTurnMs;

CoordinatorNode* node = nullptr;  // whose ledger the seam is under

}  // namespace

// The linker calls these instead of the functions that the loop calls (CMakeLists.txt).
#define BUTTRESS_SEAM(name) asm("__wrap_" name)
#define BUTTRESS_REAL(name) asm("__real_" name)
#define BUTTRESS_WRITE "_ZN8buttress6Ledger5WriteERKNS_13LedgerChangesE"
#define BUTTRESS_ARCHIVE                                                                 \
  "_ZN8buttress6Ledger7ArchiveEmlRKSt8functionIFvRKNSt7__cxx1112basic_stringIcSt11char_" \
  "traitsIcESaIcEEEEE"
#define BUTTRESS_FIRST_TAG "_ZN8buttress13FirstEndedTagEm"
#define BUTTRESS_SYNC "_ZN8buttress12PayloadStore4SyncEv"
#define BUTTRESS_DELETE "_ZN8buttress12PayloadStore12DeleteBeforeEm"
#define BUTTRESS_EXPIRE "_ZN8buttress9Scheduler6ExpireElRNS_13LedgerChangesE"

Status RealWrite(Ledger* ledger, const LedgerChanges& changes) BUTTRESS_REAL(BUTTRESS_WRITE);
Status SeamWrite(Ledger* ledger, const LedgerChanges& changes) BUTTRESS_SEAM(BUTTRESS_WRITE);
using ArchiveWritten = std::function<void(const std::string&)>;
Result<std::int64_t> RealArchive(Ledger* ledger, std::uint64_t min_steps, std::int64_t most,
                                 const ArchiveWritten& written) BUTTRESS_REAL(BUTTRESS_ARCHIVE);
Result<std::int64_t> SeamArchive(Ledger* ledger, std::uint64_t min_steps, std::int64_t most,
                                 const ArchiveWritten& written) BUTTRESS_SEAM(BUTTRESS_ARCHIVE);
std::uint64_t RealFirstTag(std::uint64_t next_group_id) BUTTRESS_REAL(BUTTRESS_FIRST_TAG);
std::uint64_t SeamFirstTag(std::uint64_t next_group_id) BUTTRESS_SEAM(BUTTRESS_FIRST_TAG);
Status RealSync(PayloadStore* payloads) BUTTRESS_REAL(BUTTRESS_SYNC);
Status SeamSync(PayloadStore* payloads) BUTTRESS_SEAM(BUTTRESS_SYNC);
Result<int> RealDelete(PayloadStore* payloads, std::uint64_t first) BUTTRESS_REAL(BUTTRESS_DELETE);
Result<int> SeamDelete(PayloadStore* payloads, std::uint64_t first) BUTTRESS_SEAM(BUTTRESS_DELETE);
void RealExpire(Scheduler* scheduler, std::int64_t now_ms, LedgerChanges& out)
    BUTTRESS_REAL(BUTTRESS_EXPIRE);
void SeamExpire(Scheduler* scheduler, std::int64_t now_ms, LedgerChanges& out)
    BUTTRESS_SEAM(BUTTRESS_EXPIRE);

Status SeamWrite(Ledger* ledger, const LedgerChanges& changes) {
  Pass(Seam::kTransaction);
  return node == nullptr ? RealWrite(ledger, changes) : node->WriteLedger(*ledger, changes);
}

Result<std::int64_t> SeamArchive(Ledger* ledger, std::uint64_t min_steps, std::int64_t most,
                                 const ArchiveWritten& written) {
  Pass(Seam::kArchive);
  const auto real = [&] { return RealArchive(ledger, min_steps, most, written); };
  return node == nullptr ? real() : node->Archive(real);
}

std::uint64_t SeamFirstTag(std::uint64_t next_group_id) {
  Pass(Seam::kFirstEndedTag);
  return node == nullptr ? RealFirstTag(next_group_id) : node->FirstTag(next_group_id);
}

Status SeamSync(PayloadStore* payloads) {
  Pass(Seam::kPayloadSync);
  return node == nullptr ? RealSync(payloads) : node->SyncPayloads(*payloads);
}

Result<int> SeamDelete(PayloadStore* payloads, std::uint64_t first) {
  Pass(Seam::kPayloadDeletion);
  return RealDelete(payloads, first + (Planted(Plant::kPayloadDeletedEarly) ? 1 : 0));
}

void SeamExpire(Scheduler* scheduler, std::int64_t now_ms, LedgerChanges& out) {
  Pass(Seam::kExpiry);
  if (!Planted(Plant::kExpiryForgotten)) RealExpire(scheduler, now_ms, out);
}

extern "C" int __wrap_flock(int descriptor, int operation) {
  Pass(Seam::kLock);
  return Planted(Plant::kLedgerLockLost) ? 0 : __real_flock(descriptor, operation);
}

void NodeCall::Answer(const Status& status) { node_.Finish(*this, status); }

CoordinatorNode::CoordinatorNode(World& world, Checker& checker, FolderDisk& disk,
                                 const RunSetup& setup)
    : world_(world),
      checker_(checker),
      disk_(disk),
      setup_(setup),
      dice_(world.seed(), "coordinator"),
      clock_(world) {
  BUTTRESS_CHECK(node == nullptr, "one coordinator lives at a time");
  node = this;
}

CoordinatorNode::~CoordinatorNode() {
  if (running()) disk_.disk().KillAfter(0);
  calls_.clear();
  core_.reset();
  Close();
  node = nullptr;
}

void CoordinatorNode::Start() {
  process_ = std::make_shared<Process>(Process{"coordinator"});
  draining_ = false;
  turn_at_ms_ = -1;
  const Status status = Open();
  if (disk_.disk().killed()) {
    world_.Tell("coordinator: killed while it starts");
    return Kill();
  }
  if (!status.ok()) {
    world_.Tell("coordinator: cannot start: {}", status.ToString());
    world_.Count("coordinator could not start");
    core_.reset();
    Close();
    disk_.Restart();
    return StartAfter(status);
  }
  world_.Tell("coordinator: started, epoch {}", core_->scheduler().run().coordinator_epoch);
  world_.Count("coordinator started");
  last_turn_ms_ = 0;
  PlanTurn(0);
}

// As Coordinator::OpenLedger.
Status CoordinatorNode::Open() {
  registry_ = std::make_unique<Metrics>("coordinator");
  metrics_ = std::make_unique<CoordinatorMetrics>(*registry_, RunConfig(), "", disk_.folder());
  // MustWait waits in its place.
  if (setup_.standby != StandbyMode::kOff)
    mirror_ = std::make_unique<Mirror>(disk_.folder(), StandbyMode::kAsynchronous, 0, *registry_);
  BUTTRESS_ASSIGN_OR_RETURN(ledger_, Ledger::Open(disk_.folder() + "/ledger.db"));
  BUTTRESS_ASSIGN_OR_RETURN(LedgerSnapshot snapshot, ledger_->Load());
  if (Planted(Plant::kSnapshotStale)) {
    if (!first_snapshot_ && snapshot.run) first_snapshot_ = snapshot;
    if (first_snapshot_) snapshot = *first_snapshot_;
  }
  checker_.Loaded(snapshot);
  SchedulerOptions options = setup_.options;
  if (Planted(Plant::kStalenessOffByOne)) ++options.max_age;
  if (Planted(Plant::kWindowOffByOne)) ++options.window;
  options.start_id = ToHex(Sha256Of(fmt::format("start {} {}", world_.seed(), ++starts_)));
  options.start_id.resize(32);
  LedgerChanges changes;
  BUTTRESS_ASSIGN_OR_RETURN(Scheduler scheduler,
                            Scheduler::Restore(options, snapshot, clock_.MonotonicMs(), changes));
  checker_.Restored(scheduler);
  BUTTRESS_ASSIGN_OR_RETURN(const PayloadEnd end_of_all, ledger_->EndOfAllPayloads());
  BUTTRESS_ASSIGN_OR_RETURN(payloads_,
                            PayloadStore::Open(disk_.folder() + "/payloads", ledger_->payload_end(),
                                               end_of_all, setup_.segment_bytes));
  PromptMix mix(*setup_.prompts, setup_.run);
  BUTTRESS_RETURN_IF_ERROR(mix.Resume(scheduler.sources()));
  BUTTRESS_RETURN_IF_ERROR(ledger_->Write(changes));
  checker_.Started(scheduler.run().coordinator_epoch);
  known_starts_ = {scheduler.run().run_id, options.start_id, {options.start_id}};
  for (const StartRow& start : snapshot.starts) known_starts_.all.insert(start.start_id);
  if (mirror_) mirror_->Start(scheduler.run().run_id);
  place_ = {starts_, 0};
  const CollapseCounts last_plan =
      snapshot.plans.empty() ? CollapseCounts() : snapshot.plans.rbegin()->second.collapse.step;
  RunTerms terms = setup_.terms;
  terms.start_id = options.start_id;
  core_ = std::make_unique<LoopCore>(
      LoopCore::Parts{.terms = std::move(terms),
                      .scheduler = std::move(scheduler),
                      .prompts = std::move(mix),
                      .ledger = *ledger_,
                      .payloads = *payloads_,
                      .metrics = *metrics_,
                      .clock = clock_,
                      .last_plan = last_plan,
                      .keep_payloads = setup_.keep_payloads,
                      .disk = {disk_.folder(), [this] { return std::optional(free_bytes_); }},
                      .out = "",
                      .archive_steps = setup_.archive_steps,
                      .mirror = mirror_.get()},
      *this);
  return OkStatus();
}

void CoordinatorNode::Close() {
  payloads_.reset();
  ledger_.reset();
  if (std::exchange(mirror_, nullptr)) disk_.HideDatabase();
  metrics_.reset();
  registry_.reset();
}

void CoordinatorNode::StartSoon() {
  world_.After(dice_.Between(100, 1500), nullptr, [this] {
    if (!running()) Start();
  });
}

// Damage of the ledger is for an operator, who must be told what to do.
void CoordinatorNode::StartAfter(const Status& why) {
  const bool damaged = why.code() == StatusCode::kDataLoss;
  if (!damaged || !repair_) return StartSoon();
  world_.Count("a damaged ledger was refused");
  world_.Expect(why.message().find(kLedgerMend) != std::string::npos,
                "(I6) whoever refuses a damaged ledger names the mend");
  repair_();
}

void CoordinatorNode::Stop(bool kill) {
  if (kill && !disk_.disk().killed()) disk_.disk().KillAfter(0);
  Bury();
  disk_.Restart();
}

void CoordinatorNode::Bury() {
  if (process_) process_->alive = false;
  if (records_ && mirror_) records_(/*dies=*/true);
  waits_ = false;
  outbox_.clear();
  inbox_.clear();
  core_.reset();
  for (const auto& [number, call] : std::exchange(calls_, {})) call->Drop();
  Close();
}

void CoordinatorNode::Kill() {
  Stop(/*kill=*/true);
  StartSoon();
}

void CoordinatorNode::FailPower() {
  if (!disk_.disk().killed()) disk_.disk().KillAfter(0);
  Bury();
  disk_.FailPower();
  StartSoon();
}

void CoordinatorNode::PutBack(const FolderDisk::Copy& copy, const History& history) {
  Stop(/*kill=*/true);
  disk_.PutBack(copy);
  KeepHistory();
  checker_.PutBack(history);
  StartSoon();
}

void CoordinatorNode::Drain() {
  if (!running()) return;
  draining_ = true;
  PlanTurn(0);
  world_.After(dice_.Between(50, 500), process_, [this] {
    world_.Tell("coordinator: closed");
    Stop(/*kill=*/false);
    StartSoon();
  });
}

void CoordinatorNode::StartSecond() {
  const Status second = Ledger::Open(disk_.folder() + "/ledger.db").status();
  world_.Expect(second.code() == StatusCode::kFailedPrecondition,
                "(I8) a ledger has one coordinator at a time");
}

void CoordinatorNode::Pause(std::int64_t ms) {
  if (!running()) return;
  process_->paused_until_ms = std::max(process_->paused_until_ms, world_.now_ms() + ms);
  if (ms > kLongestStallMs) ExpectNoExpiry();
}

void CoordinatorNode::Receive(std::unique_ptr<NodeCall> call) {
  if (call->number == 0) call->number = next_call_++;
  inbox_.push_back(call.get());
  calls_[call->number] = std::move(call);
  PlanTurn(dice_.Between(0, 2));
}

void CoordinatorNode::PlanTurn(std::int64_t delay_ms) {
  const std::int64_t at_ms = world_.now_ms() + delay_ms;
  if (turn_at_ms_ >= world_.now_ms() && turn_at_ms_ <= at_ms) return;
  turn_at_ms_ = at_ms;
  world_.After(delay_ms, process_, [this, number = ++turn_number_] {
    if (number == turn_number_) RunTurn();
  });
}

void CoordinatorNode::RunTurn() {
  turn_at_ms_ = -1;
  if (waits_) return;
  const std::int64_t expired = core_->scheduler().events().leases_expired;
  in_turn_ = true;
  sync_left_ = false;
  if (Planted(Plant::kStallRuleLost)) RunTurnsOfTheStall();
  core_->RunTurn();
  in_turn_ = false;
  last_turn_ms_ = clock_.MonotonicMs();
  if (disk_.disk().killed()) {
    world_.Tell("coordinator: killed in a write");
    world_.Count("coordinator killed in a write");
    return dice_.Chance(50) ? Kill() : FailPower();
  }
  world_.Expect(!leapt_ || core_->scheduler().events().leases_expired == expired,
                "a stall of the coordinator costs nobody a lease");
  leapt_ = false;
  if (records_ && mirror_) records_(/*dies=*/false);
  waits_ = MustWait();
  if (!waits_) return EndTurn();
  world_.Count("a turn waits for the standby");
}

bool CoordinatorNode::MustWait() const {
  return setup_.standby == StandbyMode::kSynchronous && confirmed_ < place_ &&
         !Planted(Plant::kStandbyNotAwaited);
}

void CoordinatorNode::StandbyHas(const LedgerPlace& place) {
  confirmed_ = std::max(confirmed_, place);
  histories_.erase(histories_.begin(), histories_.lower_bound(place));
  if (!waits_ || MustWait()) return;
  waits_ = false;
  EndTurn();
}

// Another transaction may follow a place after the one that failed; a start follows none.
void CoordinatorNode::KeepHistory() {
  if (setup_.standby == StandbyMode::kOff) return;
  const auto kept = histories_.try_emplace(place_, checker_.history());
  if (!kept.second && core_) kept.first->second = checker_.history();
}

History CoordinatorNode::HistoryAt(const LedgerPlace& place) const {
  const auto found = histories_.find(place);
  return found == histories_.end() ? checker_.history() : found->second;
}

void CoordinatorNode::EndTurn() {
  Flush();
  if (!core_->failed().ok()) {
    world_.Tell("coordinator: ends: {}", core_->failed().ToString());
    world_.Count("coordinator ended by an error");
    const Status failed = core_->failed();
    Stop(/*kill=*/false);
    return StartAfter(failed);
  }
  const std::int64_t wait_ms = core_->WaitMs();
  overdue_turns_ = wait_ms == 0 ? overdue_turns_ + 1 : 0;
  world_.Expect(overdue_turns_ < kMostOverdueTurns,
                "(I12) a lease or a call outlives its deadline, turn after turn");
  PlanTurn(inbox_.empty() ? std::max<std::int64_t>(wait_ms, 1) : 1);
}

// Planted: the time of a stall passes turn by turn, so that nobody notices it.
void CoordinatorNode::RunTurnsOfTheStall() {
  const std::int64_t now_ms = clock_.MonotonicMs();
  if (last_turn_ms_ == 0) return;
  for (std::int64_t at_ms = last_turn_ms_ + kLongestStallMs; at_ms < now_ms;
       at_ms += kLongestStallMs) {
    clock_.Show(at_ms);
    core_->RunTurn();
  }
  clock_.Show(0);
}

void CoordinatorNode::Flush() {
  const bool acknowledges =
      std::ranges::any_of(outbox_, [](const auto& answer) { return answer.second.ok(); });
  if (acknowledges) acknowledged_ = place_;
  for (const auto& [number, status] : std::exchange(outbox_, {})) {
    auto call = calls_.extract(number);
    if (call.empty()) continue;
    NodeCall& replying = *call.mapped();
    replying.Reply(status, std::move(call.mapped()));
  }
}

Status CoordinatorNode::WriteLedger(Ledger& ledger, const LedgerChanges& changes) {
  if (Planted(Plant::kStartNotWritten) && !core_) return OkStatus();
  LedgerChanges written = changes;
  if (Planted(Plant::kCommitRowLost)) written.commits.clear();
  if (Planted(Plant::kReturnedRowLost)) written.returned.clear();
  if (Planted(Plant::kOrderLost)) written.orders.clear();
  if (Planted(Plant::kCheckpointRowLost)) written.checkpoints.clear();
  if (Planted(Plant::kAccountLost)) written.ended_tokens.reset();
  if (Planted(Plant::kLeaseRowLost))
    std::erase_if(written.groups,
                  [](const GroupRow& group) { return group.state == GroupState::kLeased; });
  if (Planted(Plant::kSecretLost))
    for (LearnerRow& learner : written.learners) learner.secret_sha256.clear();
  checker_.Unknown(changes);
  KeepHistory();
  Status status;
  if (Planted(Plant::kTransactionSplit) && !written.groups.empty()) {
    LedgerChanges first;
    first.groups = std::exchange(written.groups, {});
    status = RealWrite(&ledger, first);
  }
  const bool lost = Planted(Plant::kTransactionLost) && dice_.Chance(2);
  if (status.ok() && !lost) status = RealWrite(&ledger, written);
  if (status.ok() && std::exchange(sync_left_, false)) {
    // A death just here is rare otherwise.
    if (dice_.Chance(10)) disk_.disk().KillAfter(0);
    status = RealSync(payloads_.get());
  }
  if (status.ok()) checker_.Written(changes, core_ ? &core_->scheduler() : nullptr);
  if (status.ok() && core_) ++place_.turn;
  return status;
}

Result<std::int64_t> CoordinatorNode::Archive(const std::function<Result<std::int64_t>()>& real) {
  archives_ = true;
  if (kill_in_archive_) disk_.disk().KillAfter(*kill_in_archive_);
  auto archived = real();
  archives_ = false;
  if (kill_in_archive_ && disk_.disk().killed()) {
    world_.Count(NameOf(Fault::kKilledInArchive));
    kill_in_archive_.reset();
  } else if (kill_in_archive_) {
    disk_.disk().KillAfter(kNever);
  }
  if (!archived.ok()) world_.Count("groups could not be archived");
  if (archived.ok() && *archived > 0) world_.Count("groups were archived");
  return archived;
}

// Runs are short, so fewer groups are remembered.
std::uint64_t CoordinatorNode::FirstTag(std::uint64_t next_group_id) const {
  if (archives_ && Planted(Plant::kArchivedTooEarly)) return next_group_id;
  return next_group_id > setup_.ended_tags ? next_group_id - setup_.ended_tags : 1;
}

Status CoordinatorNode::SyncPayloads(PayloadStore& payloads) {
  if (!Planted(Plant::kPayloadSyncAfterCommit) || !in_turn_) return RealSync(&payloads);
  sync_left_ = true;
  return OkStatus();
}

}  // namespace buttress::simulation
