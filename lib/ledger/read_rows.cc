#include "lib/ledger/read_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "lib/experience/codec.h"
#include "lib/ledger/schema.h"

namespace buttress {
namespace {

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

CollapseCounts CountsAt(const Statement& row, int column) {
  return {.groups = row.Int(column),
          .all_correct = row.Int(column + 1),
          .all_wrong = row.Int(column + 2),
          .other_constant = row.Int(column + 3),
          .mixed = row.Int(column + 4),
          .unscorable = row.Int(column + 5)};
}

Status DamagedRow(std::string_view table, const Statement& row) {
  return DataLoss(fmt::format(
      "ledger.db is damaged: row '{}' of table {} does not have its checksum; restore a backup of "
      "the run, or start a new run from its newest checkpoint",
      row.Text(0), table));
}

// Calls `visit(row)`, which returns a Status, for each row that `sql` selects.
template <class Visit>
Status ForEachSelected(Database& database, const std::string& sql, Visit visit) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Statement> statement, database.Prepare(sql));
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, statement->Next());
    if (!found) return OkStatus();
    BUTTRESS_RETURN_IF_ERROR(visit(*statement));
  }
}

// Calls `visit(row)` for the whole rows of a checked table; `rest` is the SQL behind the table's
// name. kDataLoss for a row without its checksum.
template <class Visit>
Status ForEachRow(Database& database, std::string_view table, const std::string& rest,
                  Visit visit) {
  return ForEachSelected(database, fmt::format("SELECT * FROM {} {}", table, rest),
                         [&](const Statement& row) -> Status {
                           if (!row.Intact()) return DamagedRow(table, row);
                           return visit(row);
                         });
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

// A row without its checksum gives a group of which only the id is known.
Status ReadAcceptedGroup(const Statement& row, AcceptedGroup& accepted) {
  v1::GroupHead head;
  accepted.damaged =
      !row.Intact() || !head.ParseFromString(row.Text(7)) || head.group_id() != row.Unsigned(0);
  if (accepted.damaged) {
    head.Clear();
    head.set_group_id(row.Unsigned(0));
  } else {
    accepted.lease_epoch = row.Unsigned(1);
    accepted.content_sha256 = row.Text(2);
    accepted.payload = {row.Unsigned(3), row.Unsigned(4), static_cast<std::uint32_t>(row.Int(5)),
                        row.Unsigned(6)};
  }
  accepted.head = std::make_shared<const v1::GroupHead>(std::move(head));
  return OkStatus();
}

}  // namespace

Status CheckLedgerFile(Database& database, const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t id, database.QueryInt("PRAGMA application_id"));
  BUTTRESS_ASSIGN_OR_RETURN(const std::int64_t version, database.QueryInt("PRAGMA user_version"));
  if (id != kLedgerApplicationId)
    return FailedPrecondition(path + " is not a ledger; name the ledger.db of a run");
  if (version == kLedgerVersion) return OkStatus();
  // kInvalidArgument, because no restart of the program can fix it.
  return InvalidArgument(
      fmt::format("{} is a ledger of version {}, this program reads version {}; use the program "
                  "that wrote it, or a new run folder (local.out)",
                  path, version, kLedgerVersion));
}

Result<std::optional<RunRow>> ReadRun(Database& database) {
  std::optional<RunRow> run;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "run", "", [&](const Statement& row) {
    run.emplace();
    run->run_id = row.Text(1);
    run->run_name = row.Text(2);
    run->config_sha256 = row.Text(3);
    run->coordinator_epoch = row.Unsigned(4);
    run->next_group_id = row.Unsigned(5);
    run->learner_epoch = row.Unsigned(6);
    run->planned_step = row.Unsigned(7);
    run->committed_step = row.Unsigned(8);
    run->checkpoint_step = row.Unsigned(9);
    run->settled_step = row.Unsigned(10);
    if (!row.Null(11)) run->acr_ema = row.Double(11);
    run->finished = row.Int(12) != 0;
    if (!row.Null(13) && !row.Null(14)) run->greso = GresoBases{row.Double(13), row.Double(14)};
    return OkStatus();
  }));
  if (!run) return run;
  const auto add_source = [&](const Statement& row) {
    run->sources.push_back({.name = row.Text(1),
                            .dataset = {row.Unsigned(2), row.Text(3)},
                            .cursor = {row.Unsigned(4), row.Unsigned(5), row.Unsigned(6)}});
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "sources", "ORDER BY position", add_source));
  return run;
}

