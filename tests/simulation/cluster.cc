#include "tests/simulation/cluster.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "lib/ledger/audit.h"
#include "lib/ledger/checked_files.h"
#include "lib/ledger/segment_file.h"
#include "lib/weights/checkpoint_folder.h"
#include "tests/simulation/ledger/ledger_faults.h"
#include "tests/simulation/plants.h"
#include "tests/simulation/run_setup.h"
#include "tests/simulation/seams.h"
#include "tests/simulation/standby/standby_process.h"
#include "tests/simulation/story_log.h"

namespace buttress::simulation {
namespace {

FolderDisk::Lies LiesOf() {
  return {Planted(Plant::kDatabaseSyncMissing), Planted(Plant::kPayloadSyncMissing),
          Planted(Plant::kFolderSyncMissing),   Planted(Plant::kShortWriteHidden),
          Planted(Plant::kArchiveSyncMissing),  Planted(Plant::kArchiveNameNotSynced)};
}

class Cluster {
 public:
  Cluster(std::uint64_t seed, const std::function<void(const std::string&)>& story)
      : world_(seed, story),
        setup_(MakeSetup(seed)),
        dice_(seed, "cluster"),
        disk_(seed, folder_.path(), LiesOf()),
        checker_(world_, setup_.options),
        node_(world_, checker_, disk_, setup_),
        network_(world_, node_),
        operator_(std::make_shared<Process>(Process{"operator"})),
        learner_disk_(
            seed, learner_folder_.path(),
            {Planted(Plant::kCheckpointSyncMissing), Planted(Plant::kCheckpointNameNotSynced)}) {
    learner_disk_.OnPowerFailure([this] { KillLearners(); });
    if (world_.tells()) log_.emplace([this](const std::string& line) { world_.Tell("{}", line); });
  }

  ~Cluster() { world_.Clear(); }

  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  RunOutcome Run(const std::vector<ScheduledFault>& schedule);

 private:
  struct Slot {
    std::string id;
    WorkerFlaws flaws;
    std::unique_ptr<WorkerProcess> process;
  };

  struct Flip {
    std::uint64_t group_id;
    std::string path;
    std::uint64_t at;
    std::string content_sha256;  // of the group
  };

  using LearnerStep = std::pair<std::uint64_t, std::uint64_t>;  // its epoch, and a step

  struct Copy {
    FolderDisk::Copy files;
    History history;
    LearnerDisk::Copy checkpoints;
    std::vector<Flip> flips;
    LedgerFlips ledger_flips, archive_flips;
    std::set<LearnerStep> damaged;
  };

  void Befall(const ScheduledFault& fault);
  void BefallCoordinator(const ScheduledFault& fault);
  void BefallWorker(const ScheduledFault& fault);
  void BefallLearner(const ScheduledFault& fault);
  void BefallDisk(const ScheduledFault& fault);
  void BefallStandby(const ScheduledFault& fault);
  void LoseCoordinator(const ScheduledFault& fault);
  bool MayContinue(const History& history) const;
  // Whether the ledger can continue from the checkpoint (Scheduler::CheckCheckpoint).
  bool Knows(const History& history, const Checkpoint& checkpoint) const;
  std::size_t RemoveUnknown(const History& history);
  void KeepFlips(const FolderDisk::Copy& files);
  void ContinueFrom(const StandbyProcess::Copy& copy);
  void Operate(const ScheduledFault& fault);
  void FillDisk(const ScheduledFault& fault);
  void DamagePayload(const ScheduledFault& fault);
  void DamageCheckpoint(const ScheduledFault& fault);
  void DamageLedger(const ScheduledFault& fault);
  void DamageArchive(const ScheduledFault& fault);
  void DropGroup(const ScheduledFault& fault);
  void PruneSegments(const ScheduledFault& fault);
  void CopyAndPutBack(const ScheduledFault& fault);
  Copy CopyFolder() const;
  void PutBack(const Copy& copy);
  void Order(const std::string& worker, v1::WorkerOrder order);
  void Happened(const ScheduledFault& fault);
  void Heal();
  void Repair();
  void Watch();
  void StartWorker(Slot& slot);
  void StartLearner();
  void KillLearners();

  LearnerFolder Checkpoints() const { return ReadCheckpoints(learner_disk_.folder()); }

  void MendUnseen();
  void ExamineArchives(LedgerReader& ledger);
  void Examine();

