#include "lib/ledger/reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/experience/codec.h"
#include "lib/ledger/database.h"
#include "lib/ledger/schema.h"

namespace buttress {
namespace {

using Groups = std::map<std::uint64_t, GroupRow>;
using AcceptedGroups = std::map<std::uint64_t, AcceptedGroup>;

Status Damaged(const std::string& what, const std::string& value) {
  return DataLoss(
      fmt::format("ledger has unknown {} '{}'; restore ledger.db from a copy", what, value));
}

// A dataset of more rows than this would not fit into PromptSource either.
constexpr std::uint64_t kMaxDatasetRows = std::uint64_t{1} << 32;

// Sets `out` to the value below `count` that has this name.
template <class Enum>
Status FromName(std::string_view (*name_of)(Enum), std::size_t count, const std::string& name,
                Enum& out) {
  for (std::size_t i = 0; i < count; ++i) {
    out = static_cast<Enum>(i);
    if (name_of(out) == name) return OkStatus();
  }
  return Damaged("name", name);
}

Status DamagedRow(std::string_view table, const Statement& row) {
  return DataLoss(fmt::format(
      "ledger.db is damaged: row '{}' of table {} does not have its checksum; restore a backup of "
      "the run, or start a new run from its newest checkpoint",
      row.Text(0), table));
}

// Calls `visit(row)` for the whole rows of a checked table; `rest` is the SQL behind the table's
// name, written in this library, never text from outside. kDataLoss for a row without its checksum.
template <class Visit>
Status ForEachRow(Database& database, std::string_view table, std::string_view rest, Visit visit) {
  return database.ForEach(fmt::format("SELECT * FROM {} {}", table, rest),
                          [&](const Statement& row) -> Status {
                            if (!row.Intact()) return DamagedRow(table, row);
                            return visit(row);
                          });
}

// Returns the whole rows of a checked table, with its columns in `members`.
template <class Row, class... Members>
Result<std::vector<Row>> ReadTable(Database& database, std::string_view table,
                                   std::string_view rest, Members Row::*... members) {
  std::vector<Row> rows;
  const auto add = [&](const Statement& row) {
    Row& read = rows.emplace_back();
    row.Read(read.*members...);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, table, rest, add));
  return rows;
}

Result<Groups> ReadGroups(Database& database, const std::string& where) {
  Groups groups;
  const auto add = [&](const Statement& row) -> Status {
    GroupRow& g = groups[row.Unsigned(0)];
    std::string state, reason;
    row.Read(g.group_id, g.prompt.prompt_id, g.prompt.source, g.prompt.pass, g.prompt.row,
             g.prompt.completions, g.prompt.probability, state, reason, g.attempts, g.lease_epoch,
             g.worker_id, g.incarnation, g.min_version.learner_epoch, g.min_version.step,
             g.granted_version.learner_epoch, g.granted_version.step, g.step, g.position, g.passed,
             g.holds_slot);
    BUTTRESS_RETURN_IF_ERROR(FromName(GroupStateName, kGroupStates, state, g.state));
    return FromName(DropReasonName, kDropReasons, reason, g.reason);
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "groups", "WHERE " + where, add));
  return groups;
}

// A row without its checksum gives a group of which only the id is known.
AcceptedGroup AcceptedFrom(const Statement& row) {
  AcceptedGroup accepted;
  v1::GroupHead head;
  accepted.damaged =
      !row.Intact() || !head.ParseFromString(row.Text(7)) || head.group_id() != row.Unsigned(0);
  if (accepted.damaged) {
    head.Clear();
    head.set_group_id(row.Unsigned(0));
  } else {
    std::uint64_t id = 0;
    row.Read(id, accepted.lease_epoch, accepted.content_sha256, accepted.payload.segment,
             accepted.payload.offset, accepted.payload.bytes, accepted.payload.check);
  }
  accepted.head = std::make_shared<const v1::GroupHead>(std::move(head));
  return accepted;
}

