#include "lib/ledger/reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "lib/experience/codec.h"
#include "lib/ledger/checked_files.h"
#include "lib/ledger/database.h"
#include "lib/ledger/schema.h"
#include "lib/ledger/table_reader.h"

namespace buttress {
namespace {

// A dataset of more rows than this would not fit into PromptSource either.
constexpr std::uint64_t kMaxDatasetRows = std::uint64_t{1} << 32;

Status CheckIdentity(const std::string& path, std::int64_t id, std::int64_t version) {
  if (id != kLedgerApplicationId)
    return FailedPrecondition(path + " is not a ledger; name the ledger.db of a run");
  if (version == kLedgerVersion) return OkStatus();
  // kInvalidArgument, because no restart of the program can fix it.
  return InvalidArgument(
      fmt::format("{} is a ledger of version {}, this program reads version {}; use the program "
                  "that wrote it, or a new run folder (local.out)",
                  path, version, kLedgerVersion));
}

}  // namespace

class LedgerReader::Moment {
 public:
  explicit Moment(LedgerReader& reader)
      : database_(reader.view_ == ReaderView::kEachCall ? reader.database_.get() : nullptr) {
    if (database_ != nullptr) status_ = database_->Execute("BEGIN");
  }

  ~Moment() {
    if (database_ != nullptr && status_.ok()) database_->Execute("END").IgnoreError();
  }

  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;

  const Status& status() const { return status_; }

 private:
  Database* const database_;
  Status status_;
};

LedgerReader::LedgerReader(std::string path, std::unique_ptr<Database> database, ReaderView view)
    : path_(std::move(path)), database_(std::move(database)), view_(view) {}

LedgerReader::~LedgerReader() = default;

Result<std::unique_ptr<LedgerReader>> LedgerReader::Open(const std::string& path, ReaderView view) {
  if (access(path.c_str(), F_OK) != 0)
    return NotFound(path + ": no such file; expected the ledger.db of a run");
  BUTTRESS_RETURN_IF_ERROR(CheckHeader(path));
  const auto acknowledged = AcknowledgedInLog(path);
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                            Database::Open(path, DatabaseMode::kReadOnly));
  // A read transaction that all calls share begins with the first read.
  if (view == ReaderView::kOneMoment) BUTTRESS_RETURN_IF_ERROR(database->Execute("BEGIN"));
  std::unique_ptr<LedgerReader> reader(new LedgerReader(path, std::move(database), view));
  BUTTRESS_RETURN_IF_ERROR(reader->CheckAcknowledged(acknowledged));
  BUTTRESS_RETURN_IF_ERROR(reader->CheckVersion());
  return reader;
}

// The places are those of SQLite's file format.
Status LedgerReader::CheckHeader(const std::string& path) {
  std::string header(100, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(header.data(), static_cast<std::streamsize>(header.size()))) return OkStatus();
  if (!header.starts_with("SQLite format 3") || header[20] == kSealBytes) return OkStatus();
  const auto number_at = [&](std::size_t place) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i)
      number = number << 8 | static_cast<unsigned char>(header[place + i]);
    return std::int64_t{number};
  };
  return CheckIdentity(path, number_at(68), number_at(60));
}

Status LedgerReader::CheckVersion() {
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t id, database_->QueryInt("PRAGMA application_id"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t version, database_->QueryInt("PRAGMA user_version"));
  return CheckIdentity(path_, id, version);
}

std::optional<LedgerTransaction> LedgerReader::AcknowledgedInLog(const std::string& path) {
  return Database::HasLog(path) ? LastAcknowledged(path) : std::nullopt;
}

Status LedgerReader::CheckAcknowledged(const std::optional<LedgerTransaction>& acknowledged) {
  if (!acknowledged) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerTransaction found, LastTransaction());
  const bool another = !found.ledger_id.empty() && found.ledger_id != acknowledged->ledger_id;
  if (another || found.number >= acknowledged->number) return OkStatus();
  return DataLoss(
      fmt::format("{0}-wal is damaged, or is not the log of {0}: transaction {1} was acknowledged, "
                  "and only {2} can be read; {3}. To go on without the others, remove {0}.lock",
                  path_, acknowledged->number, found.number, kLedgerMend));
}

Result<LedgerTransaction> LedgerReader::LastTransaction() {
  LedgerTransaction last;
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::int64_t tables,
      database_->QueryInt("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'transactions'"));
  if (tables == 0) return last;
  BUTTRESS_RETURN_IF_ERROR(
      database_->ForEach("SELECT ledger_id, number FROM transactions", [&](const Statement& row) {
        row.Read(last.ledger_id, last.number);
        return OkStatus();
      }));
  return last;
}