  Slot& WorkerOf(const ScheduledFault& fault) { return slots_[fault.target % slots_.size()]; }

  // Those of the newest checkpoint.
  std::string Weights() const {
    const LearnerFolder checkpoints = Checkpoints();
    return checkpoints.empty() ? kStartWeights : checkpoints.rbegin()->second.weights;
  }

  std::string CallerOf(const ScheduledFault& fault) const {
    const std::size_t index = fault.target % (slots_.size() + 1);
    return index == slots_.size() ? "learner" : slots_[index].id;
  }

  const TempDir folder_;
  World world_;
  std::optional<StoryLog> log_;
  const RunSetup setup_;
  Dice dice_;
  FolderDisk disk_;
  Checker checker_;
  CoordinatorNode node_;
  std::optional<StandbyProcess> standby_;
  Network network_;
  ProcessPtr operator_;
  std::vector<Slot> slots_;
  const TempDir learner_folder_;
  LearnerDisk learner_disk_;
  std::unique_ptr<LearnerProcess> learner_;
  // Processes that have died or were replaced; their events may still be in the queue.
  std::vector<std::unique_ptr<WorkerProcess>> old_workers_;
  std::vector<std::unique_ptr<LearnerProcess>> old_learners_;
  std::vector<Flip> flips_;
  LedgerFlips ledger_flips_, archive_flips_;
  std::optional<Copy> backup_;     // of before the ledger was damaged
  std::set<LearnerStep> damaged_;  // checkpoints that are gone
  std::uint64_t processes_ = 0;
  bool healed_ = false;
  bool learner_done_ = false;
  bool finished_ = false;
};

void Cluster::StartWorker(Slot& slot) {
  if (slot.process) old_workers_.push_back(std::move(slot.process));
  slot.process = std::make_unique<WorkerProcess>(
      world_, network_, setup_, slot.id, ++processes_, slot.flaws, [this, &slot] {
        slot.flaws.other_run = false;
        world_.After(dice_.Between(500, 2500), nullptr, [this, &slot] {
          if (!slot.process->alive()) StartWorker(slot);
        });
      });
  slot.process->Start();
}

void Cluster::StartLearner() {
  learner_done_ = false;
  if (learner_) old_learners_.push_back(std::move(learner_));
  learner_ = std::make_unique<LearnerProcess>(
      world_, network_, checker_, setup_, learner_disk_, ++processes_, [this](bool done) {
        learner_done_ = done;
        world_.After(dice_.Between(500, 2500), nullptr, [this] {
          if (!learner_->alive()) StartLearner();
        });
      });
  learner_->Start();
}

void Cluster::KillLearners() {
  if (learner_) learner_->Kill();
  for (const auto& old : old_learners_) old->Kill();
}

void Cluster::Happened(const ScheduledFault& fault) {
  world_.Count(NameOf(fault.fault));
  world_.Tell("fault: {} (target {}, amount {})", NameOf(fault.fault), fault.target, fault.amount);
}

void Cluster::Befall(const ScheduledFault& fault) {
  using enum Fault;
  switch (fault.fault) {
    case kRequestLost:
    case kAnswerLost:
    case kDoubled:
    case kDelayed:
    case kCorrupted:
    case kCut:
    case kFetchCut:
      return network_.Arm(fault.fault, CallerOf(fault), 1 + fault.amount % 3);
    case kCallerClockLeaps:
      Happened(fault);
      return network_.LeapClock(CallerOf(fault), 1000 + 60 * fault.amount);
    case kPartition:
      Happened(fault);
      return network_.Partition(CallerOf(fault), 500 + 15 * fault.amount);
    case kCoordinatorKilled:
    case kCoordinatorKilledInWrite:
    case kKilledInArchive:
    case kCoordinatorDrained:
    case kCoordinatorPaused:
    case kCoordinatorDoubled:
    case kPowerFailed:
    case kClockLeaps:
    case kClockSet:
      return BefallCoordinator(fault);
    case kWorkerKilled:
    case kWorkerPaused:
    case kWorkerDrained:
    case kWorkerReplaced:
    case kWorkerSlow:
    case kWorkerSick:
    case kWorkerBroken:
    case kWorkerOfOtherRun:
      return BefallWorker(fault);
    case kLearnerKilled:
    case kLearnerKilledInWrite:
    case kLearnerPowerFailed:
    case kLearnerPaused:
    case kLearnerDoubled:
    case kLearnerHangs:
    case kCheckpointDamaged:
    case kEarlyEnd:
      return BefallLearner(fault);
    case kSyncFailed:
    case kDiskFull:
    case kPayloadDamaged:
    case kPayloadsAway:
    case kOlderDisk:
    case kLedgerDamaged:
    case kArchiveDamaged:
      return BefallDisk(fault);
    case kCordon:
    case kDrainOrder:
    case kMaxAge:
    case kStop:
    case kDrop:
      return Operate(fault);
    case kPrune:
      return PruneSegments(fault);
    case kStandbyKilled:
    case kStandbyCut:
    case kStandbyDamaged:
    case kCoordinatorLost:
    case kCoordinatorBack:
      return BefallStandby(fault);
  }
}

void Cluster::BefallCoordinator(const ScheduledFault& fault) {
  if (!node_.running()) return;
  if (fault.fault == Fault::kCoordinatorKilledInWrite)
    return disk_.disk().KillAfter(static_cast<std::uint64_t>(fault.amount) % 40);
  if (fault.fault == Fault::kKilledInArchive)
    return node_.KillInArchive(static_cast<std::uint64_t>(fault.amount) % 24);
  Happened(fault);
  switch (fault.fault) {
    case Fault::kCoordinatorKilled:
      return node_.Kill();
    case Fault::kCoordinatorDrained:
      return node_.Drain();
    case Fault::kCoordinatorPaused:
      return node_.Pause(20 * fault.amount);
    case Fault::kCoordinatorDoubled:
      if (standby_) standby_->PromoteAlive();
      return node_.StartSecond();
    case Fault::kPowerFailed:
      return node_.FailPower();
    case Fault::kClockLeaps:
      node_.clock().Leap(LeaseClock::kLongestTurnMs + 1000 + 100 * fault.amount);
      return node_.ExpectNoExpiry();
    default:
      return node_.clock().Set((fault.amount - 500) * 10000);
  }
}

void Cluster::BefallWorker(const ScheduledFault& fault) {
  Slot& slot = WorkerOf(fault);
  Happened(fault);
  switch (fault.fault) {
    case Fault::kWorkerKilled:
      slot.process->Kill();
      return StartWorker(slot);
    case Fault::kWorkerPaused:
      return slot.process->Pause(20 * fault.amount);
    case Fault::kWorkerDrained:
      return slot.process->Drain();
    case Fault::kWorkerSlow:
      slot.process->flaws().slowness = slot.flaws.slowness = 5 + fault.amount % 40;
      return;
    case Fault::kWorkerSick:
      slot.flaws.sick = true;
      break;
    case Fault::kWorkerBroken:
      slot.flaws.broken = true;
      break;
    case Fault::kWorkerOfOtherRun:
      slot.flaws.other_run = true;
      break;
    default:  // replaced while it lives
      return StartWorker(slot);
  }
  slot.process->Kill();
  StartWorker(slot);
}

void Cluster::BefallLearner(const ScheduledFault& fault) {
  switch (fault.fault) {
    case Fault::kLearnerKilled:
      Happened(fault);
      learner_->Kill();
      return StartLearner();
    case Fault::kLearnerKilledInWrite:
      return learner_disk_.disk().KillAfter(static_cast<std::uint64_t>(fault.amount) % 30);
    case Fault::kLearnerPowerFailed:
      Happened(fault);
      learner_disk_.FailPower();
      return StartLearner();
    case Fault::kLearnerPaused:
      Happened(fault);
      return learner_->Pause(30 * fault.amount);
    case Fault::kLearnerDoubled:
      Happened(fault);
      return StartLearner();
    case Fault::kLearnerHangs:
      Happened(fault);
      return learner_->LeaveAndHang(200 + 2 * fault.amount, [this] { StartLearner(); });
    case Fault::kEarlyEnd:
      Happened(fault);
      return learner_->EndEarly();
    default:
      return DamageCheckpoint(fault);
  }
}

// The coordinator settles what is before the checkpoint before the newest one that it knows. So one
// of these two may be lost, whatever learners that were replaced have written since.
void Cluster::DamageCheckpoint(const ScheduledFault& fault) {
  const MemoryLedger& ledger = checker_.history().ledger;
  const LearnerFolder checkpoints = Checkpoints();
  if (!ledger.run || checkpoints.empty()) return;
  const PolicyVersion& newest = checkpoints.rbegin()->second.version;
  const LearnerStep lost = {newest.learner_epoch, newest.step};
  // The last step settles all groups, and its checkpoint is needed until the model is written.
  if (newest.step == setup_.options.steps) return;
  const bool another = std::ranges::any_of(ledger.checkpoints, [&](const auto& entry) {
    const LearnerStep key = entry.first;
    return key != lost && !damaged_.contains(key) && key.second >= ledger.run->settled_step &&
           !checker_.Abandoned({key.first, key.second, ""});
  });
  // The report of one that is gone may still be on its way, and settles what is before it.
  if (!another && (ledger.run->settled_step > 0 || !damaged_.empty())) return;
  Happened(fault);
  damaged_.insert(lost);
  const auto step = static_cast<std::int64_t>(newest.step);
  learner_disk_.Flip(CheckpointFolderOf(learner_disk_.folder(), step) + "/" + kWeightsFile,
                     static_cast<std::uint64_t>(fault.amount));
  if (checkpoints.size() > 1 && checker_.Abandoned(std::next(checkpoints.rbegin())->second.version))
    world_.Count("the checkpoint before the damaged one was abandoned");
  learner_->Kill();
  StartLearner();
}

void Cluster::BefallDisk(const ScheduledFault& fault) {
  switch (fault.fault) {
    case Fault::kSyncFailed:
      return disk_.disk().FailSyncAfter(static_cast<std::uint64_t>(fault.amount) % 6);
    case Fault::kDiskFull:
      return FillDisk(fault);
    case Fault::kPayloadDamaged:
      return DamagePayload(fault);
    case Fault::kPayloadsAway:
      if (checker_.history().ledger.accepted.empty() || disk_.away()) return;
      Happened(fault);
      disk_.SetAway(true);
      return world_.After(500 + 5 * fault.amount, nullptr, [this] { disk_.SetAway(false); });
    case Fault::kLedgerDamaged:
      return DamageLedger(fault);
    case Fault::kArchiveDamaged:
      return DamageArchive(fault);
    default:
      return CopyAndPutBack(fault);
  }
}

void Cluster::FillDisk(const ScheduledFault& fault) {
  Happened(fault);
  if (fault.target % 2 == 0) {
    node_.SetFreeBytes(kPauseBelowBytes - 1);
  } else {
    disk_.disk().SetCapacity(disk_.UsedBytes() + static_cast<std::uint64_t>(fault.amount) * 16);
  }
  world_.After(1000 + 7 * fault.amount, nullptr, [this] {
    node_.SetFreeBytes(std::uint64_t{1} << 40);
    disk_.disk().SetCapacity(std::uint64_t{1} << 40);
  });
}

void Cluster::DamagePayload(const ScheduledFault& fault) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, group] : checker_.history().ledger.groups) {
    if (group.state == GroupState::kReady || group.state == GroupState::kBatched) ids.push_back(id);
  }
  if (ids.empty() || disk_.away()) return;
  const std::uint64_t id = ids[fault.target % ids.size()];
  const PayloadRef& ref = checker_.history().ledger.accepted.at(id).payload;
  const std::string path = SegmentPath(disk_.folder() + "/payloads", ref.segment);
  const std::uint64_t at =
      ref.offset + static_cast<std::uint64_t>(fault.amount) % (kPayloadHeaderBytes + ref.bytes);
  if (!disk_.Flip(path, at)) return;
  Happened(fault);
  checker_.ExpectDamage();
  flips_.push_back({id, path, at, checker_.history().ledger.accepted.at(id).content_sha256});
}

