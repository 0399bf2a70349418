#include "lib/ledger/audit.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "lib/experience/episodes.h"
#include "lib/ledger/checked_files.h"
#include "lib/ledger/database.h"

namespace buttress {
namespace {

std::string Text(const CollapseCounts& counts) {
  return fmt::format(
      "{} groups, {} all correct, {} all wrong, {} otherwise constant, {} mixed, {} unscorable",
      counts.groups, counts.all_correct, counts.all_wrong, counts.other_constant, counts.mixed,
      counts.unscorable);
}

// The prompts that were drawn, and those drawn or passed over, by the position of their source (-1:
// of no source) and its pass.
struct PassCounts {
  std::int64_t drawn = 0;
  std::int64_t used = 0;
};

using CountsOfPasses = std::map<std::pair<std::int64_t, std::uint64_t>, PassCounts>;

// The position of the source that has a row of the dataset, -1 if none has.
std::int64_t SourceOf(const RunRow& run, std::uint64_t dataset_row) {
  std::uint64_t behind = 0;
  for (std::size_t i = 0; i < run.sources.size(); ++i) {
    behind += run.sources[i].dataset.rows;
    if (dataset_row < behind) return static_cast<std::int64_t>(i);
  }
  return -1;
}

// The results of a walk over all groups.
struct Walk {
  Walk(RunRow of, OriginRow from) : run(std::move(of)), origin(std::move(from)) {}

  const RunRow run;
  const OriginRow origin;  // step 0 for a run that began with its start model
  LedgerAudit audit;
  std::uint64_t last_id = 0;
  std::map<std::string, CollapseCounts> by_source;
  std::map<std::uint64_t, std::map<std::string, CollapseCounts>> by_step;  // and source
  std::map<std::uint64_t, std::vector<std::uint64_t>> ids_by_step;         // by position
  std::map<std::uint64_t, PromptHistory> histories;                        // by row of the dataset
  EndedTokens tokens;  // of the accepted groups that have ended
  CountsOfPasses passes;

  void Add(const char* kind, std::string what, std::vector<std::uint64_t> group_ids = {}) {
    audit.findings.push_back({kind, std::move(what), std::move(group_ids), false});
  }

  void AddOf(const GroupRow& group, const char* kind, std::string_view what) {
    Add(kind, fmt::format("group {} {}", group.group_id, what), {group.group_id});
  }

  void Visit(const GroupRecord& record) {
    const GroupRow& group = record.group;
    if (group.group_id != last_id + 1)
      Add("groups", fmt::format("no group {} before group {}", last_id + 1, group.group_id));
    last_id = group.group_id;
    PassCounts& pass = passes[{SourceOf(run, group.prompt.row), group.prompt.pass}];
    ++pass.drawn;
    ++pass.used;
    ++audit.groups[std::string(GroupStateName(group.state))];
    const bool dropped = group.state == GroupState::kDropped;
    if (dropped) ++audit.dropped[std::string(DropReasonName(group.reason))];
    if (dropped == (group.reason == DropReason::kNone))
      AddOf(group, "groups", "is dropped without a reason, or has a reason and is not dropped");
    CheckContent(record);
    CheckLease(record);
    CheckProgress(group);
    if (!record.accepted) return;
    Count(group, *record.accepted->head);
    if (group.step == 0) return;
    if (group.reason == DropReason::kNoSignal || group.reason == DropReason::kDamaged) return;
    std::vector<std::uint64_t>& ids = ids_by_step[group.step];
    if (ids.size() <= group.position) ids.resize(group.position + 1);
    ids[group.position] = group.group_id;
  }

  void Count(const GroupRow& group, const v1::GroupHead& head) {
    const auto [raw_rewards, outcomes] = VerdictsOf(head);
    const CollapseClass collapse = ClassifyGroup(raw_rewards, outcomes);
    if (collapse != ClassOf(head))
      AddOf(group, "collapse", "is counted as another class than its outcomes give");
    by_source[group.prompt.source].Add(collapse);
    if (group.step != 0) by_step[group.step][group.prompt.source].Add(collapse);
    CountTokens(group, head);
    const PromptHistory own = OwnHistoryOf(head);
    histories[group.prompt.row].correct += own.correct;
    histories[group.prompt.row].scored += own.scored;
  }

