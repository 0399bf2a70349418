#include "lib/ledger/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/experience/codec.h"

namespace buttress {

Status Damaged(const std::string& what, const std::string& value) {
  return DataLoss(
      fmt::format("ledger has unknown {} '{}'; restore ledger.db from a copy", what, value));
}

Result<GroupRows> ReadGroups(Database& database, const std::string& where) {
  GroupRows groups;
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

Result<AcceptedGroup> AcceptedFrom(const Statement& row) {
  AcceptedGroup accepted;
  v1::GroupHead head;
  std::uint64_t id = 0;
  std::string bytes;
  row.Read(id, accepted.lease_epoch, accepted.content_sha256, accepted.payload.segment,
           accepted.payload.offset, accepted.payload.bytes, accepted.payload.check, bytes);
  if (!head.ParseFromString(bytes) || head.group_id() != id)
    return Damaged("head of group", row.Text(0));
  accepted.head = std::make_shared<const v1::GroupHead>(std::move(head));
  return accepted;
}

Result<AcceptedGroups> ReadAccepted(Database& database, const std::string& where) {
  AcceptedGroups accepted;
  BUTTRESS_RETURN_IF_ERROR(database.ForEach(
      "SELECT accepted.* FROM groups CROSS JOIN accepted USING (group_id) WHERE " + where,
      [&](const Statement& row) -> Status {
        BUTTRESS_ASSIGN_OR_RETURN(accepted[row.Unsigned(0)], AcceptedFrom(row));
        return OkStatus();
      }));
  return accepted;
}

Result<std::vector<GroupRecord>> JoinGroups(Database& database, const std::string& where) {
  BUTTRESS_ASSIGN_OR_RETURN(auto groups, ReadGroups(database, where));
  BUTTRESS_ASSIGN_OR_RETURN(auto accepted, ReadAccepted(database, where));
  std::vector<GroupRecord> records;
  for (auto& [id, group] : groups) {
    GroupRecord& record = records.emplace_back();
    record.group = std::move(group);
    const auto content = accepted.find(id);
    if (content != accepted.end()) record.accepted = std::move(content->second);
  }
  return records;
}

Result<std::vector<ArchiveRow>> ReadArchives(Database& database, const std::string& rest) {
  std::vector<ArchiveRow> archives;
  const auto add = [&](const Statement& row) {
    ArchiveRow& a = archives.emplace_back();
    row.Read(a.number, a.first_group, a.last_group, a.first_step, a.last_step, a.bytes, a.sha256,
             a.payload_end.segment, a.payload_end.offset);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "archives", rest, add));
  return archives;
}

Result<std::map<std::uint64_t, EndedGroup>> ReadFollowers(Database& database) {
  // The index of places leads to what came in after the first accepted group that is under way,
  // which is little.
  const std::string where =
      "group_id IN (SELECT group_id FROM accepted WHERE (segment, offset) > (SELECT segment, "
      "offset FROM groups CROSS JOIN accepted USING (group_id) WHERE under_way ORDER BY segment, "
      "offset LIMIT 1)) AND NOT under_way AND dataset_row IN (SELECT dataset_row FROM groups "
      "CROSS JOIN accepted USING (group_id) WHERE under_way)";
  std::map<std::uint64_t, EndedGroup> followers;
  BUTTRESS_ASSIGN_OR_RETURN(auto groups, ReadGroups(database, where));
  if (groups.empty()) return followers;
  BUTTRESS_ASSIGN_OR_RETURN(auto accepted, ReadAccepted(database, where));
  for (auto& [id, row] : accepted) followers[id] = {std::move(groups.at(id)), std::move(row)};
  return followers;
}

std::uint64_t& PlaceIn(PlanRow& plan, std::uint64_t position) {
  std::vector<std::uint64_t>& ids = plan.group_ids;
  ids.resize(std::max<std::size_t>(ids.size(), position + 1));
  return ids[position];
}

Result<std::map<std::uint64_t, PlanRow>> ReadPlans(Database& database, const std::string& where) {
  std::map<std::uint64_t, PlanRow> plans;
  const auto add_plan = [&](const Statement& row) -> Status {
    PlanRow& plan = plans[row.Unsigned(0)];
    plan.step = row.Unsigned(0);
    v1::PlanSummary summary;
    if (!summary.ParseFromString(row.Text(1))) return Damaged("plan of step", row.Text(0));
    return FromProto(summary, plan.collapse, plan.drawn, plan.control);
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "plans", "WHERE " + where, add_plan));
  const auto add_group = [&](const Statement& row) {
    PlaceIn(plans[row.Unsigned(0)], row.Unsigned(1)) = row.Unsigned(2);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "plan_groups", "WHERE " + where, add_group));
  // A place that a dropped group has left stays, with id 0, until another group takes it.
  const auto add_place = [&](const Statement& row) {
    PlaceIn(plans[row.Unsigned(1)], row.Unsigned(2));
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(ForEachRow(database, "drops", "WHERE step > 0 AND " + where, add_place));
  return plans;
}

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
    BUTTRESS_ASSIGN_OR_RETURN(const AcceptedGroup group, AcceptedFrom(*rows));
    difficulty.Add(group.id(), group.trials());
  }
  // Add keeps the newest.
  const auto add = [&](const Statement& row) {
    std::string of;
    std::uint64_t id = 0;
    GroupTrials trials;
    row.Read(of, id, trials.before.correct, trials.before.scored, trials.own.correct,
             trials.own.scored);
    difficulty.Add(id, trials);
    return OkStatus();
  };
  BUTTRESS_RETURN_IF_ERROR(
      database.ForEach("SELECT * FROM archived_trials WHERE source = ?", add, source));
  return difficulty;
}

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
  BUTTRESS_ASSIGN_OR_RETURN(const auto ended,
                            ReadAccepted(database, fmt::format("group_id >= {} AND state IN "
                                                               "('settled', 'dropped')",
                                                               first_id)));
  for (const auto& [id, group] : ended) {
    tags.emplace_hint(tags.end(), id, ContentTag(group.content_sha256));
  }
  return tags;
}

}  // namespace buttress
