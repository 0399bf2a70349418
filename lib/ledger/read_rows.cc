#include "lib/ledger/read_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "lib/ledger/schema.h"

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little,
              "EncodeDoubles and EncodeSketch write numbers as they are in memory");

Status Damaged(const std::string& what, const std::string& value) {
  return DataLoss(
      fmt::format("ledger has unknown {} '{}'; restore ledger.db from a copy", what, value));
}

// A dataset of more rows than this would not fit into PromptSource either.
constexpr std::uint64_t kMaxDatasetRows = std::uint64_t{1} << 32;

// Returns the value below `count` that has this name.
template <class Enum>
Result<Enum> FromName(std::string_view (*name_of)(Enum), std::size_t count,
                      const std::string& name) {
  for (std::size_t i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return Damaged("name", name);
}

Result<std::vector<PolicyVersion>> DecodeVersions(const std::string& text) {
  std::vector<PolicyVersion> versions;
  std::size_t begin = 0;
  while (begin < text.size()) {
    unsigned long long epoch = 0;
    unsigned long long step = 0;
    int used = 0;
    if (std::sscanf(text.c_str() + begin, "%llu:%llu%n", &epoch, &step, &used) != 2)
      return Damaged("versions", text);
    versions.push_back({epoch, step, ""});
    begin += static_cast<std::size_t>(used) + 1;
  }
  return versions;
}

std::vector<std::string> SplitNames(const std::string& text) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

Result<std::vector<double>> DecodeDoubles(const std::string& bytes) {
  if (bytes.size() % sizeof(double) != 0)
    return Damaged("components of size", std::to_string(bytes.size()));
  std::vector<double> values(bytes.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

CollapseCounts CountsAt(const Statement& row, int column) {
  return {.groups = row.Int(column),
          .all_correct = row.Int(column + 1),
          .all_wrong = row.Int(column + 2),
          .other_constant = row.Int(column + 3),
          .mixed = row.Int(column + 4),
          .unscorable = row.Int(column + 5)};
}

// Calls `visit(row)`, which returns a Status, for each row that `sql` selects.
template <class Visit>
Status ForEachRow(Database& database, const std::string& sql, Visit visit) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Statement> statement, database.Prepare(sql));
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, statement->Next());
    if (!found) return OkStatus();
    BUTTRESS_RETURN_IF_ERROR(visit(*statement));
  }
}

Status ReadGroup(const Statement& row, GroupRow& group) {
  group.group_id = row.Unsigned(0);
  group.prompt = {row.Text(1), row.Text(2), row.Unsigned(3), row.Unsigned(4),
                  static_cast<std::int32_t>(row.Int(5))};
  BUTTRESS_ASSIGN_OR_RETURN(group.state, FromName(GroupStateName, kGroupStates, row.Text(6)));
  BUTTRESS_ASSIGN_OR_RETURN(group.reason, FromName(DropReasonName, kDropReasons, row.Text(7)));
  group.attempts = row.Int(8);
  group.lease_epoch = row.Unsigned(9);
  group.worker_id = row.Text(10);
  group.incarnation = row.Unsigned(11);
  group.min_version = {row.Unsigned(12), row.Unsigned(13), ""};
  group.granted_version = {row.Unsigned(14), row.Unsigned(15), ""};
  group.step = row.Unsigned(16);
  group.position = static_cast<std::uint32_t>(row.Int(17));
  group.passed = row.Int(18);
  group.holds_slot = row.Int(19) != 0;
  return OkStatus();
}

// The columns history_correct, history_scored, recent_correct and recent_scored, from `column` on.
PromptHistory HistoryAt(const Statement& row, int column) {
  PromptHistory history(row.Int(column), row.Int(column + 1));
  history.recent_correct = row.Double(column + 2);
  history.recent_scored = row.Double(column + 3);
  return history;
}

Status ReadAcceptedRow(const Statement& row, AcceptedRow& accepted) {
  accepted.group_id = row.Unsigned(0);
  accepted.lease_epoch = row.Unsigned(1);
  accepted.content_sha256 = row.Text(2);
  if (accepted.content_sha256.size() != 32)
    return Damaged("content hash of group", std::to_string(accepted.group_id));
  accepted.prompt_tokens = static_cast<std::int32_t>(row.Int(3));
  accepted.component_names = SplitNames(row.Text(4));
  BUTTRESS_ASSIGN_OR_RETURN(accepted.components, DecodeDoubles(row.Text(5)));
  BUTTRESS_ASSIGN_OR_RETURN(accepted.versions, DecodeVersions(row.Text(6)));
  BUTTRESS_ASSIGN_OR_RETURN(accepted.collapse, FromName(CollapseClassName, 5, row.Text(7)));
  accepted.history = HistoryAt(row, 8);
  accepted.payload = {row.Unsigned(12), row.Unsigned(13), static_cast<std::uint32_t>(row.Int(14)),
                      row.Unsigned(15)};
  accepted.source = row.Text(16);
  accepted.record = RecordAt(row, 17);
  return OkStatus();
}