  void CountTokens(const GroupRow& group, const v1::GroupHead& head) {
    if (group.state == GroupState::kDropped) tokens.stale += TokensOf(head);
    if (group.state != GroupState::kSettled) return;
    tokens.trained += TrainedTokensOf(head);
    tokens.masked += TokensOf(head) - TrainedTokensOf(head);
  }

  void CheckContent(const GroupRecord& record) {
    using enum GroupState;
    const GroupRow& group = record.group;
    const bool planned =
        group.state == kBatched || group.state == kTrained || group.state == kSettled;
    const bool unsampled = group.state == kPending || group.state == kLeased;
    if ((planned || group.state == kReady) && !record.accepted)
      AddOf(group, "content", "has no content");
    if (unsampled && record.accepted)
      AddOf(group, "content", "was accepted and is not sampled yet");
    if (planned && group.step == 0) AddOf(group, "plans", "is trained without a plan");
    if ((unsampled || group.state == kReady) && group.step != 0)
      AddOf(group, "plans", "has a plan but its state has none");
    if (group.reason != DropReason::kNoSignal) return;
    if (group.step == 0) AddOf(group, "plans", "was replaced in no step");
    if (!record.accepted || ClassOf(*record.accepted->head) == CollapseClass::kMixed)
      AddOf(group, "collapse", "was replaced although it has a signal");
  }

  void CheckLease(const GroupRecord& record) {
    const GroupRow& group = record.group;
    if (group.attempts < 0 || static_cast<std::uint64_t>(group.attempts) > group.lease_epoch)
      AddOf(group, "leases",
            fmt::format("was tried {} times under {} leases", group.attempts, group.lease_epoch));
    if (group.state == GroupState::kLeased && (group.lease_epoch == 0 || group.worker_id.empty()))
      AddOf(group, "leases", "is leased to nobody");
    if (record.accepted && record.accepted->lease_epoch > group.lease_epoch)
      AddOf(group, "leases",
            fmt::format("was accepted under lease {}, but its last lease is {}",
                        record.accepted->lease_epoch, group.lease_epoch));
  }

  // The state of a planned group follows from its step.
  void CheckProgress(const GroupRow& group) {
    using enum GroupState;
    if ((group.state == kTrained && group.step > run.committed_step) ||
        (group.state == kBatched && group.step <= run.committed_step) ||
        (group.state == kSettled) != (Planned(group) && group.step <= run.settled_step)) {
      AddOf(group, "plans",
            fmt::format("is {} at step {}; committed is step {}, settled step {}",
                        GroupStateName(group.state), group.step, run.committed_step,
                        run.settled_step));
    }
  }

  static bool Planned(const GroupRow& group) {
    using enum GroupState;
    return group.state == kBatched || group.state == kTrained || group.state == kSettled;
  }
};

void CheckCollapse(const std::string& plan, const CollapseSnapshot& reported,
                   const std::map<std::string, CollapseCounts>& recounted, Walk& walk) {
  CollapseCounts sum;
  for (const auto& [source, counts] : recounted) sum.Add(counts);
  if (reported.step != sum) {
    walk.Add("collapse", fmt::format("{} reports {}; the outcomes give {}", plan,
                                     Text(reported.step), Text(sum)));
  }
  std::map<std::string, CollapseCounts> by_source;
  for (const SourceCollapse& source : reported.sources) by_source[source.source] = source.step;
  if (by_source != recounted)
    walk.Add("collapse", plan + " reports other counts by source than the outcomes give");
}

// A step counts all groups drawn for it: those of its plan and those that they replaced. The step
// after the last plan may already have replaced groups.
void CheckPlans(const std::map<std::uint64_t, PlanRow>& plans, Walk& walk) {
  std::uint64_t last_step = walk.origin.step;
  for (const auto& [step, plan] : plans) {
    const std::string name = "the plan of step " + std::to_string(step);
    if (step != last_step + 1) walk.Add("plans", "no plan before step " + std::to_string(step));
    last_step = step;
    if (plan.group_ids.size() != plans.begin()->second.group_ids.size()) {
      walk.Add("plans",
               fmt::format("{} has {} groups, that of step {} has {}", name, plan.group_ids.size(),
                           plans.begin()->first, plans.begin()->second.group_ids.size()));
    }
    std::vector<std::uint64_t>& named = walk.ids_by_step[step];
    if (named.size() < plan.group_ids.size()) named.resize(plan.group_ids.size());
    if (plan.group_ids != named)
      walk.Add("plans", name + " names other groups than those that name it", plan.group_ids);
    CheckCollapse(name, plan.collapse, walk.by_step[step], walk);
  }
  if (last_step != walk.run.planned_step)
    walk.Add("plans", fmt::format("the last plan is of step {}, the run names step {}", last_step,
                                  walk.run.planned_step));
  for (const auto& [step, ids] : walk.ids_by_step) {
    if (!plans.contains(step))
      walk.Add("plans", fmt::format("groups name step {}, which has no plan", step), ids);
  }
  if (!walk.by_step.empty() && walk.by_step.rbegin()->first > last_step + 1) {
    walk.Add("plans", fmt::format("groups were replaced in step {}, which is not the next step",
                                  walk.by_step.rbegin()->first));
  }
}

// What was given up is accounted for.
Status ListDrops(LedgerReader& reader, Walk& walk) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<DropRow> drops, reader.Drops());
  for (const DropRow& drop : drops) {
    std::string what = fmt::format("group {} was dropped: {}", drop.group_id, drop.reason);
    if (drop.step != 0) what += fmt::format("; at step {}", drop.step);
    if (drop.replaced_by != 0) what += fmt::format(", group {} took its place", drop.replaced_by);
    if (drop.step != 0 && drop.replaced_by == 0) what += ", its place is empty";
    walk.audit.findings.push_back({"dropped", std::move(what), {drop.group_id}, true});
  }
  const auto dropped = walk.audit.dropped.find("damaged");
  const std::int64_t count = dropped == walk.audit.dropped.end() ? 0 : dropped->second;
  if (count != static_cast<std::int64_t>(drops.size()))
    walk.Add("groups", fmt::format("{} groups are dropped as damaged, {} drops are recorded", count,
                                   drops.size()));
  return OkStatus();
}