Cluster::Copy Cluster::CopyFolder() const {
  return {disk_.Files(), checker_.history(), learner_disk_.Files(),
          flips_,        ledger_flips_,      archive_flips_,
          damaged_};
}

void Cluster::PutBack(const Copy& copy) {
  KillLearners();
  learner_disk_.PutBack(copy.checkpoints);
  flips_ = copy.flips;
  ledger_flips_ = copy.ledger_flips;
  archive_flips_ = copy.archive_flips;
  damaged_ = copy.damaged;
  node_.PutBack(copy.files, copy.history);
  StartLearner();
  // Those who know a later start than the copy are refused until they start again.
  for (Slot& slot : slots_) {
    if (dice_.Chance(30)) continue;
    slot.process->Kill();
    StartWorker(slot);
  }
}

void Cluster::CopyAndPutBack(const ScheduledFault& fault) {
  if (!node_.running() || disk_.away() || healed_) return;
  auto copy = std::make_shared<Copy>(CopyFolder());
  world_.Tell("operator: copies the run folder");
  world_.After(1000 + 8 * fault.amount, nullptr, [this, fault, copy] {
    if (!node_.running() || healed_) return;
    Happened(fault);
    PutBack(*copy);
  });
}

// A bit flips while the coordinator is down. It must not start on a page that is not what was
// written; the operator restores the backup of before then.
void Cluster::DamageLedger(const ScheduledFault& fault) {
  if (!node_.running() || disk_.away() || healed_ || ledger_flips_.any()) return;
  backup_ = CopyFolder();
  world_.Tell("operator: makes a backup");
  world_.After(500 + 4 * fault.amount, nullptr, [this, fault] {
    if (!node_.running() || healed_ || ledger_flips_.any()) return;
    node_.Stop(/*kill=*/fault.target % 2 == 0);
    const auto at = fault.target * 100003 + static_cast<std::uint64_t>(fault.amount) * 4099;
    if (ledger_flips_.Flip(disk_, /*log=*/true, at)) Happened(fault);
    node_.StartSoon();
  });
}