Status ReadCompletion(const Statement& row, std::map<std::uint64_t, AcceptedRow>& accepted) {
  const auto group = accepted.find(row.Unsigned(0));
  if (group == accepted.end()) return Damaged("completion of group", row.Text(0));
  CompletionRow& completion = group->second.completions.emplace_back();
  completion.outcome = static_cast<Outcome>(row.Int(2));
  completion.finish_reason = static_cast<FinishReason>(row.Int(3));
  completion.raw_reward = row.Double(4);
  completion.reward = row.Double(5);
  completion.trained_tokens = static_cast<std::int32_t>(row.Int(6));
  completion.total_tokens = static_cast<std::int32_t>(row.Int(7));
  completion.version_epoch = row.Unsigned(8);
  completion.version_step = row.Unsigned(9);
  completion.logprob_sum = row.Double(10);
  completion.token_digest = row.Text(11);
  const std::string sketch = row.Text(12);
  if (sketch.size() != sizeof(completion.token_sketch))
    return Damaged("sketch size in group", row.Text(0));
  std::memcpy(completion.token_sketch.data(), sketch.data(), sketch.size());
  return OkStatus();
}

}  // namespace

std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "\n") + name;
  return text;
}

std::string EncodeDoubles(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

std::string EncodeSketch(const MinHash& sketch) {
  return {reinterpret_cast<const char*>(sketch.data()), sizeof(sketch)};
}

std::string EncodeVersions(const std::vector<PolicyVersion>& versions) {
  std::string text;
  for (const PolicyVersion& version : versions)
    text += (text.empty() ? "" : ",") + ToString(version);
  return text;
}

Status CheckLedgerFile(Database& database, const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t id, database.QueryInt("PRAGMA application_id"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t version, database.QueryInt("PRAGMA user_version"));
  if (id != kLedgerApplicationId)
    return FailedPrecondition(path + " is not a ledger; name the ledger.db of a run");
  if (version == kLedgerVersion) return OkStatus();
  // kInvalidArgument, because no restart of the program can mend it.
  return InvalidArgument(
      fmt::format("{} is a ledger of version {}, this program reads version {}; use the program "
                  "that wrote it, or a new run folder (local.out)",
                  path, version, kLedgerVersion));
}

Result<std::optional<RunRow>> ReadRun(Database& database) {
  std::optional<RunRow> run;
  const char* sql =
      "SELECT run_id, run_name, config_sha256, coordinator_epoch, next_group_id, learner_epoch, "
      "planned_step, committed_step, checkpoint_step, settled_step, acr_ema, finished, "
      "greso_easy, greso_hard FROM run";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    run.emplace();
    run->run_id = row.Text(0);
    run->run_name = row.Text(1);
    run->config_sha256 = row.Text(2);
    run->coordinator_epoch = row.Unsigned(3);
    run->next_group_id = row.Unsigned(4);
    run->learner_epoch = row.Unsigned(5);
    run->planned_step = row.Unsigned(6);
    run->committed_step = row.Unsigned(7);
    run->checkpoint_step = row.Unsigned(8);
    run->settled_step = row.Unsigned(9);
    if (!row.Null(10)) run->acr_ema = row.Double(10);
    run->finished = row.Int(11) != 0;
    if (!row.Null(12) && !row.Null(13)) run->greso = GresoBases{row.Double(12), row.Double(13)};
    return OkStatus();
  }));
  if (!run) return run;
  sql =
      "SELECT name, dataset_rows, dataset_sha256, cursor_pass, cursor_index, drawn FROM sources "
      "ORDER BY position";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    run->sources.push_back({.name = row.Text(0),
                            .dataset = {row.Unsigned(1), row.Text(2)},
                            .cursor = {row.Unsigned(3), row.Unsigned(4), row.Unsigned(5)}});
    return OkStatus();
  }));
  return run;
}

Result<std::map<std::uint64_t, GroupRow>> ReadGroups(Database& database, const std::string& where) {
  std::map<std::uint64_t, GroupRow> groups;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "SELECT * FROM groups WHERE " + where,
                 [&](const Statement& row) { return ReadGroup(row, groups[row.Unsigned(0)]); }));
  return groups;
}