Result<LedgerSnapshot> LedgerReader::Load() {
  LedgerSnapshot snapshot;
  Database& database = *database_;
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.run, Run());
  if (!snapshot.run) return snapshot;
  const RunRow& run = *snapshot.run;
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.groups, ReadGroups(database, "under_way"));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.accepted, ReadAccepted(database, "under_way"));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.followers, ReadFollowers(database));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.histories, Histories());
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.collapse, ReportedCollapse());
  for (const auto& [source, counts] : snapshot.collapse) {
    BUTTRESS_ASSIGN_OR_RETURN(snapshot.difficulty[source], ReadDifficulty(database, source));
  }
  std::erase_if(snapshot.difficulty, [](const auto& entry) { return entry.second.groups() == 0; });
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto recent,
      ReadPlans(database, fmt::format("step >= (SELECT MAX(step) FROM plans) - {}", kRecentSteps)));
  for (const auto& [step, plan] : recent) {
    for (const SourceCollapse& source : plan.collapse.sources)
      snapshot.recent[step][source.source] = source.step;
    snapshot.control = plan.control;
  }
  BUTTRESS_ASSIGN_OR_RETURN(
      snapshot.records,
      ReadRecords(database, "dataset_row IN (SELECT dataset_row FROM groups WHERE under_way)"));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.skipped, Skipped());
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.replaced,
                            ReadAccepted(database, fmt::format("reason = 'no_signal' AND step = {}",
                                                               run.planned_step + 1)));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.plans,
                            ReadPlans(database, fmt::format("step > {}", run.settled_step)));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.learners, Learners());
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.announced, ReadNewestManifest(database));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.ended_tags,
                            ReadEndedTags(database, FirstEndedTag(run.next_group_id)));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.ended, Ended());
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.orders, ReadWorkerOrders(database));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.starts,
                            ReadTable(database, "starts", "ORDER BY coordinator_epoch",
                                      &StartRow::coordinator_epoch, &StartRow::start_id));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.versions, ReadVersions(database, kKeptVersions));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.checkpoints, Checkpoints(run.settled_step));
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.early_end, EarlyEnd());
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.ended_tokens, TokensOfEnded());
  BUTTRESS_ASSIGN_OR_RETURN(snapshot.worker_tokens,
                            ReadTable(database, "worker_tokens", "ORDER BY worker_id, incarnation",
                                      &WorkerTokensRow::worker_id, &WorkerTokensRow::incarnation,
                                      &WorkerTokensRow::generated, &WorkerTokensRow::cut,
                                      &WorkerTokensRow::refused, &WorkerTokensRow::accepted));
  return snapshot;
}

Result<PromptRecord> LedgerReader::ReadPromptRecord(std::uint64_t dataset_row) {
  const auto key = static_cast<std::int64_t>(dataset_row);  // as it is stored
  BUTTRESS_ASSIGN_OR_RETURN(const auto records,
                            ReadRecords(*database_, fmt::format("dataset_row = {}", key)));
  return records.empty() ? PromptRecord() : records.begin()->second;
}

Result<std::optional<RunRow>> LedgerReader::Run() {
  std::optional<RunRow> run;
  std::int64_t key = 0;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(*database_, "run", "", [&](const Statement& row) {
    RunRow& r = run.emplace();
    std::optional<double> easy, hard;
    row.Read(key, r.run_id, r.run_name, r.config_sha256, r.coordinator_epoch, r.next_group_id,
             r.learner_epoch, r.planned_step, r.committed_step, r.checkpoint_step, r.settled_step,
             r.acr_ema, r.finished, easy, hard, r.ordered_max_age);
    if (easy && hard) r.greso = GresoBases{*easy, *hard};
    return OkStatus();
  }));
  if (!run) return run;
  const auto add_source = [&](const Statement& row) {
    SourceRow& s = run->sources.emplace_back();
    row.Read(key, s.name, s.dataset.rows, s.dataset.sha256, s.cursor.pass, s.cursor.index,
             s.cursor.drawn);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(*database_, "sources", "ORDER BY position", add_source));
  return run;
}

Result<std::vector<ArchiveRow>> LedgerReader::Archives() {
  return ReadArchives(*database_, "ORDER BY number");
}

Result<std::optional<ArchiveRow>> LedgerReader::NewestArchive() {
  BUTTRESS_ASSIGN_OR_RETURN(const auto newest,
                            ReadArchives(*database_, "ORDER BY number DESC LIMIT 1"));
  return newest.empty() ? std::optional<ArchiveRow>() : newest.front();
}