// One, once there is one.
void Cluster::DamageArchive(const ScheduledFault& fault) {
  if (setup_.archive_steps == 0 || archive_flips_.any() || healed_) return;
  const auto at = static_cast<std::uint64_t>(fault.amount);
  if (archive_flips_.FlipArchive(disk_, fault.target, at)) return Happened(fault);
  world_.After(1000, nullptr, [this, fault] { DamageArchive(fault); });
}

void Cluster::BefallStandby(const ScheduledFault& fault) {
  if (!standby_) return;
  if (fault.fault == Fault::kCoordinatorLost || fault.fault == Fault::kCoordinatorBack)
    return LoseCoordinator(fault);
  Happened(fault);
  if (fault.fault == Fault::kStandbyCut) return standby_->Cut(200 + 10 * fault.amount);
  if (fault.fault == Fault::kStandbyDamaged) return standby_->DamageNext();
  if (fault.target % 3 == 0) return standby_->Kill();
  if (fault.target % 3 == 1) return standby_->FailPower();
  standby_->KillInWrite(static_cast<std::uint64_t>(fault.amount) % 40);
}

// Its disk is lost only where the standby's can take its place: otherwise the run is.
void Cluster::LoseCoordinator(const ScheduledFault& fault) {
  if (!node_.running() || disk_.away() || healed_) return;
  node_.Stop(/*kill=*/true);
  const auto copy = standby_->Promote(/*power_fails=*/fault.target % 2 == 0);
  if (copy && MayContinue(node_.HistoryAt(copy->place))) {
    Happened(fault);
    if (fault.fault == Fault::kCoordinatorBack)
      network_.ComeBack(node_.known_starts(), 1000 + 10 * fault.amount);
    return ContinueFrom(*copy);
  }
  world_.Count(copy ? "the standby was behind the checkpoints" : "the standby was not whole");
  if (copy) standby_->StartEmpty();
  node_.StartSoon();
}