Result<std::map<std::uint64_t, GroupRow>> ReadGroups(Database& database, const std::string& where) {
  std::map<std::uint64_t, GroupRow> groups;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "groups", "WHERE " + where,
                 [&](const Statement& row) { return ReadGroup(row, groups[row.Unsigned(0)]); }));
  return groups;
}

Result<std::map<std::uint64_t, AcceptedGroup>> ReadAccepted(Database& database,
                                                            const std::string& where) {
  std::map<std::uint64_t, AcceptedGroup> accepted;
  // CROSS JOIN makes SQLite begin with the few groups of `where` instead of all contents.
  BUTTRESS_RETURN_IF_ERROR(ForEachSelected(
      database, "SELECT accepted.* FROM groups CROSS JOIN accepted USING (group_id) WHERE " + where,
      [&](const Statement& row) { return ReadAcceptedGroup(row, accepted[row.Unsigned(0)]); }));
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
  const auto add_plan = [&](const Statement& row) -> Status {
    PlanRow& plan = plans[row.Unsigned(0)];
    plan.step = row.Unsigned(0);
    v1::PlanSummary summary;
    if (!summary.ParseFromString(row.Text(1))) return DamagedRow("plans", row);
    return FromProto(summary, plan.collapse, plan.drawn);
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "plans", "WHERE " + where, add_plan));
  const auto add_group = [&](const Statement& row) {
    std::vector<std::uint64_t>& ids = plans[row.Unsigned(0)].group_ids;
    ids.resize(std::max<std::size_t>(ids.size(), row.Unsigned(1) + 1));
    ids[row.Unsigned(1)] = row.Unsigned(2);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "plan_groups", "WHERE " + where, add_group));
  // A place that a dropped group has left stays, with id 0, until another group takes it.
  const auto add_place = [&](const Statement& row) {
    std::vector<std::uint64_t>& ids = plans[row.Unsigned(1)].group_ids;
    ids.resize(std::max<std::size_t>(ids.size(), row.Unsigned(2) + 1));
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "drops", "WHERE step > 0 AND " + where, add_place));
  return plans;
}

Result<std::vector<PromptHistory>> ReadHistories(Database& database) {
  std::vector<PromptHistory> histories;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "prompt_history", "", [&](const Statement& row) -> Status {
        const std::uint64_t dataset_row = row.Unsigned(0);
        if (dataset_row >= kMaxDatasetRows) return Damaged("row of the dataset", row.Text(0));
        if (histories.size() <= dataset_row) histories.resize(dataset_row + 1);
        PromptHistory& history = histories[dataset_row];
        history = {row.Int(1), row.Int(2)};
        history.recent_correct = row.Double(3);
        history.recent_scored = row.Double(4);
        return OkStatus();
      }));
  return histories;
}

Result<std::map<std::string, CollapseCounts>> ReadCollapse(Database& database) {
  std::map<std::string, CollapseCounts> collapse;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "collapse", "", [&](const Statement& row) {
    collapse[row.Text(0)] = CountsAt(row, 1);
    return OkStatus();
  }));
  return collapse;
}

Result<RecentCollapse> ReadRecentCollapse(Database& database) {
  RecentCollapse recent;
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans,
                            ReadPlans(database, "step >= (SELECT MAX(step) FROM plans) - " +
                                                    std::to_string(kRecentSteps)));
  for (const auto& [step, plan] : plans) {
    for (const SourceCollapse& source : plan.collapse.sources)
      recent[step][source.source] = source.step;
  }
  return recent;
}