// `where` may name columns of `groups`. CROSS JOIN makes SQLite begin with the few groups of it
// instead of all contents.
Result<AcceptedGroups> ReadAccepted(Database& database, const std::string& where) {
  AcceptedGroups accepted;
  BUTTRESS_RETURN_IF_ERROR(database.ForEach(
      "SELECT accepted.* FROM groups CROSS JOIN accepted USING (group_id) WHERE " + where,
      [&](const Statement& row) {
        accepted[row.Unsigned(0)] = AcceptedFrom(row);
        return OkStatus();
      }));
  return accepted;
}

// LedgerSnapshot::followers.
Result<std::map<std::uint64_t, EndedGroup>> ReadFollowers(Database& database) {
  // The index of places leads to what came in after the first ready group, which is little.
  const std::string where =
      "group_id IN (SELECT group_id FROM accepted WHERE (segment, offset) > (SELECT segment, "
      "offset FROM groups CROSS JOIN accepted USING (group_id) WHERE under_way AND state = 'ready' "
      "ORDER BY segment, offset LIMIT 1)) AND NOT under_way AND dataset_row IN (SELECT dataset_row "
      "FROM groups WHERE under_way AND state = 'ready')";
  std::map<std::uint64_t, EndedGroup> followers;
  BUTTRESS_ASSIGN_OR_RETURN(auto groups, ReadGroups(database, where));
  if (groups.empty()) return followers;
  BUTTRESS_ASSIGN_OR_RETURN(auto accepted, ReadAccepted(database, where));
  for (auto& [id, row] : accepted) followers[id] = {std::move(groups.at(id)), std::move(row)};
  return followers;
}

Result<std::map<std::uint64_t, PlanRow>> ReadPlans(Database& database, const std::string& where) {
  std::map<std::uint64_t, PlanRow> plans;
  const auto add_plan = [&](const Statement& row) -> Status {
    PlanRow& plan = plans[row.Unsigned(0)];
    plan.step = row.Unsigned(0);
    v1::PlanSummary summary;
    if (!summary.ParseFromString(row.Text(1))) return DamagedRow("plans", row);
    return FromProto(summary, plan.collapse, plan.drawn);
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "plans", "WHERE " + where, add_plan));
  const auto place = [&](std::uint64_t step, std::uint64_t position) -> std::uint64_t& {
    std::vector<std::uint64_t>& ids = plans[step].group_ids;
    ids.resize(std::max<std::size_t>(ids.size(), position + 1));
    return ids[position];
  };
  const auto add_group = [&](const Statement& row) {
    place(row.Unsigned(0), row.Unsigned(1)) = row.Unsigned(2);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "plan_groups", "WHERE " + where, add_group));
  // A place that a dropped group has left stays, with id 0, until another group takes it.
  const auto add_place = [&](const Statement& row) {
    place(row.Unsigned(1), row.Unsigned(2));
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "drops", "WHERE step > 0 AND " + where, add_place));
  return plans;
}

// Of the newest accepted groups of a source.
Result<RecentDifficulty> ReadDifficulty(Database& database, const std::string& source) {
  RecentDifficulty difficulty;
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database.Prepare("SELECT accepted.* FROM groups INDEXED BY groups_by_source CROSS JOIN "
                       "accepted USING (group_id) WHERE source = ? ORDER BY groups.group_id DESC"));
  rows->Bind(source);
  while (difficulty.groups() < RecentDifficulty::kGroups) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) break;
    const AcceptedGroup group = AcceptedFrom(*rows);
    if (!group.damaged) difficulty.Add(group.id(), group.trials());
  }
  return difficulty;
}

// By row of the dataset.
Result<std::map<std::uint64_t, PromptRecord>> ReadRecords(Database& database,
                                                          const std::string& where) {
  std::map<std::uint64_t, PromptRecord> records;
  const auto add = [&](const Statement& row) {
    std::uint64_t dataset_row = row.Unsigned(0);
    PromptRecord& r = records[dataset_row];
    row.Read(dataset_row, r.easy_in_a_row, r.hard_in_a_row, r.last_constant, r.last_pass, r.correct,
             r.wrong);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "prompt_records", "WHERE " + where, add));
  return records;
}