bool Cluster::Knows(const History& history, const Checkpoint& checkpoint) const {
  const PolicyVersion& version = checkpoint.version;
  const RunRow& run = *history.ledger.run;
  const auto& learners = history.ledger.learners;
  const auto writer =
      std::ranges::find(learners, version.learner_epoch, &LearnerRow::learner_epoch);
  return version.step <= run.committed_step && writer != learners.end() &&
         writer->secret_sha256 == checkpoint.learner_sha256;
}

// Whether a ledger of before finds one of the learner's checkpoints.
bool Cluster::MayContinue(const History& history) const {
  const MemoryLedger& ledger = history.ledger;
  if (!ledger.run) return false;
  const LearnerFolder checkpoints = Checkpoints();
  return ledger.run->settled_step == 0 || std::ranges::any_of(checkpoints, [&](const auto& entry) {
           return entry.first >= ledger.run->settled_step && Knows(history, entry.second);
         });
}

// What an operator does who starts a coordinator on the standby's folder. An asynchronous one may
// be behind the learner, whose newer checkpoints are put aside then.
void Cluster::ContinueFrom(const StandbyProcess::Copy& copy) {
  const bool synchronous = setup_.standby == StandbyMode::kSynchronous;
  world_.Expect(!synchronous || copy.place >= node_.acknowledged(),
                "(I6) a synchronous standby lacks what was acknowledged");
  History history = node_.HistoryAt(copy.place);
  history.trained.insert(checker_.history().trained.begin(), checker_.history().trained.end());
  FolderDisk::Copy files;
  for (const auto& [name, content] : copy.files) files[disk_.folder() + "/" + name] = content;
  KeepFlips(files);
  const std::size_t newer = RemoveUnknown(history);
  const LearnerFolder left = Checkpoints();
  for (const auto& [key, digest] : history.ledger.checkpoints)
    if (!left.contains(key.second)) damaged_.insert(key);
  world_.Count("turns lost at a failover", node_.acknowledged() > copy.place ? 1 : 0);
  world_.Tell("operator: starts a coordinator on the standby's folder");
  node_.PutBack(files, history);
  standby_->StartEmpty();
  if (!synchronous || newer > 0) {
    learner_->Kill();
    StartLearner();
  }
}

