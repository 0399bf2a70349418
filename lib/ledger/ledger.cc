#include "lib/ledger/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/base/report/log.h"
#include "lib/experience/codec.h"
#include "lib/ledger/archive.h"
#include "lib/ledger/database.h"
#include "lib/ledger/schema.h"

namespace buttress {
namespace {

// The write-ahead log may hold 8,000 pages of 4 KiB before SQLite copies it into the file. A reader
// that takes long, as a backup does, lets it grow meanwhile; it is cut to 64 MiB afterwards. The
// cache of 64 MiB (a negative cache_size is in KiB) holds the rows of all groups under way. A
// transaction whose pages outgrew it would write them early, and again, under checksums that are
// wrong until it ends: it takes more memory instead.
constexpr const char* kPragmas = R"sql(
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  PRAGMA wal_autocheckpoint = 8000;
  PRAGMA journal_size_limit = 67108864;
  PRAGMA foreign_keys = ON;
  PRAGMA cache_size = -65536;
  PRAGMA cache_spill = OFF;
)sql";

// A statement that inserts a row: what stands before its values, and what stands behind them.
struct Insert {
  const char* begin;
  const char* conflict = "";
};

constexpr Insert kGroup = {"INSERT INTO groups", R"sql(
  ON CONFLICT (group_id) DO UPDATE SET
    state = excluded.state, reason = excluded.reason, attempts = excluded.attempts,
    lease_epoch = excluded.lease_epoch, worker_id = excluded.worker_id,
    incarnation = excluded.incarnation, min_epoch = excluded.min_epoch,
    min_step = excluded.min_step, granted_epoch = excluded.granted_epoch,
    granted_step = excluded.granted_step, step = excluded.step, position = excluded.position,
    passed = excluded.passed, holds_slot = excluded.holds_slot,
    under_way = excluded.under_way)sql"};
constexpr Insert kAccepted = {"INSERT INTO accepted"};
constexpr Insert kChanged = {"INSERT INTO accepted",
                             "ON CONFLICT DO UPDATE SET head = excluded.head"};
constexpr Insert kPlan = {"INSERT INTO plans",
                          "ON CONFLICT DO UPDATE SET summary = excluded.summary"};

}  // namespace

// Of the newest groups of a source, by id.
using TrialsBySource = std::map<std::string, std::map<std::uint64_t, GroupTrials>>;

// Writes the rows of each table: every column in the order of the schema. Keeps the statements, so
// that each is prepared once.
class Ledger::Writer {
 public:
  explicit Writer(Database& database) : database_(database) {}

  Status Write(const LedgerChanges& changes) {
    for (const std::uint64_t id : changes.returned)
      BUTTRESS_RETURN_IF_ERROR(Run("DELETE FROM accepted WHERE group_id = ?", id));
    for (const StartRow& row : changes.starts)
      BUTTRESS_RETURN_IF_ERROR(Put({"INSERT INTO starts"}, row.coordinator_epoch, row.start_id));
    if (changes.run) BUTTRESS_RETURN_IF_ERROR(WriteRun(*changes.run));
    for (const GroupRow& row : changes.groups) BUTTRESS_RETURN_IF_ERROR(WriteGroup(row));
    for (const AcceptedGroup& row : changes.accepted)
      BUTTRESS_RETURN_IF_ERROR(WriteAccepted(kAccepted, row));
    for (const auto& [group_id, row] : changes.changed)
      BUTTRESS_RETURN_IF_ERROR(WriteAccepted(kChanged, row));
    for (const auto& [source, c] : changes.collapse) {
      BUTTRESS_RETURN_IF_ERROR(Put({"REPLACE INTO collapse"}, source, c.groups, c.all_correct,
                                   c.all_wrong, c.other_constant, c.mixed, c.unscorable));
    }
    if (changes.ended_tokens) {
      const EndedTokens& tokens = *changes.ended_tokens;
      BUTTRESS_RETURN_IF_ERROR(
          Put({"REPLACE INTO ended_tokens"}, 1, tokens.trained, tokens.masked, tokens.stale));
    }
    for (const WorkerTokensRow& row : changes.worker_tokens) {
      BUTTRESS_RETURN_IF_ERROR(Put({"REPLACE INTO worker_tokens"}, row.worker_id, row.incarnation,
                                   row.generated, row.cut, row.refused, row.accepted));
    }
    BUTTRESS_RETURN_IF_ERROR(WritePrompts(changes));
    for (const WorkerOrderRow& row : changes.orders) {
      BUTTRESS_RETURN_IF_ERROR(
          row.order == WorkerOrder::kNone
              ? Run("DELETE FROM worker_orders WHERE worker_id = ?", row.worker_id)
              : Put({"REPLACE INTO worker_orders"}, row.worker_id, WorkerOrderName(row.order),
                    row.reason));
    }
    if (changes.origin) {
      const OriginRow& from = *changes.origin;
      for (const auto& [source, cursor] : from.cursors) {
        BUTTRESS_RETURN_IF_ERROR(Put({"INSERT INTO origin"}, source, from.run_id, from.step,
                                     Blob{from.digest}, cursor.pass, cursor.index, cursor.drawn));
      }
    }
    return WriteLearnerSide(changes);
  }