// In a pass over a source that has ended every row was drawn or passed over; in the present one,
// all up to the cursor.
void CheckSource(const SourceRow& source, std::int64_t position, const CountsOfPasses& counts,
                 Walk& walk) {
  const std::string of = source.name.empty() ? "" : fmt::format(" of source '{}'", source.name);
  const auto began = walk.origin.cursors.find(source.name);
  const PromptCursor start = began == walk.origin.cursors.end() ? PromptCursor() : began->second;
  auto drawn = static_cast<std::int64_t>(start.drawn);
  for (std::uint64_t pass = start.pass; pass <= source.cursor.pass; ++pass) {
    const auto found = counts.find({position, pass});
    const auto count = found == counts.end() ? PassCounts() : found->second;
    drawn += count.drawn;
    const bool over = pass < source.cursor.pass;
    const auto expected =
        static_cast<std::int64_t>((over ? source.dataset.rows : source.cursor.index) -
                                  (pass == start.pass ? start.index : 0));
    if (count.used == expected) continue;
    walk.Add("prompts", fmt::format("pass {}{} has {} prompts drawn or passed over; expected {}",
                                    pass, of, count.used, expected));
  }
  if (drawn != static_cast<std::int64_t>(source.cursor.drawn))
    walk.Add("prompts", fmt::format("{} prompts{} were drawn up to the cursor; {} are recorded",
                                    drawn, of, source.cursor.drawn));
}

Status AddSkipped(Database& database, Walk& walk) {
  return database.ForEach("SELECT pass, dataset_row FROM skipped", [&](const Statement& row) {
    ++walk.passes[{SourceOf(walk.run, row.Unsigned(1)), row.Unsigned(0)}].used;
    return OkStatus();
  });
}

Status CheckPrompts(LedgerReader& reader, std::int64_t twice, Walk& walk) {
  if (twice != 0) {
    walk.Add("prompts",
             fmt::format("{} prompts were drawn and passed over in the same pass", twice));
  }
  BUTTRESS_RETURN_IF_ERROR(AddSkipped(reader.database(), walk));
  const CountsOfPasses& counts = walk.passes;
  const std::vector<SourceRow>& sources = walk.run.sources;
  for (const auto& [place, count] : counts) {
    const auto& [position, pass] = place;
    if (position < 0) {
      walk.Add("prompts", fmt::format("{} prompts are of no source of the run", count.used));
    } else if (const auto i = static_cast<std::size_t>(position); pass > sources[i].cursor.pass) {
      walk.Add("prompts", fmt::format("prompts of pass {} were drawn; the cursor is in pass {}",
                                      pass, sources[i].cursor.pass));
    }
  }
  for (std::size_t i = 0; i < sources.size(); ++i)
    CheckSource(sources[i], static_cast<std::int64_t>(i), counts, walk);
  return OkStatus();
}