Result<std::map<std::uint64_t, AcceptedRow>> ReadAccepted(Database& database,
                                                          const std::string& where) {
  std::map<std::uint64_t, AcceptedRow> accepted;
  // CROSS JOIN makes SQLite begin with the few groups of `where` instead of all contents.
  const std::string of_groups = " USING (group_id) WHERE " + where;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(
      database,
      "SELECT group_id, accepted.lease_epoch, content_sha256, prompt_tokens, component_names, "
      "components, versions, collapse, history_correct, history_scored, recent_correct, "
      "recent_scored, segment, offset, bytes, payload_check, source, record_easy, record_hard, "
      "record_constant, record_pass, record_correct, record_wrong FROM groups CROSS JOIN "
      "accepted" +
          of_groups,
      [&](const Statement& row) { return ReadAcceptedRow(row, accepted[row.Unsigned(0)]); }));
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database,
                 "SELECT completions.* FROM groups CROSS JOIN completions" + of_groups +
                     " ORDER BY group_id, completions.position",
                 [&](const Statement& row) { return ReadCompletion(row, accepted); }));
  return accepted;
}

Result<std::map<std::uint64_t, EndedGroup>> ReadFollowers(Database& database) {
  // The index of places leads to what came in after the first ready group, which is little.
  const std::string where =
      "group_id IN (SELECT group_id FROM accepted WHERE (segment, offset) > "
      "(SELECT segment, offset FROM groups CROSS JOIN accepted USING (group_id) "
      "WHERE under_way AND state = 'ready' ORDER BY segment, offset LIMIT 1)) "
      "AND NOT under_way AND dataset_row IN "
      "(SELECT dataset_row FROM groups WHERE under_way AND state = 'ready')";
  std::map<std::uint64_t, EndedGroup> followers;
  BUTTRESS_ASSIGN_OR_RETURN(auto groups, ReadGroups(database, where));
  if (groups.empty()) return followers;
  BUTTRESS_ASSIGN_OR_RETURN(auto accepted, ReadAccepted(database, where));
  for (auto& [id, row] : accepted) followers[id] = {std::move(groups.at(id)), std::move(row)};
  return followers;
}

Result<std::map<std::uint64_t, PlanRow>> ReadPlans(Database& database, const std::string& where) {
  std::map<std::uint64_t, PlanRow> plans;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "SELECT * FROM plans WHERE " + where, [&](const Statement& row) {
        PlanRow& plan = plans[row.Unsigned(0)];
        plan.step = row.Unsigned(0);
        plan.collapse = {CountsAt(row, 1), CountsAt(row, 7), row.Double(13), row.Double(14)};
        plan.drawn = {row.Int(15), row.Int(16), row.Int(17), row.Double(18)};
        return OkStatus();
      }));
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "SELECT * FROM plan_sources WHERE " + where + " ORDER BY step, source",
                 [&](const Statement& row) {
                   plans[row.Unsigned(0)].collapse.sources.push_back(
                       {row.Text(1), CountsAt(row, 2), CountsAt(row, 8)});
                   return OkStatus();
                 }));
  const std::string sql = "SELECT step, position, group_id FROM plan_groups WHERE " + where +
                          " UNION ALL SELECT step, position, 0 FROM drops "
                          "WHERE step > 0 AND replaced_by = 0 AND " +
                          where + " ORDER BY step, position";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    plans[row.Unsigned(0)].group_ids.push_back(row.Unsigned(2));
    return OkStatus();
  }));
  return plans;
}

Result<std::vector<LastVisit>> ReadLastVisits(Database& database) {
  std::vector<LastVisit> visits;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "SELECT * FROM prompt_history", [&](const Statement& row) -> Status {
        const std::uint64_t dataset_row = row.Unsigned(0);
        if (dataset_row >= kMaxDatasetRows) return Damaged("row of the dataset", row.Text(0));
        if (visits.size() <= dataset_row) visits.resize(dataset_row + 1);
        LastVisit& visit = visits[dataset_row];
        visit.before = HistoryAt(row, 1);
        visit.own = {row.Int(5), row.Int(6)};
        visit.before.correct -= visit.own.correct;
        visit.before.scored -= visit.own.scored;
        return OkStatus();
      }));
  return visits;
}

Result<std::map<std::string, CollapseCounts>> ReadCollapse(Database& database) {
  std::map<std::string, CollapseCounts> collapse;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "SELECT * FROM collapse", [&](const Statement& row) {
        collapse[row.Text(0)] = CountsAt(row, 1);
        return OkStatus();
      }));
  return collapse;
}

