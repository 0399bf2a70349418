#include "lib/ledger/ledger.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/base/report/log.h"
#include "lib/experience/codec.h"
#include "lib/ledger/database.h"
#include "lib/ledger/read_rows.h"
#include "lib/ledger/schema.h"

namespace buttress {
namespace {

// The write-ahead log may hold 8,000 pages of 4 KiB before SQLite copies it into the file. The
// cache of 64 MiB (a negative cache_size is in KiB) holds the rows of all groups under way.
constexpr const char* kPragmas = R"sql(
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA wal_autocheckpoint = 8000;
  PRAGMA foreign_keys = ON;
  PRAGMA cache_size = -65536;
)sql";

// The kernel releases the lock when the process ends, however it ends: a second coordinator on this
// host is always refused, and a restarted one never is.
Result<int> LockLedger(const std::string& path) {
  const std::string lock_path = path + ".lock";
  const int lock = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (lock < 0 && errno == ELOOP) return InvalidArgument(lock_path + " is a link; remove it");
  if (lock < 0) return Unavailable(lock_path + ": " + std::strerror(errno));
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
    const std::string pid = std::to_string(getpid()) + "\n";
    // Only the message below reads the process id, so a full disk does not matter.
    if (ftruncate(lock, 0) == 0 && pwrite(lock, pid.data(), pid.size(), 0) < 0) errno = 0;
    return lock;
  }
  std::array<char, 32> holder{};
  const ssize_t size = pread(lock, holder.data(), holder.size() - 1, 0);
  close(lock);
  std::string pid(holder.data(), static_cast<std::size_t>(size > 0 ? size : 0));
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  return FailedPrecondition(path + " is open in another coordinator" +
                            (pid.empty() ? "" : ", process " + pid) +
                            "; stop it, or give this run another folder (local.out)");
}

Status PrepareFile(Database& database, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(database.Execute(kPragmas));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t tables,
                            database.QueryInt("SELECT COUNT(*) FROM sqlite_schema"));
  if (tables > 0) return CheckLedgerFile(database, path);
  return database.Execute(
      "BEGIN IMMEDIATE; PRAGMA application_id = " + std::to_string(kLedgerApplicationId) +
      "; PRAGMA user_version = " + std::to_string(kLedgerVersion) + ";" + kLedgerSchema +
      "COMMIT;");
}

}  // namespace

// The rows of each table go through one method, which binds every column but row_check in the order
// of the schema.
struct Ledger::Statements {
  std::unique_ptr<Statement> run, run_source, group, accepted, changed, collapse, history, record,
      skip, plan, plan_group, drop, leave_plan, learner, commit, manifest, newest_manifest,
      checkpoint, early_end, order, forget_order, start, origin, read_record, forget_accepted;