// The checkpoints that the operator moves out of the way.
std::size_t Cluster::RemoveUnknown(const History& history) {
  const LearnerFolder whole = Checkpoints();
  std::size_t removed = 0;
  for (const std::int64_t step : CheckpointSteps(learner_disk_.folder())) {
    const auto found = whole.find(static_cast<std::uint64_t>(step));
    if (found != whole.end() && Knows(history, found->second)) continue;
    learner_disk_.Remove(CheckpointFolderOf(learner_disk_.folder(), step));
    removed += found == whole.end() ? 0 : 1;
  }
  return removed;
}

// Damage of a payload may have been copied or not.
void Cluster::KeepFlips(const FolderDisk::Copy& files) {
  const FolderDisk::Copy before = disk_.Files();
  std::erase_if(flips_, [&](const Flip& flip) {
    const auto then = before.find(flip.path), now = files.find(flip.path);
    return then == before.end() || now == files.end() || flip.at >= then->second.size() ||
           flip.at >= now->second.size() || then->second[flip.at] != now->second[flip.at];
  });
}

// What an operator does with the group that a damaged file belongs to, as the run's log tells him.
void Cluster::DropGroup(const ScheduledFault& fault) {
  if (!node_.running() || disk_.away() || setup_.options.deterministic || node_.core().finished())
    return;
  const LearnerFolder checkpoints = Checkpoints();
  const std::uint64_t newest = checkpoints.empty() ? 0 : checkpoints.rbegin()->first;
  std::vector<std::uint64_t> ids;
  for (const auto& [id, group] : checker_.history().ledger.groups) {
    const bool ended = group.state == GroupState::kSettled || group.state == GroupState::kDropped;
    if (!ended && (group.step == 0 || group.step > newest)) ids.push_back(id);
  }
  if (ids.empty()) return;
  Happened(fault);
  learner_->Kill();
  node_.Stop(/*kill=*/false);
  checker_.ExpectDamage();
  if (const auto ledger = Ledger::Open(disk_.folder() + "/ledger.db"); ledger.ok()) {
    // What became of the last turn is known now; a drop writes a change of its own.
    const auto snapshot = (*ledger)->Load();
    if (snapshot.ok()) checker_.Loaded(*snapshot);
  }
  const auto dropped = DropByOperator(disk_.folder(), ids[fault.target % ids.size()]);
  world_.Tell("operator: {}",
              dropped.ok() ? fmt::format("drops group {}, which was {}", dropped->group.group_id,
                                         GroupStateName(dropped->group.state))
                           : dropped.status().ToString());
  world_.Count(dropped.ok() ? "a group was dropped by the operator" : "no group was dropped");
  disk_.disk().Restart();
  node_.StartSoon();
  StartLearner();
}

void Cluster::PruneSegments(const ScheduledFault& fault) {
  if (!node_.running() || disk_.away()) return;
  Happened(fault);
  node_.Stop(/*kill=*/false);
  disk_.ShowDatabase();
  const auto pruned = PrunePayloads(disk_.folder(), /*dry_run=*/false);
  disk_.HideDatabase();
  disk_.ForgetDeleted();
  disk_.disk().Restart();
  world_.Expect(pruned.ok() || archive_flips_.any(), "segments that nobody needs can be deleted");
  if (pruned.ok() && pruned->segments > 0) world_.Count("segments were pruned by the operator");
  node_.StartSoon();
}