Result<RecentDifficulty> ReadDifficulty(Database& database, const std::string& source) {
  RecentDifficulty difficulty;
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database.Prepare("SELECT accepted.* FROM groups INDEXED BY groups_by_source CROSS JOIN "
                       "accepted USING (group_id) WHERE source = ? ORDER BY groups.group_id "
                       "DESC"));
  rows->Bind(source);
  while (difficulty.groups() < RecentDifficulty::kGroups) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) break;
    AcceptedGroup group;
    BUTTRESS_RETURN_IF_ERROR(ReadAcceptedGroup(*rows, group));
    if (!group.damaged) difficulty.Add(group.id(), group.trials());
  }
  return difficulty;
}

Result<PromptRecord> ReadRecord(const Statement& row) {
  if (!row.Intact()) return DamagedRow("prompt_records", row);
  return PromptRecord{.easy_in_a_row = row.Int(1),
                      .hard_in_a_row = row.Int(2),
                      .last_constant = row.Int(3) != 0,
                      .last_pass = row.Unsigned(4),
                      .correct = row.Double(5),
                      .wrong = row.Double(6)};
}

Result<std::map<std::uint64_t, PromptRecord>> ReadPromptRecords(Database& database) {
  std::map<std::uint64_t, PromptRecord> records;
  const auto add = [&](const Statement& row) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(records[row.Unsigned(0)], ReadRecord(row));
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "prompt_records",
                 "WHERE dataset_row IN (SELECT dataset_row FROM groups WHERE under_way)", add));
  return records;
}

Result<std::map<std::string, SkipCounts>> ReadSkipped(Database& database) {
  std::map<std::string, SkipCounts> skipped;
  const char* sql = "SELECT source, reason, prompts FROM skipped_prompts";
  BUTTRESS_RETURN_IF_ERROR(ForEachSelected(database, sql, [&](const Statement& row) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const SkipReason reason,
                              FromName(SkipReasonName, kSkipReasons, row.Text(1)));
    skipped[row.Text(0)][static_cast<std::size_t>(reason)] = row.Int(2);
    return OkStatus();
  }));
  return skipped;
}

Result<std::vector<LearnerRow>> ReadLearners(Database& database) {
  std::vector<LearnerRow> learners;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "learners", "ORDER BY learner_epoch", [&](const Statement& row) {
        learners.push_back({row.Unsigned(0), row.Unsigned(1), row.Text(2),
                            static_cast<std::uint32_t>(row.Int(3)), row.Text(4)});
        return OkStatus();
      }));
  return learners;
}

Result<PayloadEnd> ReadPayloadEnd(Database& database) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<Statement> rows,
      database.Prepare("SELECT * FROM accepted WHERE group_id NOT IN (SELECT group_id FROM drops) "
                       "ORDER BY segment DESC, offset DESC"));
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, rows->Next());
    if (!found) return PayloadEnd();
    AcceptedGroup last;
    BUTTRESS_RETURN_IF_ERROR(ReadAcceptedGroup(*rows, last));
    if (!last.damaged) return last.payload.end();
  }
}

Result<std::optional<OriginRow>> ReadOrigin(Database& database) {
  std::optional<OriginRow> origin;
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "origin", "", [&](const Statement& row) {
    if (!origin) origin = OriginRow{row.Text(1), row.Unsigned(2), row.Text(3), {}};
    origin->cursors[row.Text(0)] = {row.Unsigned(4), row.Unsigned(5), row.Unsigned(6)};
    return OkStatus();
  }));
  return origin;
}