Result<std::optional<ArchiveRow>> LedgerReader::ArchiveFrom(std::uint64_t group_id) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto first,
      ReadArchives(*database_,
                   fmt::format("WHERE last_group >= {} ORDER BY last_group LIMIT 1", group_id)));
  return first.empty() ? std::optional<ArchiveRow>() : first.front();
}

Result<Database*> LedgerReader::OpenedArchive(const ArchiveRow& row) {
  if (opened_number_ != row.number) {
    BUTTRESS_ASSIGN_OR_RETURN(opened_, OpenArchive(path_, row));
    opened_number_ = row.number;
  }
  return opened_.get();
}

template <class Visit>
Status LedgerReader::ForEachArchive(const std::string& where, Visit visit) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto archives,
      ReadArchives(*database_, fmt::format("WHERE {} ORDER BY number", where)));
  for (const ArchiveRow& row : archives) {
    BUTTRESS_ASSIGN_OR_RETURN(Database* const archive, OpenedArchive(row));
    BUTTRESS_RETURN_IF_ERROR(visit(*archive).Annotate(ArchivePath(path_, row.number)));
  }
  return OkStatus();
}

Result<std::map<std::uint64_t, AcceptedGroup>> LedgerReader::AcceptedBetween(std::uint64_t first,
                                                                             std::uint64_t last) {
  return ReadAccepted(*database_, fmt::format("group_id BETWEEN {} AND {}", first, last));
}

Result<std::vector<GroupRecord>> LedgerReader::Groups(std::uint64_t first_id, std::int64_t limit) {
  const std::string page = fmt::format(
      "group_id IN (SELECT group_id FROM groups WHERE group_id >= {} ORDER BY group_id "
      "LIMIT {})",
      first_id, limit);
  const Moment moment(*this);
  BUTTRESS_RETURN_IF_ERROR(moment.status());
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<ArchiveRow> archive, ArchiveFrom(first_id));
  if (!archive) return JoinGroups(*database_, page);
  BUTTRESS_ASSIGN_OR_RETURN(Database* const database, OpenedArchive(*archive));
  return JoinGroups(*database, page);
}

Result<std::vector<GroupRecord>> LedgerReader::GroupsById(std::span<const std::uint64_t> ids) {
  constexpr std::size_t kPage = 4096;
  std::vector<std::uint64_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  std::vector<GroupRecord> records;
  const Moment moment(*this);
  BUTTRESS_RETURN_IF_ERROR(moment.status());
  for (std::span<const std::uint64_t> left = sorted; !left.empty();) {
    std::span<const std::uint64_t> page = left.first(std::min(kPage, left.size()));
    Database* database = database_.get();
    BUTTRESS_ASSIGN_OR_RETURN(const std::optional<ArchiveRow> archive, ArchiveFrom(left.front()));
    if (archive) {
      BUTTRESS_ASSIGN_OR_RETURN(database, OpenedArchive(*archive));
      const auto end = std::ranges::upper_bound(page, archive->last_group);
      page = page.first(static_cast<std::size_t>(end - page.begin()));
    }
    BUTTRESS_ASSIGN_OR_RETURN(
        std::vector<GroupRecord> found,
        JoinGroups(*database, fmt::format("group_id IN ({})", fmt::join(page, ", "))));
    std::ranges::move(found, std::back_inserter(records));
    left = left.subspan(page.size());
  }
  return records;
}

Result<std::vector<StepOfGroup>> LedgerReader::StepsOfAccepted() {
  std::vector<StepOfGroup> groups;
  const auto add_all = [&](Database& database) {
    return database.ForEach(
        "SELECT CASE WHEN step > 0 THEN step ELSE granted_step + 1 END, group_id FROM accepted "
        "JOIN groups USING (group_id)",
        [&](const Statement& row) {
          groups.push_back({row.Unsigned(0), row.Unsigned(1)});
          return OkStatus();
        });
  };
  const Moment moment(*this);
  BUTTRESS_RETURN_IF_ERROR(moment.status());
  BUTTRESS_RETURN_IF_ERROR(ForEachArchive("TRUE", add_all));
  BUTTRESS_RETURN_IF_ERROR(add_all(*database_));
  std::ranges::sort(groups, {},
                    [](const StepOfGroup& group) { return std::pair(group.step, group.group_id); });
  return groups;
}