Status CheckHistories(LedgerReader& reader, Walk& walk) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<PromptHistory> kept, reader.Histories());
  std::int64_t wrong = 0;
  for (std::uint64_t row = 0; row < kept.size(); ++row) {
    const PromptHistory& sums = walk.histories[row];
    wrong += kept[row].correct != sums.correct || kept[row].scored != sums.scored ? 1 : 0;
  }
  if (wrong == 0 && walk.histories.size() <= kept.size()) return OkStatus();
  walk.Add("prompts", fmt::format("the histories of {} prompts differ from a recount", wrong));
  return OkStatus();
}

// What a restart reads instead of the history equals a recount of it.
Status CheckKeptCounts(LedgerReader& reader, Walk& walk) {
  BUTTRESS_ASSIGN_OR_RETURN(const EndedCounts ended, reader.Ended());
  const auto compare = [&walk](std::string_view what, std::int64_t kept,
                               const std::map<std::string, std::int64_t>& counted) {
    const auto found = counted.find(std::string(what));
    const std::int64_t expected = found == counted.end() ? 0 : found->second;
    if (kept != expected)
      walk.Add("groups",
               fmt::format("{} groups are counted as {}; there are {}", kept, what, expected));
  };
  compare(GroupStateName(GroupState::kSettled), ended.settled, walk.audit.groups);
  for (std::size_t i = 1; i < kDropReasons; ++i)
    compare(DropReasonName(static_cast<DropReason>(i)), ended.dropped[i], walk.audit.dropped);
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::int64_t skips,
      reader.database().QueryInt(
          "SELECT COUNT(*) FROM (SELECT source, reason, COUNT(*) AS counted FROM skipped "
          "GROUP BY source, reason) FULL JOIN skipped_prompts USING (source, reason) "
          "WHERE prompts IS NOT counted"));
  if (skips != 0)
    walk.Add("prompts",
             fmt::format("{} counts of prompts passed over differ from a recount", skips));
  return CheckHistories(reader, walk);
}

// Every learner starts from a step that was trained before, or that the run began with, and commits
// the steps that follow.
Status CheckLineage(LedgerReader& reader, Walk& walk) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<LearnerRow> learners, reader.Learners());
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<CommitRow> commits, reader.Commits());
  auto commit = commits.begin();
  std::uint64_t committed = walk.origin.step;
  for (const LearnerRow& learner : learners) {
    if (learner.start_step > committed) {
      walk.Add("lineage", fmt::format("learner {} started from step {}, but only step {} was "
                                      "committed",
                                      learner.learner_epoch, learner.start_step, committed));
    }
    committed = learner.start_step;
    for (; commit != commits.end() && commit->learner_epoch == learner.learner_epoch; ++commit) {
      if (commit->step != committed + 1)
        walk.Add("lineage", fmt::format("learner {} committed step {} after step {}",
                                        learner.learner_epoch, commit->step, committed));
      committed = commit->step;
    }
  }
  if (commit != commits.end())
    walk.Add("lineage", fmt::format("step {} was committed by learner {}, which never started",
                                    commit->step, commit->learner_epoch));
  const RunRow& run = walk.run;
  const bool in_order =
      run.settled_step <= run.checkpoint_step && run.checkpoint_step <= run.committed_step;
  if (committed != run.committed_step || !in_order)
    walk.Add("lineage",
             fmt::format("the last commit is of step {}; the run names step {}, a checkpoint of "
                         "step {}, and step {} as settled",
                         committed, run.committed_step, run.checkpoint_step, run.settled_step));
  return OkStatus();
}

// Counts the drawn prompts that were passed over as well.
class SkippedPrompts {
 public:
  static Result<SkippedPrompts> Open(Database& database) {
    SkippedPrompts skipped;
    BUTTRESS_ASSIGN_OR_RETURN(
        skipped.find_,
        database.Prepare("SELECT 1 FROM skipped WHERE pass = ? AND dataset_row = ?"));
    return skipped;
  }

  void Look(const DrawnPrompt& prompt) {
    find_->Bind(prompt.pass, prompt.row);
    const Result<bool> found = find_->Next();
    if (!found.ok()) status_ = found.status();
    found_ += found.ok() && *found ? 1 : 0;
  }