// The newest `limit` announced versions, oldest first.
Result<std::vector<PolicyVersion>> ReadVersions(Database& database, std::uint64_t limit) {
  BUTTRESS_ASSIGN_OR_RETURN(
      auto versions,
      ReadTable(database, "manifests",
                fmt::format("ORDER BY learner_epoch DESC, step DESC LIMIT {}", limit),
                &PolicyVersion::learner_epoch, &PolicyVersion::step, &PolicyVersion::digest));
  std::ranges::reverse(versions);
  return versions;
}

Result<std::map<std::string, WorkerOrderRow>> ReadWorkerOrders(Database& database) {
  std::map<std::string, WorkerOrderRow> orders;
  const auto add = [&](const Statement& row) {
    WorkerOrderRow& order = orders[row.Text(0)];
    std::string name;
    row.Read(order.worker_id, name, order.reason);
    return FromName(WorkerOrderName, kWorkerOrders, name, order.order);
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "worker_orders", "", add));
  return orders;
}

// The version that was announced last; nullopt before the first.
Result<std::optional<ManifestRow>> ReadNewestManifest(Database& database) {
  std::optional<ManifestRow> manifest;
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<PolicyVersion> newest, ReadVersions(database, 1));
  if (newest.empty()) return manifest;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "newest_manifest", "", [&](const Statement& row) {
    manifest = ManifestRow{newest.back(), row.Text(1)};
    return OkStatus();
  }));
  return manifest;
}

// ContentTag of the settled and the replaced groups with ids from `first_id` on, by id.
Result<std::map<std::uint64_t, std::uint64_t>> ReadEndedTags(Database& database,
                                                             std::uint64_t first_id) {
  std::map<std::uint64_t, std::uint64_t> tags;
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto ended, ReadAccepted(database, fmt::format("group_id >= {} AND (state = 'settled' "
                                                           "OR reason = 'no_signal')",
                                                           first_id)));
  for (const auto& [id, group] : ended) {
    if (!group.damaged) tags.emplace_hint(tags.end(), id, ContentTag(group.content_sha256));
  }
  return tags;
}

}  // namespace

LedgerReader::LedgerReader(std::unique_ptr<Database> database) : database_(std::move(database)) {}

LedgerReader::~LedgerReader() = default;

Result<std::unique_ptr<LedgerReader>> LedgerReader::Open(const std::string& path, ReaderView view) {
  if (access(path.c_str(), F_OK) != 0)
    return NotFound(path + ": no such file; expected the ledger.db of a run");
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                            Database::Open(path, DatabaseMode::kReadOnly));
  // A read transaction that all calls share begins with the first read.
  if (view == ReaderView::kOneMoment) BUTTRESS_RETURN_IF_ERROR(database->Execute("BEGIN"));
  std::unique_ptr<LedgerReader> reader(new LedgerReader(std::move(database)));
  BUTTRESS_RETURN_IF_ERROR(reader->CheckVersion(path));
  return reader;
}