Result<std::vector<std::uint64_t>> LedgerReader::DrawnFor(std::uint64_t step) {
  const Moment moment(*this);
  BUTTRESS_RETURN_IF_ERROR(moment.status());
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans, PlansOf(fmt::format("step = {}", step)));
  std::vector<std::uint64_t> ids;
  if (plans.empty()) return ids;
  ids = plans.begin()->second.group_ids;
  std::erase(ids, std::uint64_t{0});
  const auto add_replaced = [&](Database& database) {
    return database.ForEach(
        "SELECT group_id FROM groups WHERE reason = 'no_signal' AND step = ? ORDER BY group_id",
        [&](const Statement& row) {
          ids.push_back(row.Unsigned(0));
          return OkStatus();
        },
        step);
  };
  BUTTRESS_RETURN_IF_ERROR(
      ForEachArchive(fmt::format("{} BETWEEN first_step AND last_step", step), add_replaced));
  BUTTRESS_RETURN_IF_ERROR(add_replaced(*database_));
  return ids;
}

Result<std::vector<UnsolvedPrompt>> LedgerReader::Unsolved(std::int64_t recent,
                                                           std::int64_t limit) {
  std::vector<UnsolvedPrompt> prompts;
  BUTTRESS_RETURN_IF_ERROR(database_->ForEach(
      "SELECT prompt_id, source, MAX(group_id), scored FROM (SELECT group_id FROM accepted ORDER "
      "BY group_id DESC LIMIT ?1) JOIN groups USING (group_id) JOIN prompt_history USING "
      "(dataset_row) WHERE correct = 0 AND scored > completions GROUP BY dataset_row ORDER BY "
      "scored DESC, 3 DESC LIMIT ?2",
      [&](const Statement& row) {
        prompts.push_back({row.Text(0), row.Text(1), row.Unsigned(2), row.Int(3)});
        return OkStatus();
      },
      recent, limit));
  return prompts;
}

// Of an archived plan the groups themselves say which place they have.
Result<std::map<std::uint64_t, PlanRow>> LedgerReader::PlansOf(const std::string& where) {
  BUTTRESS_ASSIGN_OR_RETURN(auto plans, ReadPlans(*database_, where));
  if (plans.empty()) return plans;
  const auto add_places = [&](Database& archive) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const auto groups,
                              ReadGroups(archive, "state = 'settled' AND " + where));
    for (const auto& [id, group] : groups) PlaceIn(plans[group.step], group.position) = id;
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachArchive(fmt::format("first_step <= {} AND last_step >= {}",
                                                      plans.rbegin()->first, plans.begin()->first),
                                          add_places));
  return plans;
}

Result<std::map<std::uint64_t, PlanRow>> LedgerReader::Plans() {
  const Moment moment(*this);
  BUTTRESS_RETURN_IF_ERROR(moment.status());
  return PlansOf("TRUE");
}

Result<std::map<std::string, SkipCounts>> LedgerReader::Skipped() {
  std::map<std::string, SkipCounts> skipped;
  const auto add = [&](const Statement& row) -> Status {
    SkipReason reason{};
    BUTTRESS_RETURN_IF_ERROR(FromName(SkipReasonName, kSkipReasons, row.Text(1), reason));
    skipped[row.Text(0)][static_cast<std::size_t>(reason)] = row.Int(2);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(
      database_->ForEach("SELECT source, reason, prompts FROM skipped_prompts", add));
  return skipped;
}

Result<EndedCounts> LedgerReader::Ended() {
  EndedCounts ended;
  const auto add = [&](const Statement& row) -> Status {
    GroupState state{};
    DropReason reason{};
    BUTTRESS_RETURN_IF_ERROR(FromName(GroupStateName, kGroupStates, row.Text(0), state));
    BUTTRESS_RETURN_IF_ERROR(FromName(DropReasonName, kDropReasons, row.Text(1), reason));
    const bool settled = state == GroupState::kSettled;
    (settled ? ended.settled : ended.dropped[static_cast<std::size_t>(reason)]) += row.Int(2);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(
      database_->ForEach("SELECT state, reason, groups FROM ended_groups", add));
  return ended;
}

Result<std::vector<PromptHistory>> LedgerReader::Histories() {
  std::vector<PromptHistory> histories;
  const auto add = [&](const Statement& row) -> Status {
    std::uint64_t dataset_row = row.Unsigned(0);
    if (dataset_row >= kMaxDatasetRows) return Damaged("row of the dataset", row.Text(0));
    if (histories.size() <= dataset_row) histories.resize(dataset_row + 1);
    PromptHistory& history = histories[dataset_row];
    row.Read(dataset_row, history.correct, history.scored, history.recent_correct,
             history.recent_scored);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(*database_, "prompt_history", "", add));
  return histories;
}

Result<std::map<std::string, CollapseCounts>> LedgerReader::ReportedCollapse() {
  std::map<std::string, CollapseCounts> collapse;
  const auto add = [&](const Statement& row) {
    std::string source = row.Text(0);
    CollapseCounts& c = collapse[source];
    row.Read(source, c.groups, c.all_correct, c.all_wrong, c.other_constant, c.mixed, c.unscorable);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(*database_, "collapse", "", add));
  return collapse;
}

Result<EndedTokens> LedgerReader::TokensOfEnded() {
  EndedTokens tokens;
  std::int64_t key = 0;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(*database_, "ended_tokens", "", [&](const Statement& row) {
    row.Read(key, tokens.trained, tokens.masked, tokens.stale);
    return OkStatus();
  }));
  return tokens;
}

Result<std::optional<EarlyEndRow>> LedgerReader::EarlyEnd() {
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto ends,
      ReadTable(*database_, "early_ends", "WHERE learner_epoch = (SELECT learner_epoch FROM run)",
                &EarlyEndRow::learner_epoch, &EarlyEndRow::step, &EarlyEndRow::coordinator_epoch,
                &EarlyEndRow::reason));
  return ends.empty() ? std::optional<EarlyEndRow>() : ends.front();
}