  // Gives this transaction its number.
  Status WriteNumber(std::uint64_t number) {
    return Run("UPDATE transactions SET number = ?", number);
  }

  // Names the archive `row`, whose file is durable, and deletes the rows of its groups. `trials`
  // are those of its groups that a restart would read.
  Status MoveToArchive(const ArchiveRow& row, const TrialsBySource& trials) {
    BUTTRESS_RETURN_IF_ERROR(Put({"INSERT INTO archives"}, row.number, row.first_group,
                                 row.last_group, row.first_step, row.last_step, row.bytes,
                                 Blob{row.sha256}, row.payload_end.segment,
                                 row.payload_end.offset));
    for (const auto& [source, newest] : trials) {
      for (const auto& [id, group] : newest) {
        BUTTRESS_RETURN_IF_ERROR(Put({"INSERT INTO archived_trials"}, source, id,
                                     group.before.correct, group.before.scored, group.own.correct,
                                     group.own.scored));
      }
      BUTTRESS_RETURN_IF_ERROR(
          Run("DELETE FROM archived_trials WHERE source = ?1 AND group_id < (SELECT group_id FROM "
              "archived_trials WHERE source = ?1 ORDER BY group_id DESC LIMIT 1 OFFSET ?2)",
              source, RecentDifficulty::kGroups - 1));
    }
    for (const std::string table : {"plan_groups", "accepted", "groups"}) {
      BUTTRESS_RETURN_IF_ERROR(Run("DELETE FROM " + table + " WHERE group_id BETWEEN ? AND ?",
                                   row.first_group, row.last_group));
    }
    return OkStatus();
  }

 private:
  Result<Statement*> Prepared(const std::string& sql) {
    std::unique_ptr<Statement>& statement = statements_[sql];
    if (statement == nullptr) {
      BUTTRESS_ASSIGN_OR_RETURN(statement, database_.Prepare(sql));
    }
    return statement.get();
  }

  template <class... Values>
  Status Run(const std::string& sql, const Values&... values) {
    BUTTRESS_ASSIGN_OR_RETURN(Statement* const statement, Prepared(sql));
    return statement->Run(values...);
  }

  template <class... Values>
  Status Put(const Insert& insert, const Values&... values) {
    std::string sql = insert.begin + std::string(" VALUES (?");
    for (std::size_t i = 1; i < sizeof...(values); ++i) sql += ", ?";
    return Run(sql + ") " + insert.conflict, values...);
  }