Status LedgerReader::CheckVersion(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t id, database_->QueryInt("PRAGMA application_id"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t version, database_->QueryInt("PRAGMA user_version"));
  if (id != kLedgerApplicationId)
    return FailedPrecondition(path + " is not a ledger; name the ledger.db of a run");
  if (version == kLedgerVersion) return OkStatus();
  // kInvalidArgument, because no restart of the program can fix it.
  return InvalidArgument(
      fmt::format("{} is a ledger of version {}, this program reads version {}; use the program "
                  "that wrote it, or a new run folder (local.out)",
                  path, version, kLedgerVersion));
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

Result<std::vector<GroupRecord>> LedgerReader::Join(const std::string& where) {
  BUTTRESS_ASSIGN_OR_RETURN(auto groups, ReadGroups(*database_, where));
  BUTTRESS_ASSIGN_OR_RETURN(auto accepted, ReadAccepted(*database_, where));
  std::vector<GroupRecord> records;
  for (auto& [id, group] : groups) {
    GroupRecord& record = records.emplace_back();
    record.group = std::move(group);
    const auto content = accepted.find(id);
    if (content != accepted.end()) record.accepted = std::move(content->second);
  }
  return records;
}

Result<std::vector<GroupRecord>> LedgerReader::Groups(std::uint64_t first_id, std::int64_t limit) {
  return Join(
      fmt::format("group_id IN (SELECT group_id FROM groups WHERE group_id >= {} ORDER BY group_id "
                  "LIMIT {})",
                  first_id, limit));
}

Result<std::vector<GroupRecord>> LedgerReader::GroupsById(std::span<const std::uint64_t> ids) {
  constexpr std::size_t kPage = 4096;
  std::vector<GroupRecord> records;
  for (; !ids.empty(); ids = ids.subspan(std::min(kPage, ids.size()))) {
    const std::string list =
        fmt::format("{}", fmt::join(ids.first(std::min(kPage, ids.size())), ", "));
    BUTTRESS_ASSIGN_OR_RETURN(std::vector<GroupRecord> page, Join("group_id IN (" + list + ")"));
    std::ranges::move(page, std::back_inserter(records));
  }
  std::ranges::sort(records, {}, [](const GroupRecord& record) { return record.group.group_id; });
  return records;
}

Result<std::vector<StepOfGroup>> LedgerReader::StepsOfAccepted() {
  std::vector<StepOfGroup> groups;
  BUTTRESS_RETURN_IF_ERROR(database_->ForEach(
      "SELECT CASE WHEN step > 0 THEN step ELSE granted_step + 1 END AS at, group_id "
      "FROM accepted JOIN groups USING (group_id) ORDER BY at, group_id",
      [&](const Statement& row) {
        groups.push_back({row.Unsigned(0), row.Unsigned(1)});
        return OkStatus();
      }));
  return groups;
}

Result<std::vector<std::uint64_t>> LedgerReader::DrawnFor(std::uint64_t step) {
  std::vector<std::uint64_t> ids;
  BUTTRESS_RETURN_IF_ERROR(database_->ForEach(
      "SELECT group_id FROM (SELECT group_id, 0 AS late, position FROM plan_groups WHERE step = ?1 "
      "UNION ALL SELECT group_id, 1, group_id FROM groups WHERE reason = 'no_signal' AND step = ?1 "
      "AND EXISTS (SELECT 1 FROM plans WHERE step = ?1)) ORDER BY late, position",
      [&](const Statement& row) {
        ids.push_back(row.Unsigned(0));
        return OkStatus();
      },
      step));
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

Result<std::map<std::uint64_t, PlanRow>> LedgerReader::Plans() {
  return ReadPlans(*database_, "TRUE");
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
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<DropRow> drops,
                            ReadTable(*database_, "drops", "ORDER BY group_id", &DropRow::group_id,
                                      &DropRow::step, &DropRow::position, &DropRow::reason));
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans,
                            ReadPlans(*database_, "step IN (SELECT step FROM drops)"));
  for (DropRow& drop : drops) {
    if (drop.step != 0) drop.replaced_by = plans.at(drop.step).group_ids[drop.position];
  }
  return drops;
}

Result<PayloadEnd> LedgerReader::EndOfPayloads() {
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database_->Prepare("SELECT * FROM accepted WHERE group_id NOT IN (SELECT group_id FROM "
                         "drops) ORDER BY segment DESC, offset DESC"));
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) return PayloadEnd();
    const AcceptedGroup last = AcceptedFrom(*rows);
    if (!last.damaged) return last.payload.end();
  }
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

Result<std::vector<std::string>> LedgerReader::DamagedRows() {
  std::vector<std::string> damaged;
  const auto check = [&](const Statement& schema) {
    const std::string table = schema.Text(0);
    return database_->ForEach("SELECT * FROM " + table, [&](const Statement& row) {
      if (!row.Intact()) damaged.push_back(fmt::format("row '{}' of {}", row.Text(0), table));
      return OkStatus();
    });
  };
  BUTTRESS_RETURN_IF_ERROR(database_->ForEach(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%row_check%'", check));
  return damaged;
}

}  // namespace buttress