void Cluster::Order(const std::string& worker, v1::WorkerOrder order) {
  v1::OrderWorkerRequest request;
  request.set_worker_id(worker);
  request.set_order(order);
  request.set_reason("simulated");
  network_.RetryCall<v1::OrderWorkerRequest, v1::OrderWorkerResponse>(
      operator_, request, 0, 20000, [this](const Result<v1::OrderWorkerResponse>& response) {
        world_.Count(response.ok() ? "order given" : "order refused");
      });
}

void Cluster::Operate(const ScheduledFault& fault) {
  if (fault.fault == Fault::kDrop) return DropGroup(fault);
  Happened(fault);
  if (fault.fault == Fault::kStop) {
    v1::StopRunRequest request;
    request.set_wait_ms(1000);
    return network_.RetryCall<v1::StopRunRequest, v1::StopRunResponse>(
        operator_, request, 1000, 20000, [](const Result<v1::StopRunResponse>&) {});
  }
  if (fault.fault == Fault::kMaxAge) {
    v1::OrderMaxAgeRequest request;
    if (fault.amount % 4 != 0) request.set_max_age(static_cast<std::uint32_t>(fault.amount % 3));
    return network_.RetryCall<v1::OrderMaxAgeRequest, v1::OrderMaxAgeResponse>(
        operator_, request, 0, 20000, [this](const Result<v1::OrderMaxAgeResponse>& response) {
          if (response.ok()) world_.Count("max age changed");
        });
  }
  const std::string worker = WorkerOf(fault).id;
  Order(worker, fault.fault == Fault::kCordon ? v1::WORKER_ORDER_CORDON : v1::WORKER_ORDER_DRAIN);
  world_.After(10 * fault.amount, operator_,
               [this, worker] { Order(worker, v1::WORKER_ORDER_NONE); });
}

// From now on nothing goes wrong any more.
void Cluster::Heal() {
  world_.Tell("the faults stop");
  healed_ = true;
  network_.Heal();
  if (standby_) standby_->Heal();
  disk_.SetAway(false);
  disk_.disk().SetCapacity(std::uint64_t{1} << 40);
  disk_.disk().FailSyncAfter(std::uint64_t{1} << 60);
  for (SimulatedDisk* disk : {&disk_.disk(), &learner_disk_.disk()})
    if (!disk->killed()) disk->KillAfter(std::uint64_t{1} << 60);
  node_.SetFreeBytes(std::uint64_t{1} << 40);
  node_.KillInArchive(std::nullopt);
  ledger_flips_.Mend(disk_);
  for (const Flip& flip : flips_) {
    const MemoryLedger& ledger = checker_.history().ledger;
    // A group that was sampled again has another payload, perhaps at this place.
    const auto accepted = ledger.accepted.find(flip.group_id);
    if (accepted == ledger.accepted.end() || accepted->second.content_sha256 != flip.content_sha256)
      continue;
    if (ledger.groups.at(flip.group_id).reason == DropReason::kNone) disk_.Flip(flip.path, flip.at);
  }
  for (Slot& slot : slots_) {
    slot.flaws = {};
    slot.process->Kill();
    StartWorker(slot);
  }
}

// What an operator does whose coordinator refuses the ledger.
void Cluster::Repair() {
  if (!backup_ || healed_) return node_.StartSoon();
  world_.Tell("operator: restores the backup");
  world_.Count("a backup was restored");
  PutBack(*backup_);
}

// What an operator does who looks now and then.
void Cluster::Watch() {
  world_.After(500, nullptr, [this] { Watch(); });
  if (!node_.running()) return;
  const LoopCore& core = node_.core();
  const Scheduler& scheduler = core.scheduler();
  // `launch` waits for the learner too: one that starts again from an earlier checkpoint trains the
  // last steps anew.
  if (core.finished() && scheduler.finished()) {
    finished_ = learner_done_;
    return;
  }
  if (healed_) {
    const auto orders = scheduler.workers().orders();
    for (const auto& [id, order] : orders) Order(id, v1::WORKER_ORDER_NONE);
  }
  if (core.stopped() || (core.finished() && !scheduler.finished())) {
    world_.Tell("operator: takes the run up again");
    world_.Count("run taken up again");
    node_.Drain();
  }
}