  Status WriteRun(const RunRow& r) {
    BUTTRESS_RETURN_IF_ERROR(
        Put({"REPLACE INTO run"}, 1, r.run_id, r.run_name, r.config_sha256, r.coordinator_epoch,
            r.next_group_id, r.learner_epoch, r.planned_step, r.committed_step, r.checkpoint_step,
            r.settled_step, r.acr_ema, r.finished,
            r.greso ? std::optional(r.greso->easy) : std::nullopt,
            r.greso ? std::optional(r.greso->hard) : std::nullopt, r.ordered_max_age));
    for (std::uint64_t i = 0; i < r.sources.size(); ++i) {
      const SourceRow& s = r.sources[i];
      BUTTRESS_RETURN_IF_ERROR(Put({"REPLACE INTO sources"}, i, s.name, s.dataset.rows,
                                   s.dataset.sha256, s.cursor.pass, s.cursor.index,
                                   s.cursor.drawn));
    }
    return OkStatus();
  }

  Status WriteGroup(const GroupRow& g) {
    return Put(kGroup, g.group_id, g.prompt.prompt_id, g.prompt.source, g.prompt.pass, g.prompt.row,
               g.prompt.completions, g.prompt.probability, GroupStateName(g.state),
               DropReasonName(g.reason), g.attempts, g.lease_epoch, g.worker_id, g.incarnation,
               g.min_version.learner_epoch, g.min_version.step, g.granted_version.learner_epoch,
               g.granted_version.step, g.step, g.position, g.passed, g.holds_slot,
               g.state != GroupState::kSettled && g.state != GroupState::kDropped);
  }

  Status WriteAccepted(const Insert& insert, const AcceptedGroup& a) {
    return Put(insert, a.id(), a.lease_epoch, Blob{a.content_sha256}, a.payload.segment,
               a.payload.offset, a.payload.bytes, a.payload.check,
               Blob{a.head->SerializeAsString()});
  }

  // What is known of prompts.
  Status WritePrompts(const LedgerChanges& changes) {
    for (const auto& [dataset_row, h] : changes.histories) {
      BUTTRESS_RETURN_IF_ERROR(Put({"REPLACE INTO prompt_history"}, dataset_row, h.correct,
                                   h.scored, h.recent_correct, h.recent_scored));
    }
    for (const auto& [dataset_row, r] : changes.records) {
      BUTTRESS_RETURN_IF_ERROR(Put({"REPLACE INTO prompt_records"}, dataset_row, r.easy_in_a_row,
                                   r.hard_in_a_row, r.last_constant, r.last_pass, r.correct,
                                   r.wrong));
    }
    for (const SkipRow& row : changes.skipped) {
      BUTTRESS_RETURN_IF_ERROR(
          Put({"INSERT INTO skipped"}, row.pass, row.row, SkipReasonName(row.reason), row.source));
    }
    return OkStatus();
  }

  Status WritePlan(const PlanRow& p) {
    return Put(kPlan, p.step, Blob{ToProto(p.collapse, p.drawn, p.control).SerializeAsString()});
  }

  Status WriteNewPlan(const PlanRow& p) {
    BUTTRESS_RETURN_IF_ERROR(WritePlan(p));
    for (std::size_t i = 0; i < p.group_ids.size(); ++i) {
      BUTTRESS_RETURN_IF_ERROR(Put({"INSERT INTO plan_groups"}, p.step, i, p.group_ids[i]));
    }
    return OkStatus();
  }