  Status Prepare(Database& database) {
    const std::pair<std::unique_ptr<Statement>*, const char*> all[] = {
        {&run, "REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
        {&run_source, "REPLACE INTO sources VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
        {&group, R"sql(
           INSERT INTO groups
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (group_id) DO UPDATE SET
             state = excluded.state, reason = excluded.reason, attempts = excluded.attempts,
             lease_epoch = excluded.lease_epoch, worker_id = excluded.worker_id,
             incarnation = excluded.incarnation, min_epoch = excluded.min_epoch,
             min_step = excluded.min_step, granted_epoch = excluded.granted_epoch,
             granted_step = excluded.granted_step, step = excluded.step,
             position = excluded.position, passed = excluded.passed,
             holds_slot = excluded.holds_slot, under_way = excluded.under_way,
             row_check = excluded.row_check)sql"},
        {&accepted, "INSERT INTO accepted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"},
        {&changed, R"sql(
           INSERT INTO accepted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT DO UPDATE SET head = excluded.head, row_check = excluded.row_check)sql"},
        {&collapse, "REPLACE INTO collapse VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
        {&history, "REPLACE INTO prompt_history VALUES (?, ?, ?, ?, ?, ?)"},
        {&record, "REPLACE INTO prompt_records VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
        {&read_record, "SELECT * FROM prompt_records WHERE dataset_row = ?"},
        {&skip, "INSERT INTO skipped VALUES (?, ?, ?, ?, ?)"},
        {&plan, R"sql(
           INSERT INTO plans VALUES (?, ?, ?)
           ON CONFLICT DO UPDATE SET summary = excluded.summary,
             row_check = excluded.row_check)sql"},
        {&plan_group, "INSERT INTO plan_groups VALUES (?, ?, ?, ?)"},
        {&drop, "INSERT INTO drops VALUES (?, ?, ?, ?, ?)"},
        {&leave_plan, "DELETE FROM plan_groups WHERE group_id = ?"},
        {&learner, "INSERT INTO learners VALUES (?, ?, ?, ?, ?, ?)"},
        {&commit, "INSERT INTO commits VALUES (?, ?, ?)"},
        {&manifest, "INSERT INTO manifests VALUES (?, ?, ?, ?)"},
        {&newest_manifest, "REPLACE INTO newest_manifest VALUES (?, ?, ?)"},
        {&checkpoint, "REPLACE INTO checkpoints VALUES (?, ?, ?, ?)"},
        {&early_end, "REPLACE INTO early_ends VALUES (?, ?, ?, ?, ?)"},
        {&order, "REPLACE INTO worker_orders VALUES (?, ?, ?, ?)"},
        {&forget_order, "DELETE FROM worker_orders WHERE worker_id = ?"},
        {&start, "INSERT INTO starts VALUES (?, ?, ?)"},
        {&origin, "INSERT INTO origin VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
        {&forget_accepted, "DELETE FROM accepted WHERE group_id = ?"},
    };
    for (const auto& [statement, sql] : all) {
      BUTTRESS_ASSIGN_OR_RETURN(*statement, database.Prepare(sql));
    }
    return OkStatus();
  }

  Status WriteGroup(const GroupRow& g) {
    return group->RunChecked(
        g.group_id, g.prompt.prompt_id, g.prompt.source, g.prompt.pass, g.prompt.row,
        g.prompt.completions, GroupStateName(g.state), DropReasonName(g.reason), g.attempts,
        g.lease_epoch, g.worker_id, g.incarnation, g.min_version.learner_epoch, g.min_version.step,
        g.granted_version.learner_epoch, g.granted_version.step, g.step, g.position, g.passed,
        g.holds_slot, g.state != GroupState::kSettled && g.state != GroupState::kDropped);
  }

  static Status WriteAccepted(Statement& statement, const AcceptedGroup& a) {
    return statement.RunChecked(a.id(), a.lease_epoch, Blob{a.content_sha256}, a.payload.segment,
                                a.payload.offset, a.payload.bytes, a.payload.check,
                                Blob{a.head->SerializeAsString()});
  }

  Status WritePlan(const PlanRow& p) {
    return plan->RunChecked(p.step, Blob{ToProto(p.collapse, p.drawn).SerializeAsString()});
  }

  Status WriteNewPlan(const PlanRow& p) {
    BUTTRESS_RETURN_IF_ERROR(WritePlan(p));
    std::int64_t position = 0;
    for (const std::uint64_t id : p.group_ids)
      BUTTRESS_RETURN_IF_ERROR(plan_group->RunChecked(p.step, position++, id));
    return OkStatus();
  }

  Status WriteDrop(const DropRow& row) {
    BUTTRESS_RETURN_IF_ERROR(leave_plan->Run(row.group_id));
    return drop->RunChecked(row.group_id, row.step, row.position, row.reason);
  }

  Status WriteRefill(const RefillRow& row) {
    BUTTRESS_RETURN_IF_ERROR(plan_group->RunChecked(row.plan.step, row.position, row.group_id()));
    return WritePlan(row.plan);
  }

  Status WriteLearnerSide(const LedgerChanges& changes) {
    for (const PlanRow& row : changes.plans) BUTTRESS_RETURN_IF_ERROR(WriteNewPlan(row));
    for (const DropRow& row : changes.drops) BUTTRESS_RETURN_IF_ERROR(WriteDrop(row));
    for (const RefillRow& row : changes.refills) BUTTRESS_RETURN_IF_ERROR(WriteRefill(row));
    for (const LearnerRow& row : changes.learners) {
      BUTTRESS_RETURN_IF_ERROR(learner->RunChecked(row.learner_epoch, row.start_step,
                                                   Blob{row.checkpoint_digest}, row.world_size,
                                                   Blob{row.secret_sha256}));
    }
    for (const CommitRow& row : changes.commits)
      BUTTRESS_RETURN_IF_ERROR(commit->RunChecked(row.learner_epoch, row.step));
    for (const ManifestRow& row : changes.manifests) {
      BUTTRESS_RETURN_IF_ERROR(manifest->RunChecked(row.version.learner_epoch, row.version.step,
                                                    Blob{row.version.digest}));
      BUTTRESS_RETURN_IF_ERROR(newest_manifest->RunChecked(1, Blob{row.bytes}));
    }
    for (const CheckpointRow& row : changes.checkpoints)
      BUTTRESS_RETURN_IF_ERROR(
          checkpoint->RunChecked(row.learner_epoch, row.step, Blob{row.digest}));
    if (!changes.early_end) return OkStatus();
    const EarlyEndRow& end = *changes.early_end;
    return early_end->RunChecked(end.learner_epoch, end.step, end.coordinator_epoch, end.reason);
  }

  Status WriteRun(const RunRow& r) {
    BUTTRESS_RETURN_IF_ERROR(run->RunChecked(
        1, r.run_id, r.run_name, r.config_sha256, r.coordinator_epoch, r.next_group_id,
        r.learner_epoch, r.planned_step, r.committed_step, r.checkpoint_step, r.settled_step,
        r.acr_ema, r.finished, r.greso ? std::optional(r.greso->easy) : std::nullopt,
        r.greso ? std::optional(r.greso->hard) : std::nullopt));
    for (std::uint64_t i = 0; i < r.sources.size(); ++i) {
      const SourceRow& s = r.sources[i];
      BUTTRESS_RETURN_IF_ERROR(run_source->RunChecked(i, s.name, s.dataset.rows, s.dataset.sha256,
                                                      s.cursor.pass, s.cursor.index,
                                                      s.cursor.drawn));
    }
    return OkStatus();
  }

  // What is known of prompts.
  Status WritePrompts(const LedgerChanges& changes) {
    for (const auto& [dataset_row, h] : changes.histories) {
      BUTTRESS_RETURN_IF_ERROR(
          history->RunChecked(dataset_row, h.correct, h.scored, h.recent_correct, h.recent_scored));
    }
    for (const auto& [dataset_row, r] : changes.records) {
      BUTTRESS_RETURN_IF_ERROR(record->RunChecked(dataset_row, r.easy_in_a_row, r.hard_in_a_row,
                                                  r.last_constant, r.last_pass, r.correct,
                                                  r.wrong));
    }
    for (const SkipRow& row : changes.skipped) {
      BUTTRESS_RETURN_IF_ERROR(
          skip->RunChecked(row.pass, row.row, SkipReasonName(row.reason), row.source));
    }
    return OkStatus();
  }

  Status WriteAll(const LedgerChanges& changes) {
    for (const std::uint64_t id : changes.returned)
      BUTTRESS_RETURN_IF_ERROR(forget_accepted->Run(id));
    for (const StartRow& row : changes.starts)
      BUTTRESS_RETURN_IF_ERROR(start->RunChecked(row.coordinator_epoch, row.start_id));
    if (changes.run) BUTTRESS_RETURN_IF_ERROR(WriteRun(*changes.run));
    for (const GroupRow& row : changes.groups) BUTTRESS_RETURN_IF_ERROR(WriteGroup(row));
    for (const AcceptedGroup& row : changes.accepted)
      BUTTRESS_RETURN_IF_ERROR(WriteAccepted(*accepted, row));
    for (const auto& [group_id, row] : changes.changed)
      BUTTRESS_RETURN_IF_ERROR(WriteAccepted(*changed, row));
    for (const auto& [source, c] : changes.collapse) {
      BUTTRESS_RETURN_IF_ERROR(collapse->RunChecked(source, c.groups, c.all_correct, c.all_wrong,
                                                    c.other_constant, c.mixed, c.unscorable));
    }
    BUTTRESS_RETURN_IF_ERROR(WritePrompts(changes));
    for (const WorkerOrderRow& row : changes.orders) {
      BUTTRESS_RETURN_IF_ERROR(
          row.order == WorkerOrder::kNone
              ? forget_order->Run(row.worker_id)
              : order->RunChecked(row.worker_id, WorkerOrderName(row.order), row.reason));
    }
    if (changes.origin) {
      const OriginRow& from = *changes.origin;
      for (const auto& [source, cursor] : from.cursors) {
        BUTTRESS_RETURN_IF_ERROR(origin->RunChecked(source, from.run_id, from.step,
                                                    Blob{from.digest}, cursor.pass, cursor.index,
                                                    cursor.drawn));
      }
    }
    return WriteLearnerSide(changes);
  }
};

Ledger::Ledger(std::string path, int lock, std::unique_ptr<Database> database)
    : path_(std::move(path)),
      lock_(lock),
      database_(std::move(database)),
      statements_(std::make_unique<Statements>()) {}

Ledger::~Ledger() {
  statements_.reset();
  database_.reset();
  close(lock_);
}

Result<std::unique_ptr<Ledger>> Ledger::Open(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const int lock, LockLedger(path));
  Result<std::unique_ptr<Database>> database = Database::Open(path, DatabaseMode::kReadWrite);
  if (!database.ok()) {
    close(lock);
    return database.status();
  }
  std::unique_ptr<Ledger> ledger(new Ledger(path, lock, *std::move(database)));
  if (Status status = PrepareFile(*ledger->database_, path); !status.ok())
    return status.Annotate(path);
  if (Status status = ledger->statements_->Prepare(*ledger->database_); !status.ok())
    return status.Annotate(path);
  if (Status status = ledger->FindPayloadEnd(); !status.ok()) return status.Annotate(path);
  const std::size_t slash = path.rfind('/');
  BUTTRESS_RETURN_IF_ERROR(SyncFolder(slash == std::string::npos ? "." : path.substr(0, slash)));
  return ledger;
}

Result<LedgerSnapshot> Ledger::Load() {
  LedgerSnapshot snapshot;
  const std::string under_way = "under_way";
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.run, ReadRun(*database_));
  if (!snapshot.run) return snapshot;
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.groups, ReadGroups(*database_, under_way));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.accepted, ReadAccepted(*database_, under_way));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.followers, ReadFollowers(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.histories, ReadHistories(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.collapse, ReadCollapse(*database_));
  for (const auto& [source, counts] : snapshot.collapse) {
    BUTTRESS_ASSIGN_OR_RETURN(snapshot.difficulty[source], ReadDifficulty(*database_, source));
  }
  std::erase_if(snapshot.difficulty, [](const auto& entry) { return entry.second.groups() == 0; });
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.recent, ReadRecentCollapse(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.records, ReadPromptRecords(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.skipped, ReadSkipped(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(
      snapshot.replaced,
      ReadAccepted(*database_, "reason = 'no_signal' AND step = " +
                                   std::to_string(snapshot.run->planned_step + 1)));
  BUTTRESS_ASSIGN_OR_RETURN(
      snapshot.plans,
      ReadPlans(*database_, "step > " + std::to_string(snapshot.run->settled_step)));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.learners, ReadLearners(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.announced, ReadNewestManifest(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.ended_tags,
                            ReadEndedTags(*database_, FirstEndedTag(snapshot.run->next_group_id)));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.ended, ReadEnded(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.orders, ReadWorkerOrders(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.starts, ReadStarts(*database_));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.versions, ReadVersions(*database_, kKeptVersions));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.checkpoints,
                            ReadCheckpoints(*database_, snapshot.run->settled_step));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.early_end,
                            ReadEarlyEnd(*database_, snapshot.run->learner_epoch));
  return snapshot;
}

Result<PromptRecord> Ledger::ReadPromptRecord(std::uint64_t dataset_row) {
  Statement& rows = *statements_->read_record;
  PromptRecord record;
  rows.Bind(dataset_row);
  // To the end: a statement that stays open would keep SQLite from copying its log into the file.
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows.Next());
    if (!found) return record;
    BUTTRESS_ASSIGN_OR_RETURN(record, ReadRecord(rows));
  }
}

Status Ledger::Write(const LedgerChanges& changes) {
  if (changes.empty()) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(database_->Execute("BEGIN IMMEDIATE"));
  Status status = statements_->WriteAll(changes);
  Failpoint("ledger_commit");
  if (status.ok()) status = database_->Execute("COMMIT");
  Failpoint("ledger_committed");
  if (!status.ok()) {
    // SQLite itself rolls back after some errors; ROLLBACK then fails, which does not matter.
    database_->Execute("ROLLBACK").IgnoreError();
    return status;
  }
  if (!changes.accepted.empty())
    payload_end_ = std::max(payload_end_, changes.accepted.back().payload.end());
  return OkStatus();
}

Status Ledger::FindPayloadEnd() {
  BUTTRESS_ASSIGN_OR_RETURN(payload_end_, ReadPayloadEnd(*database_));
  return OkStatus();
}

}  // namespace buttress
