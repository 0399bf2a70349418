#include "coordinator/coordinator_metrics.h"

namespace buttress {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// A worker that is silent for longer does not count as alive.
constexpr std::int64_t kAliveMs = 60000;

ClientMetric Value(double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  metric.counter.value = value;
  return metric;
}

ClientMetric Value(std::int64_t value, std::vector<ClientMetric::Label> labels = {}) {
  return Value(static_cast<double>(value), std::move(labels));
}

MetricFamily Gauge(const char* name, const char* help, std::vector<ClientMetric> metrics) {
  return {name, help, MetricType::Gauge, std::move(metrics)};
}

MetricFamily Counter(const char* name, const char* help, std::vector<ClientMetric> metrics) {
  return {name, help, MetricType::Counter, std::move(metrics)};
}

void AddByClass(const CollapseCounts& counts, const std::vector<ClientMetric::Label>& labels,
                MetricFamily& family) {
  const std::pair<CollapseClass, std::int64_t> classes[] = {
      {CollapseClass::kMixed, counts.mixed},
      {CollapseClass::kAllCorrect, counts.all_correct},
      {CollapseClass::kAllWrong, counts.all_wrong},
      {CollapseClass::kOtherConstant, counts.other_constant},
      {CollapseClass::kUnscorable, counts.unscorable}};
  for (const auto& [collapse, count] : classes) {
    auto all = labels;
    all.push_back({"collapse", std::string(CollapseClassName(collapse))});
    family.metric.push_back(Value(count, std::move(all)));
  }
}

void CollectGroups(const SchedulerStatus& status, std::vector<MetricFamily>& out) {
  MetricFamily groups = Gauge("buttress_coordinator_groups",
                              "Drawn prompts by state; the states add up to prompts_admitted.", {});
  std::int64_t admitted = 0;
  for (std::size_t i = 0; i < kGroupStates; ++i) {
    admitted += status.groups[i];
    groups.metric.push_back(Value(
        status.groups[i], {{"state", std::string(GroupStateName(static_cast<GroupState>(i)))}}));
  }
  MetricFamily dropped =
      Counter("buttress_coordinator_groups_dropped_total", "Dropped groups by reason.", {});
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    dropped.metric.push_back(Value(
        status.dropped[i], {{"reason", std::string(DropReasonName(static_cast<DropReason>(i)))}}));
  }
  MetricFamily skipped = Counter("buttress_coordinator_prompts_skipped_total",
                                 "Prompts passed over, by source of prompts and reason.", {});
  for (const auto& [source, counts] : status.skipped) {
    for (std::size_t i = 0; i < kSkipReasons; ++i) {
      skipped.metric.push_back(
          Value(counts[i], {{"source", source},
                            {"reason", std::string(SkipReasonName(static_cast<SkipReason>(i)))}}));
    }
  }
  const auto of = [&status](GroupState state) {
    return status.groups[static_cast<std::size_t>(state)];
  };
  out.push_back(Gauge("buttress_coordinator_prompts_admitted", "Prompts drawn in the run.",
                      {Value(admitted)}));
  out.push_back(std::move(groups));
  out.push_back(std::move(dropped));
  out.push_back(std::move(skipped));
  if (status.greso) {
    out.push_back(
        Gauge("buttress_coordinator_greso_base",
              "Base of the probability to draw a prompt again after constant groups in a row.",
              {Value(status.greso->easy, {{"kind", "easy"}}),
               Value(status.greso->hard, {{"kind", "hard"}})}));
  }
  out.push_back(
      Gauge("buttress_coordinator_leases", "Live leases.", {Value(of(GroupState::kLeased))}));
  out.push_back(Gauge("buttress_coordinator_queue_groups", "Groups ready for training.",
                      {Value(of(GroupState::kReady))}));
  out.push_back(Gauge("buttress_coordinator_slots", "Slots held by groups under way.",
                      {Value(status.active_slots)}));
  out.push_back(Gauge("buttress_coordinator_slots_limit", "Slots that may be held: (S + 1) P.",
                      {Value(status.slot_budget)}));
}