  Status WriteLearnerSide(const LedgerChanges& changes) {
    for (const PlanRow& row : changes.plans) BUTTRESS_RETURN_IF_ERROR(WriteNewPlan(row));
    for (const DropRow& row : changes.drops) {
      BUTTRESS_RETURN_IF_ERROR(Run("DELETE FROM plan_groups WHERE group_id = ?", row.group_id));
      BUTTRESS_RETURN_IF_ERROR(
          Put({"INSERT INTO drops"}, row.group_id, row.step, row.position, row.reason));
    }
    for (const RefillRow& row : changes.refills) {
      BUTTRESS_RETURN_IF_ERROR(
          Put({"INSERT INTO plan_groups"}, row.plan.step, row.position, row.group_id()));
      BUTTRESS_RETURN_IF_ERROR(WritePlan(row.plan));
    }
    for (const LearnerRow& row : changes.learners) {
      BUTTRESS_RETURN_IF_ERROR(Put({"INSERT INTO learners"}, row.learner_epoch, row.start_step,
                                   Blob{row.checkpoint_digest}, row.world_size,
                                   Blob{row.secret_sha256}));
    }
    for (const CommitRow& row : changes.commits)
      BUTTRESS_RETURN_IF_ERROR(Put({"INSERT INTO commits"}, row.learner_epoch, row.step));
    for (const auto& [version, bytes] : changes.manifests) {
      BUTTRESS_RETURN_IF_ERROR(Put({"INSERT INTO manifests"}, version.learner_epoch, version.step,
                                   Blob{version.digest}));
      BUTTRESS_RETURN_IF_ERROR(Put({"REPLACE INTO newest_manifest"}, 1, Blob{bytes}));
    }
    for (const CheckpointRow& row : changes.checkpoints) {
      BUTTRESS_RETURN_IF_ERROR(
          Put({"REPLACE INTO checkpoints"}, row.learner_epoch, row.step, Blob{row.digest}));
    }
    if (!changes.early_end) return OkStatus();
    const EarlyEndRow& end = *changes.early_end;
    return Put({"REPLACE INTO early_ends"}, end.learner_epoch, end.step, end.coordinator_epoch,
               end.reason);
  }

  Database& database_;
  std::map<std::string, std::unique_ptr<Statement>> statements_;  // by SQL
};

Ledger::Ledger(LedgerLock lock, const std::string& path, std::unique_ptr<Database> database)
    : LedgerReader(path, std::move(database), ReaderView::kEachCall),
      lock_(std::move(lock)),
      writer_(std::make_unique<Writer>(*database_)) {}

Ledger::~Ledger() {
  writer_.reset();
  database_.reset();
}

Result<std::unique_ptr<Ledger>> Ledger::Open(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(LedgerLock lock, LedgerLock::Take(path));
  BUTTRESS_RETURN_IF_ERROR(CheckHeader(path));
  const auto acknowledged = AcknowledgedInLog(path);
  BUTTRESS_ASSIGN_OR_RETURN(auto database, Database::Open(path, DatabaseMode::kReadWrite));
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(lock), path, std::move(database)));
  if (Status status = ledger->Prepare(acknowledged); !status.ok()) {
    ledger->database_->KeepLog();
    return status;
  }
  const std::size_t slash = path.rfind('/');
  BUTTRESS_RETURN_IF_ERROR(SyncFolder(slash == std::string::npos ? "." : path.substr(0, slash)));
  return ledger;
}

Status Ledger::Prepare(const std::optional<LedgerTransaction>& acknowledged) {
  BUTTRESS_RETURN_IF_ERROR(database_->Execute(kPragmas));
  BUTTRESS_RETURN_IF_ERROR(CheckAcknowledged(acknowledged));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t tables,
                            database_->QueryInt("SELECT COUNT(*) FROM sqlite_schema"));
  if (tables > 0) {
    BUTTRESS_RETURN_IF_ERROR(CheckVersion());
  } else {
    BUTTRESS_RETURN_IF_ERROR(database_->Execute(fmt::format(
        "BEGIN IMMEDIATE; PRAGMA application_id = {}; PRAGMA user_version = {};{}COMMIT;",
        kLedgerApplicationId, kLedgerVersion, kLedgerSchema)));
  }
  BUTTRESS_ASSIGN_OR_RETURN(last_, LastTransaction());
  lock_.Acknowledge(last_);
  BUTTRESS_ASSIGN_OR_RETURN(payload_end_, EndOfPayloads());
  return OkStatus();
}