Result<RecentCollapse> ReadRecentCollapse(Database& database) {
  RecentCollapse recent;
  const std::string sql =
      "SELECT * FROM plan_sources WHERE step >= (SELECT MAX(step) FROM plans) - " +
      std::to_string(kRecentSteps);
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    recent[row.Unsigned(0)][row.Text(1)] = CountsAt(row, 2);
    return OkStatus();
  }));
  return recent;
}

Result<RecentDifficulty> ReadDifficulty(Database& database, const std::string& source) {
  RecentDifficulty difficulty;
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database.Prepare("SELECT group_id, history_correct, history_scored, own_correct, own_scored "
                       "FROM groups INDEXED BY groups_by_source CROSS JOIN accepted "
                       "USING (group_id) WHERE source = ? AND own_scored > 0 "
                       "ORDER BY group_id DESC LIMIT " +
                       std::to_string(RecentDifficulty::kGroups)));
  rows->Bind(source);
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) return difficulty;
    difficulty.Add(rows->Unsigned(0), {TrialsOf({rows->Int(1), rows->Int(2)}),
                                       TrialsOf({rows->Int(3), rows->Int(4)})});
  }
}

PromptRecord RecordAt(const Statement& row, int column) {
  return {.easy_in_a_row = row.Int(column),
          .hard_in_a_row = row.Int(column + 1),
          .last_constant = row.Int(column + 2) != 0,
          .last_pass = row.Unsigned(column + 3),
          .correct = row.Double(column + 4),
          .wrong = row.Double(column + 5)};
}

Result<std::map<std::uint64_t, PromptRecord>> ReadPromptRecords(Database& database) {
  std::map<std::uint64_t, PromptRecord> records;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database,
                 "SELECT * FROM prompt_records WHERE dataset_row IN "
                 "(SELECT dataset_row FROM groups WHERE under_way) ORDER BY dataset_row",
                 [&](const Statement& row) {
                   records.emplace_hint(records.end(), row.Unsigned(0), RecordAt(row, 1));
                   return OkStatus();
                 }));
  return records;
}

Result<std::map<std::string, SkipCounts>> ReadSkipped(Database& database) {
  std::map<std::string, SkipCounts> skipped;
  const char* sql = "SELECT source, reason, prompts FROM skipped_prompts";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const SkipReason reason,
                              FromName(SkipReasonName, kSkipReasons, row.Text(1)));
    skipped[row.Text(0)][static_cast<std::size_t>(reason)] = row.Int(2);
    return OkStatus();
  }));
  return skipped;
}

Result<std::vector<LearnerRow>> ReadLearners(Database& database) {
  std::vector<LearnerRow> learners;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(
      database, "SELECT * FROM learners ORDER BY learner_epoch", [&](const Statement& row) {
        learners.push_back({row.Unsigned(0), row.Unsigned(1), row.Text(2),
                            static_cast<std::uint32_t>(row.Int(3)), row.Text(4)});
        return OkStatus();
      }));
  return learners;
}

Result<PayloadEnd> ReadPayloadEnd(Database& database) {
  PayloadEnd end;
  const char* sql =
      "SELECT segment, offset, bytes FROM accepted "
      "WHERE group_id NOT IN (SELECT group_id FROM drops) "
      "ORDER BY segment DESC, offset DESC LIMIT 1";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    end = PayloadRef{row.Unsigned(0), row.Unsigned(1), static_cast<std::uint32_t>(row.Int(2)), 0}
              .end();
    return OkStatus();
  }));
  return end;
}

Result<std::optional<OriginRow>> ReadOrigin(Database& database) {
  std::optional<OriginRow> origin;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "SELECT * FROM origin", [&](const Statement& row) {
    if (!origin) origin = OriginRow{row.Text(1), row.Unsigned(2), row.Text(3), {}};
    origin->cursors[row.Text(0)] = {row.Unsigned(4), row.Unsigned(5), row.Unsigned(6)};
    return OkStatus();
  }));
  return origin;
}

Result<std::vector<DropRow>> ReadDrops(Database& database) {
  std::vector<DropRow> drops;
  const char* sql = "SELECT * FROM drops ORDER BY group_id";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    drops.push_back({row.Unsigned(0), row.Unsigned(1), static_cast<std::uint32_t>(row.Int(2)),
                     row.Unsigned(3), row.Text(4)});
    return OkStatus();
  }));
  return drops;
}