Result<std::vector<DropRow>> ReadDrops(Database& database) {
  std::vector<DropRow> drops;
  const auto add = [&](const Statement& row) {
    drops.push_back(
        {row.Unsigned(0), row.Unsigned(1), static_cast<std::uint32_t>(row.Int(2)), 0, row.Text(3)});
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "drops", "ORDER BY group_id", add));
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans,
                            ReadPlans(database, "step IN (SELECT step FROM drops)"));
  for (DropRow& drop : drops) {
    if (drop.step != 0) drop.replaced_by = plans.at(drop.step).group_ids[drop.position];
  }
  return drops;
}

Result<std::vector<CommitRow>> ReadCommits(Database& database) {
  std::vector<CommitRow> commits;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "commits", "ORDER BY learner_epoch, step", [&](const Statement& row) {
        commits.push_back({row.Unsigned(0), row.Unsigned(1)});
        return OkStatus();
      }));
  return commits;
}

Result<std::vector<CheckpointRow>> ReadCheckpoints(Database& database, std::uint64_t first_step) {
  std::vector<CheckpointRow> checkpoints;
  const std::string rest =
      "WHERE step >= " + std::to_string(first_step) + " ORDER BY learner_epoch, step";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "checkpoints", rest, [&](const Statement& row) {
    checkpoints.push_back({row.Unsigned(0), row.Unsigned(1), row.Text(2)});
    return OkStatus();
  }));
  return checkpoints;
}

Result<std::optional<EarlyEndRow>> ReadEarlyEnd(Database& database, std::uint64_t learner_epoch) {
  std::optional<EarlyEndRow> end;
  const std::string rest = "WHERE learner_epoch = " + std::to_string(learner_epoch);
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "early_ends", rest, [&](const Statement& row) {
    end = EarlyEndRow{row.Unsigned(0), row.Unsigned(1), row.Unsigned(2), row.Text(3)};
    return OkStatus();
  }));
  return end;
}

Result<std::vector<StartRow>> ReadStarts(Database& database) {
  std::vector<StartRow> starts;
  const char* rest = "ORDER BY coordinator_epoch";
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "starts", rest, [&](const Statement& row) {
    starts.push_back({row.Unsigned(0), row.Text(1)});
    return OkStatus();
  }));
  return starts;
}

Result<std::vector<PolicyVersion>> ReadVersions(Database& database, std::uint64_t limit) {
  std::vector<PolicyVersion> versions;
  const std::string rest = "ORDER BY learner_epoch DESC, step DESC LIMIT " + std::to_string(limit);
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "manifests", rest, [&](const Statement& row) {
    versions.push_back({row.Unsigned(0), row.Unsigned(1), row.Text(2)});
    return OkStatus();
  }));
  std::ranges::reverse(versions);
  return versions;
}

Result<std::map<std::string, WorkerOrderRow>> ReadWorkerOrders(Database& database) {
  std::map<std::string, WorkerOrderRow> orders;
  BUTTRESS_RETURN_IF_ERROR(
      ForEachRow(database, "worker_orders", "", [&](const Statement& row) -> Status {
        BUTTRESS_ASSIGN_OR_RETURN(const WorkerOrder order,
                                  FromName(WorkerOrderName, kWorkerOrders, row.Text(1)));
        orders[row.Text(0)] = {row.Text(0), order, row.Text(2)};
        return OkStatus();
      }));
  return orders;
}

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

Result<EndedCounts> ReadEnded(Database& database) {
  EndedCounts ended;
  const char* sql = "SELECT state, reason, groups FROM ended_groups";
  BUTTRESS_RETURN_IF_ERROR(ForEachSelected(database, sql, [&](const Statement& row) -> Status {
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

Result<std::vector<std::string>> ReadDamagedRows(Database& database) {
  std::vector<std::string> damaged;
  for (const char* table : kCheckedTables) {
    BUTTRESS_RETURN_IF_ERROR(ForEachSelected(
        database, fmt::format("SELECT * FROM {}", table), [&](const Statement& row) {
          if (!row.Intact()) damaged.push_back(fmt::format("row '{}' of {}", row.Text(0), table));
          return OkStatus();
        }));
  }
  return damaged;
}

}  // namespace buttress