template <class Body>
Status Ledger::Transact(const Body& body) {
  BUTTRESS_RETURN_IF_ERROR(database_->Execute("BEGIN IMMEDIATE"));
  Status status = body();
  if (status.ok()) status = writer_->WriteNumber(last_.number + 1);
  Failpoint("ledger_commit");
  if (status.ok()) status = database_->Execute("COMMIT");
  Failpoint("ledger_committed");
  if (status.ok()) {
    ++last_.number;
    lock_.Acknowledge(last_);
  }
  // SQLite itself rolls back after some errors; ROLLBACK then fails, which does not matter.
  if (!status.ok()) database_->Execute("ROLLBACK").IgnoreError();
  return status;
}

Status Ledger::Write(const LedgerChanges& changes) {
  if (changes.empty()) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(Transact([&] { return writer_->Write(changes); }));
  if (!changes.accepted.empty())
    payload_end_ = std::max(payload_end_, changes.accepted.back().payload.end());
  return OkStatus();
}

// A restart reads what is under way, what ended after the first accepted of these came in, what was
// replaced since the last plan, and the newest ended groups (LedgerReader::Load).
Result<std::uint64_t> Ledger::LastToArchive() {
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, Run());
  if (!run) return std::uint64_t{0};
  std::uint64_t first_kept = FirstEndedTag(run->next_group_id);
  BUTTRESS_RETURN_IF_ERROR(database_->ForEach(
      "SELECT MIN(group_id) FROM groups WHERE under_way UNION ALL "
      "SELECT MIN(group_id) FROM groups WHERE reason = 'no_signal' AND step = ?1 UNION ALL "
      "SELECT MIN(group_id) FROM accepted WHERE (segment, offset) > (SELECT segment, offset FROM "
      "groups CROSS JOIN accepted USING (group_id) WHERE under_way ORDER BY segment, offset LIMIT "
      "1)",
      [&](const Statement& row) {
        if (!row.Null(0)) first_kept = std::min(first_kept, row.Unsigned(0));
        return OkStatus();
      },
      run->planned_step + 1));
  return first_kept - 1;
}

Result<std::int64_t> Ledger::Archive(std::uint64_t min_steps, std::int64_t most,
                                     const std::function<void(const std::string&)>& written) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::uint64_t last, LastToArchive());
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<ArchiveRow> newest, NewestArchive());
  ArchiveRow row = newest.value_or(ArchiveRow());
  if (last <= row.last_group) return 0;
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::int64_t step,
      database_->QueryInt(fmt::format("SELECT IFNULL(MAX(step), 0) FROM (SELECT step FROM groups "
                                      "WHERE group_id <= {} AND state = 'settled' ORDER BY "
                                      "group_id DESC LIMIT 1)",
                                      last)));
  if (static_cast<std::uint64_t>(step) < row.last_step + min_steps) return 0;
  ++row.number;
  row.first_group = row.last_group + 1;
  row.last_group = std::min(last, row.last_group + static_cast<std::uint64_t>(most));
  TrialsBySource trials;
  BUTTRESS_ASSIGN_OR_RETURN(const auto accepted, AcceptedBetween(row.first_group, row.last_group));
  for (const auto& [id, group] : accepted) {
    row.payload_end = std::max(row.payload_end, group.payload.end());
    if (group.trials().own.scored == 0) continue;
    auto& newest_of = trials[group.head->source()];
    newest_of[id] = group.trials();
    if (newest_of.size() > RecentDifficulty::kGroups) newest_of.erase(newest_of.begin());
  }
  BUTTRESS_RETURN_IF_ERROR(WriteArchive(*database_, path_, row));
  written(ArchivePath(path_, row.number));
  BUTTRESS_RETURN_IF_ERROR(Transact([&] { return writer_->MoveToArchive(row, trials); }));
  return static_cast<std::int64_t>(row.last_group - row.first_group + 1);
}

}  // namespace buttress