  // The first error of a look, if there was one.
  const Status& status() const { return status_; }

  std::int64_t found() const { return found_; }

 private:
  std::unique_ptr<Statement> find_;
  std::int64_t found_ = 0;
  Status status_;
};

void CheckEnd(Walk& walk) {
  if (walk.run.next_group_id != walk.last_id + 1)
    walk.Add("groups", "the last admitted group is missing");
  if (!walk.run.finished) return;
  for (const auto& [state, count] : walk.audit.groups) {
    if (state != "settled" && state != "dropped")
      walk.Add("groups", fmt::format("{} groups are {} after the end", count, state));
  }
}

// The tokens of groups that were sampled again are reported as stale and no longer in the ledger.
Status CheckTokens(LedgerReader& reader, Walk& walk) {
  BUTTRESS_ASSIGN_OR_RETURN(const EndedTokens reported, reader.TokensOfEnded());
  const EndedTokens& found = walk.tokens;
  if (reported.trained == found.trained && reported.masked == found.masked &&
      reported.stale >= found.stale)
    return OkStatus();
  walk.Add("tokens", fmt::format("the run reports {} trained, {} masked and {} stale tokens; the "
                                 "groups have {}, {} and {}",
                                 reported.trained, reported.masked, reported.stale, found.trained,
                                 found.masked, found.stale));
  return OkStatus();
}

}  // namespace

std::vector<std::string> LedgerAudit::violations() const {
  std::vector<std::string> sentences;
  for (const AuditFinding& finding : findings) {
    if (!finding.accounted) sentences.push_back(finding.what);
  }
  return sentences;
}

Result<LedgerAudit> AuditLedger(LedgerReader& reader,
                                const std::function<void(const GroupRecord&)>& visit) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, reader.Run());
  if (!run) return LedgerAudit();
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<OriginRow> origin, reader.Origin());
  Walk walk(*run, origin.value_or(OriginRow()));
  TakeDamage();  // that nobody has asked for
  BUTTRESS_RETURN_IF_ERROR(
      reader.database().ForEach("PRAGMA integrity_check(10)", [&](const Statement& row) {
        if (row.Text(0) != "ok") walk.Add("file", "SQLite finds: " + row.Text(0));
        return OkStatus();
      }));
  if (std::string damage = TakeDamage(); !damage.empty()) walk.Add("file", std::move(damage));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<std::string> archives, reader.DamagedArchives());
  for (const std::string& what : archives) walk.Add("file", what);
  if (!walk.audit.findings.empty()) return std::move(walk.audit);  // the rest cannot be read
  BUTTRESS_ASSIGN_OR_RETURN(SkippedPrompts skipped, SkippedPrompts::Open(reader.database()));
  BUTTRESS_RETURN_IF_ERROR(reader.ForEachGroup([&](const GroupRecord& record) {
    walk.Visit(record);
    skipped.Look(record.group.prompt);
    if (visit) visit(record);
  }));
  BUTTRESS_RETURN_IF_ERROR(skipped.status());
  BUTTRESS_ASSIGN_OR_RETURN(const auto plans, reader.Plans());
  CheckPlans(plans, walk);
  BUTTRESS_RETURN_IF_ERROR(ListDrops(reader, walk));
  BUTTRESS_RETURN_IF_ERROR(CheckPrompts(reader, skipped.found(), walk));
  BUTTRESS_RETURN_IF_ERROR(CheckKeptCounts(reader, walk));
  BUTTRESS_RETURN_IF_ERROR(CheckLineage(reader, walk));
  BUTTRESS_RETURN_IF_ERROR(CheckTokens(reader, walk));

  BUTTRESS_ASSIGN_OR_RETURN(auto reported, reader.ReportedCollapse());
  // All groups of a source may have been taken back.
  std::erase_if(reported, [](const auto& entry) { return entry.second == CollapseCounts(); });
  for (const auto& [source, counts] : reported) walk.audit.reported.Add(counts);
  for (const auto& [source, counts] : walk.by_source) walk.audit.recounted.Add(counts);
  walk.audit.recounted_by_source = walk.by_source;
  if (reported != walk.by_source) {
    walk.Add("collapse", fmt::format("the run reports {}; the outcomes give {}",
                                     Text(walk.audit.reported), Text(walk.audit.recounted)));
  }
  CheckEnd(walk);
  return std::move(walk.audit);
}

}  // namespace buttress