Result<std::optional<OriginRow>> LedgerReader::Origin() {
  std::optional<OriginRow> origin;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(*database_, "origin", "", [&](const Statement& row) {
    if (!origin) origin.emplace();
    std::string source = row.Text(0);
    PromptCursor& cursor = origin->cursors[source];
    row.Read(source, origin->run_id, origin->step, origin->digest, cursor.pass, cursor.index,
             cursor.drawn);
    return OkStatus();
  }));
  return origin;
}

Result<std::vector<DropRow>> LedgerReader::Drops() {
  const Moment moment(*this);
  BUTTRESS_RETURN_IF_ERROR(moment.status());
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<DropRow> drops,
                            ReadTable(*database_, "drops", "ORDER BY group_id", &DropRow::group_id,
                                      &DropRow::step, &DropRow::position, &DropRow::reason));
  std::set<std::uint64_t> steps;
  for (const DropRow& drop : drops) steps.insert(drop.step);
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans,
                            PlansOf(fmt::format("step IN ({})", fmt::join(steps, ", "))));
  for (DropRow& drop : drops) {
    if (drop.step != 0) drop.replaced_by = plans.at(drop.step).group_ids[drop.position];
  }
  return drops;
}

Result<PayloadEnd> LedgerReader::EndOfPayloads() {
  return LastEnd("group_id NOT IN (SELECT group_id FROM drops)");
}

Result<PayloadEnd> LedgerReader::EndOfAllPayloads() { return LastEnd("TRUE"); }

Result<PayloadEnd> LedgerReader::LastEnd(const std::string& where) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<ArchiveRow> newest, NewestArchive());
  PayloadEnd end = newest ? newest->payload_end : PayloadEnd();
  BUTTRESS_RETURN_IF_ERROR(database_->ForEach(
      "SELECT * FROM accepted WHERE " + where + " ORDER BY segment DESC, offset DESC LIMIT 1",
      [&](const Statement& row) -> Status {
        BUTTRESS_ASSIGN_OR_RETURN(const AcceptedGroup last, AcceptedFrom(row));
        end = std::max(end, last.payload.end());
        return OkStatus();
      }));
  return end;
}

Result<std::vector<LearnerRow>> LedgerReader::Learners() {
  return ReadTable(*database_, "learners", "ORDER BY learner_epoch", &LearnerRow::learner_epoch,
                   &LearnerRow::start_step, &LearnerRow::checkpoint_digest, &LearnerRow::world_size,
                   &LearnerRow::secret_sha256);
}

Result<std::vector<CommitRow>> LedgerReader::Commits() {
  return ReadTable(*database_, "commits", "ORDER BY learner_epoch, step", &CommitRow::learner_epoch,
                   &CommitRow::step);
}

Result<std::vector<CheckpointRow>> LedgerReader::Checkpoints(std::uint64_t first_step) {
  return ReadTable(*database_, "checkpoints",
                   fmt::format("WHERE step >= {} ORDER BY learner_epoch, step", first_step),
                   &CheckpointRow::learner_epoch, &CheckpointRow::step, &CheckpointRow::digest);
}

Result<std::vector<std::string>> LedgerReader::DamagedArchives() {
  std::vector<std::string> damaged;
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<ArchiveRow> archives, Archives());
  for (const ArchiveRow& row : archives) {
    const Status opened = OpenedArchive(row).status();
    if (!opened.ok()) damaged.push_back(opened.message());
  }
  return damaged;
}

}  // namespace buttress