RunOutcome Cluster::Run(const std::vector<ScheduledFault>& schedule) {
  slots_.resize(WorkersOf(world_.seed()));
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].id = "w" + std::to_string(i);
  node_.OnDamage([this] { Repair(); });
  node_.Start();
  if (setup_.standby != StandbyMode::kOff) standby_.emplace(world_, node_).Start();
  for (Slot& slot : slots_) StartWorker(slot);
  StartLearner();
  for (const ScheduledFault& fault : schedule)
    world_.After(fault.at_ms, nullptr, [this, fault] { Befall(fault); });
  world_.After(kFaultMs, nullptr, [this] { Heal(); });
  Watch();
  RunOutcome outcome;
  while (!finished_ && world_.RunNext()) {
    ++outcome.events;
    if (world_.now_ms() > kFaultMs + kEndMs)
      world_.Fail("(I12) the run does not end once the faults have stopped");
  }
  if (world_.failure().empty()) Examine();
  for (std::size_t i = 0; i < kDiskFaultNames.size(); ++i) {
    world_.Count(fmt::format("disk: {}", kDiskFaultNames[i]), disk_.disk().faults()[i]);
  }
  world_.Count("learner's disk: torn",
               learner_disk_.disk().faults()[static_cast<std::size_t>(DiskFault::kTorn)]);
  world_.Count(NameOf(Fault::kSyncFailed),
               disk_.disk().faults()[static_cast<std::size_t>(DiskFault::kSyncFailed)]);
  for (std::size_t i = 0; i < kSeamNames.size(); ++i)
    world_.Count(kSeamNames[i], std::exchange(seam_passes[i], 0));
  outcome.failure = world_.failure();
  outcome.coverage = world_.coverage();
  outcome.simulated_ms = world_.now_ms();
  outcome.weights = Weights();
  return outcome;
}

// A run may end without a read of the page that is damaged; whoever reads it is told.
void Cluster::MendUnseen() {
  {
    const auto ledger = Ledger::Open(disk_.folder() + "/ledger.db");
    const auto audit = ledger.ok() ? AuditLedger(**ledger) : ledger.status();
    world_.Expect(audit.ok() || audit.status().message().find(kLedgerMend) != std::string::npos,
                  "whoever finds damage of the ledger names the mend");
    world_.Count(audit.ok() ? "damage of the ledger was not read" : "an audit found damage");
  }
  ledger_flips_.Mend(disk_);
}

// Only who reads an archive sees that it is damaged: an audit reads all of them.
void Cluster::ExamineArchives(LedgerReader& ledger) {
  const auto archives = ledger.Archives();
  if (!archives.ok()) return world_.Fail("the list of archives cannot be read");
  world_.Count("archives audited", static_cast<std::int64_t>(archives->size()));
  std::set<std::string> damaged = archive_flips_.Damaged(disk_);
  std::set<std::string> named;
  for (const ArchiveRow& row : *archives)
    named.insert(ArchivePath(disk_.folder() + "/ledger.db", row.number));
  std::erase_if(damaged, [&](const std::string& path) { return !named.contains(path); });
  if (damaged.empty()) return;
  world_.Count("an audit found a damaged archive");
  const auto audit = AuditLedger(ledger);
  const auto found = audit.ok() ? audit->violations() : std::vector<std::string>();
  world_.Expect(
      found.size() == damaged.size() && found.front().find(*damaged.begin()) != std::string::npos,
      "an audit names the archive that is damaged");
  archive_flips_.Mend(disk_);
}

void Cluster::Examine() {
  world_.Tell("the run is finished");
  checker_.Ended(Weights());
  node_.Kill();
  if (ledger_flips_.any()) MendUnseen();
  const auto ledger = Ledger::Open(disk_.folder() + "/ledger.db");
  if (!ledger.ok()) return world_.Fail("the ledger does not open: " + ledger.status().ToString());
  const auto snapshot = (*ledger)->Load();
  if (!snapshot.ok()) return world_.Fail("the ledger does not load");
  checker_.Loaded(*snapshot);
  ExamineArchives(**ledger);
  const auto audit = AuditLedger(**ledger);
  if (!audit.ok()) return world_.Fail("the audit fails: " + audit.status().ToString());
  if (!audit->violations().empty()) world_.Fail("audit: " + audit->violations().front());
}

}  // namespace

RunOutcome RunCluster(std::uint64_t seed, const std::vector<ScheduledFault>& schedule,
                      const std::function<void(const std::string&)>& story) {
  return Cluster(seed, story).Run(schedule);
}

}  // namespace buttress::simulation