void CollectCollapse(const SchedulerStatus& status, const CollapseCounts& plan, SourceNames& names,
                     std::vector<MetricFamily>& out) {
  MetricFamily scored = Counter(
      "buttress_coordinator_groups_scored_total",
      "Accepted groups by class; ACR = constant / (constant + mixed), unscorable in neither.", {});
  AddByClass(status.collapse, {}, scored);
  out.push_back(std::move(scored));
  MetricFamily by_source = Counter("buttress_coordinator_source_groups_scored_total",
                                   "Accepted groups by class and data source.", {});
  for (const auto& [source, counts] : ReportedSources(status.collapse_by_source, names))
    AddByClass(counts, {{"source", source}}, by_source);
  if (!by_source.metric.empty()) out.push_back(std::move(by_source));
  out.push_back(Gauge("buttress_coordinator_acr_batch_groups",
                      "Constant and mixed groups drawn for the newest plan.",
                      {Value(plan.constant() + plan.mixed)}));
  out.push_back(Gauge("buttress_coordinator_acr_batch_collapsed_groups",
                      "Constant groups drawn for the newest plan.", {Value(plan.constant())}));
  out.push_back(Gauge("buttress_coordinator_batch_drawn_groups",
                      "Groups drawn for the newest plan: its own and those that they replaced.",
                      {Value(plan.groups)}));
  if (status.acr_ema) {
    out.push_back(Gauge("buttress_coordinator_acr_ema_ratio",
                        "Moving average of the ACR of the plans.", {Value(*status.acr_ema)}));
  }
}

}  // namespace

void RunCollector::Update(SchedulerStatus status, SchedulerEvents events,
                          const CollapseCounts& plan) {
  MutexLock lock(mutex_);
  status_ = std::move(status);
  events_ = events;
  plan_ = plan;
}

void RunCollector::UpdateWorkers(const std::map<std::string, WorkerInfo>& workers,
                                 std::int64_t now_ms) {
  std::int64_t alive = 0;
  for (const auto& [id, worker] : workers)
    alive += now_ms - worker.last_heard_ms <= kAliveMs ? 1 : 0;
  MutexLock lock(mutex_);
  workers_ = static_cast<std::int64_t>(workers.size());
  alive_workers_ = alive;
}

std::vector<MetricFamily> RunCollector::Collect() const {
  MutexLock lock(mutex_);
  std::vector<MetricFamily> out;
  CollectGroups(status_, out);
  CollectCollapse(status_, plan_, names_, out);
  const auto ended = [](std::int64_t count, const char* reason) {
    return Value(count, {{"reason", reason}});
  };
  out.push_back(Counter("buttress_coordinator_leases_granted_total", "Leases granted.",
                        {Value(events_.leases_granted)}));
  out.push_back(Counter("buttress_coordinator_leases_shared_total",
                        "Leases of late groups that were granted to a further, idle worker.",
                        {Value(events_.leases_shared)}));
  out.push_back(Counter(
      "buttress_coordinator_leases_ended_total", "Leases that ended, by reason.",
      {ended(events_.submissions[static_cast<std::size_t>(SubmitOutcome::kAccepted)], "completed"),
       ended(events_.leases_expired, "expired"), ended(events_.leases_returned, "released"),
       ended(events_.leases_lost_with_worker, "worker_replaced")}));
  out.push_back(
      Counter("buttress_coordinator_batches_filled_total",
              "Plans that hold groups without a signal, because no more could be replaced.",
              {Value(events_.batches_filled)}));
  const auto number = [](std::uint64_t n) { return Value(static_cast<double>(n)); };
  out.push_back(Gauge("buttress_coordinator_epoch", "Starts of the coordinator in this run.",
                      {number(status_.coordinator_epoch)}));
  out.push_back(Counter("buttress_coordinator_learner_incarnations_total",
                        "Starts of the learner in this run.", {number(status_.learner_epoch)}));
  out.push_back(Gauge("buttress_coordinator_planned_step", "Last step with a plan.",
                      {number(status_.planned_step)}));
  out.push_back(Gauge("buttress_coordinator_committed_step", "Last step that was trained.",
                      {number(status_.committed_step)}));
  out.push_back(Gauge("buttress_coordinator_checkpoint_step",
                      "Last step behind a durable checkpoint.", {number(status_.checkpoint_step)}));
  out.push_back(Gauge("buttress_coordinator_settled_step",
                      "Last step whose groups are not needed again: a durable checkpoint after it "
                      "has another one before it, or the run is over.",
                      {number(status_.settled_step)}));
  out.push_back(Gauge("buttress_coordinator_policy_version",
                      "Step of the newest announced weights.",
                      {number(status_.announced ? status_.announced->step : 0)}));
  out.push_back(Gauge("buttress_coordinator_workers", "Workers by state.",
                      {Value(alive_workers_, {{"state", "alive"}}),
                       Value(workers_ - alive_workers_, {{"state", "silent"}})}));
  return out;
}

}  // namespace buttress