Result<std::vector<CommitRow>> ReadCommits(Database& database) {
  std::vector<CommitRow> commits;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(
      database, "SELECT * FROM commits ORDER BY learner_epoch, step", [&](const Statement& row) {
        commits.push_back({row.Unsigned(0), row.Unsigned(1)});
        return OkStatus();
      }));
  return commits;
}

Result<std::vector<CheckpointRow>> ReadCheckpoints(Database& database, std::uint64_t first_step) {
  std::vector<CheckpointRow> checkpoints;
  const std::string sql = "SELECT * FROM checkpoints WHERE step >= " + std::to_string(first_step) +
                          " ORDER BY learner_epoch, step";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    checkpoints.push_back({row.Unsigned(0), row.Unsigned(1), row.Text(2)});
    return OkStatus();
  }));
  return checkpoints;
}

Result<std::optional<EarlyEndRow>> ReadEarlyEnd(Database& database, std::uint64_t learner_epoch) {
  std::optional<EarlyEndRow> end;
  const std::string sql =
      "SELECT * FROM early_ends WHERE learner_epoch = " + std::to_string(learner_epoch);
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    end = EarlyEndRow{row.Unsigned(0), row.Unsigned(1), row.Unsigned(2), row.Text(3)};
    return OkStatus();
  }));
  return end;
}

Result<std::vector<StartRow>> ReadStarts(Database& database) {
  std::vector<StartRow> starts;
  const char* sql = "SELECT * FROM starts ORDER BY coordinator_epoch";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    starts.push_back({row.Unsigned(0), row.Text(1)});
    return OkStatus();
  }));
  return starts;
}

Result<std::vector<PolicyVersion>> ReadVersions(Database& database, std::uint64_t limit) {
  std::vector<PolicyVersion> versions;
  const std::string sql =
      "SELECT learner_epoch, step, digest FROM manifests "
      "ORDER BY learner_epoch DESC, step DESC LIMIT " +
      std::to_string(limit);
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    versions.push_back({row.Unsigned(0), row.Unsigned(1), row.Text(2)});
    return OkStatus();
  }));
  std::ranges::reverse(versions);
  return versions;
}

Result<std::map<std::string, WorkerOrderRow>> ReadWorkerOrders(Database& database) {
  std::map<std::string, WorkerOrderRow> orders;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "SELECT * FROM worker_orders", [&](const Statement& row) -> Status {
        BUTTRESS_ASSIGN_OR_RETURN(const WorkerOrder order,
                                  FromName(WorkerOrderName, kWorkerOrders, row.Text(1)));
        orders[row.Text(0)] = {row.Text(0), order, row.Text(2)};
        return OkStatus();
      }));
  return orders;
}

Result<std::optional<ManifestRow>> ReadNewestManifest(Database& database) {
  std::optional<ManifestRow> manifest;
  const char* sql = "SELECT * FROM manifests ORDER BY learner_epoch DESC, step DESC LIMIT 1";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    manifest = ManifestRow{{row.Unsigned(0), row.Unsigned(1), row.Text(2)}, row.Text(3)};
    return OkStatus();
  }));
  return manifest;
}

Result<std::map<std::uint64_t, std::uint64_t>> ReadEndedTags(Database& database,
                                                             std::uint64_t first_id) {
  std::map<std::uint64_t, std::uint64_t> tags;
  const std::string sql =
      "SELECT group_id, content_sha256 FROM groups CROSS JOIN accepted USING (group_id) "
      "WHERE group_id >= " +
      std::to_string(first_id) +
      " AND (state = 'settled' OR reason = 'no_signal') ORDER BY group_id";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) {
    const std::string sha256 = row.Text(1);
    if (sha256.size() != 32) return Damaged("content hash of group", std::to_string(row.Int(0)));
    tags.emplace_hint(tags.end(), row.Unsigned(0), ContentTag(sha256));
    return OkStatus();
  }));
  return tags;
}

Result<EndedCounts> ReadEnded(Database& database) {
  EndedCounts ended;
  const char* sql = "SELECT state, reason, groups FROM ended_groups";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, sql, [&](const Statement& row) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const GroupState state,
                              FromName(GroupStateName, kGroupStates, row.Text(0)));
    BUTTRESS_ASSIGN_OR_RETURN(const DropReason reason,
                              FromName(DropReasonName, kDropReasons, row.Text(1)));
    if (state == GroupState::kSettled) {
      ended.settled += row.Int(2);
    } else {
      ended.dropped[static_cast<std::size_t>(reason)] += row.Int(2);
    }
    return OkStatus();
  }));
  return ended;
}

}  // namespace buttress
