#include "coordinator/coordinator_metrics.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// A worker that is silent for longer does not count as alive.
constexpr std::int64_t kAliveMs = 60000;

using Labels = std::vector<ClientMetric::Label>;

template <class Number>
ClientMetric Value(Number value, Labels labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = metric.counter.value = static_cast<double>(value);
  return metric;
}

// The families of a scrape.
struct Families {
  void Add(MetricType type, const char* name, const char* help, std::vector<ClientMetric> values) {
    all.push_back({name, help, type, std::move(values)});
  }

  template <class Number>
  void Gauge(const char* name, const char* help, Number value) {
    Add(MetricType::Gauge, name, help, {Value(value)});
  }

  template <class Number>
  void Counter(const char* name, const char* help, Number value) {
    Add(MetricType::Counter, name, help, {Value(value)});
  }

  std::vector<MetricFamily> all;
};

// The counts of an enumeration with the label that `name_of` gives, from the `first` value on.
template <class Enum, std::size_t kCount>
void AddCounts(const std::array<std::int64_t, kCount>& counts, std::string_view (*name_of)(Enum),
               const char* label, std::size_t first, const Labels& labels,
               std::vector<ClientMetric>& out) {
  for (std::size_t i = first; i < kCount; ++i) {
    Labels all = labels;
    all.push_back({label, std::string(name_of(static_cast<Enum>(i)))});
    out.push_back(Value(counts[i], std::move(all)));
  }
}

void AddByClass(const CollapseCounts& counts, const Labels& labels,
                std::vector<ClientMetric>& out) {
  for (const auto& [name, count] : kCollapseClasses) {
    Labels all = labels;
    all.push_back({"collapse", std::string(name)});
    out.push_back(Value(counts.*count, std::move(all)));
  }
}

void CollectGroups(const SchedulerStatus& status, Families& out) {
  std::vector<ClientMetric> groups, dropped, skipped;
  AddCounts(status.groups, GroupStateName, "state", 0, {}, groups);
  AddCounts(status.dropped, DropReasonName, "reason", 1, {}, dropped);
  for (const auto& [source, counts] : status.skipped)
    AddCounts(counts, SkipReasonName, "reason", 0, {{"source", source}}, skipped);
  const auto of = [&status](GroupState state) {
    return status.groups[static_cast<std::size_t>(state)];
  };
  out.Gauge("buttress_coordinator_prompts_admitted", "Prompts drawn in the run.",
            std::accumulate(status.groups.begin(), status.groups.end(), std::int64_t{0}));
  out.Add(MetricType::Gauge, "buttress_coordinator_groups",
          "Drawn prompts by state; the states add up to prompts_admitted.", std::move(groups));
  out.Add(MetricType::Counter, "buttress_coordinator_groups_dropped_total",
          "Dropped groups by reason.", std::move(dropped));
  out.Add(MetricType::Counter, "buttress_coordinator_prompts_skipped_total",
          "Prompts passed over, by source of prompts and reason.", std::move(skipped));
  if (status.greso) {
    out.Add(MetricType::Gauge, "buttress_coordinator_greso_base",
            "Base of the probability to draw a prompt again after constant groups in a row.",
            {Value(status.greso->easy, {{"kind", "easy"}}),
             Value(status.greso->hard, {{"kind", "hard"}})});
  }
  out.Gauge("buttress_coordinator_leases", "Live leases.", of(GroupState::kLeased));
  out.Gauge("buttress_coordinator_queue_groups", "Groups ready for training.",
            of(GroupState::kReady));
  out.Gauge("buttress_coordinator_slots", "Slots held by groups under way.", status.active_slots);
  out.Gauge("buttress_coordinator_slots_limit", "Slots that may be held: (S + 1) P.",
            status.slot_budget);
}

void CollectCollapse(const SchedulerStatus& status, const CollapseCounts& plan, SourceNames& names,
                     Families& out) {
  std::vector<ClientMetric> scored, by_source;
  AddByClass(status.collapse, {}, scored);
  for (const auto& [source, counts] : ReportedSources(status.collapse_by_source, names))
    AddByClass(counts, {{"source", source}}, by_source);
  out.Add(MetricType::Counter, "buttress_coordinator_groups_scored_total",
          "Accepted groups by class; ACR = constant / (constant + mixed), unscorable in neither.",
          std::move(scored));
  if (!by_source.empty()) {
    out.Add(MetricType::Counter, "buttress_coordinator_source_groups_scored_total",
            "Accepted groups by class and data source.", std::move(by_source));
  }
  out.Gauge("buttress_coordinator_acr_batch_groups",
            "Constant and mixed groups drawn for the newest plan.", plan.constant() + plan.mixed);
  out.Gauge("buttress_coordinator_acr_batch_collapsed_groups",
            "Constant groups drawn for the newest plan.", plan.constant());
  out.Gauge("buttress_coordinator_batch_drawn_groups",
            "Groups drawn for the newest plan: its own and those that they replaced.", plan.groups);
  if (status.run.acr_ema) {
    out.Gauge("buttress_coordinator_acr_ema_ratio", "Moving average of the ACR of the plans.",
              *status.run.acr_ema);
  }
}

void CollectTokens(const SchedulerStatus& status, std::int64_t continued, Families& out) {
  const TokenAccount& tokens = status.tokens;
  const auto fate = [](std::int64_t count, const char* name) {
    return Value(count, {{"fate", name}});
  };
  out.Gauge("buttress_coordinator_generated_tokens", "Tokens that the workers have sampled.",
            tokens.generated);
  out.Add(MetricType::Gauge, "buttress_coordinator_tokens",
          "Sampled tokens by fate; they add up to generated_tokens: trained and masked (in groups "
          "of committed steps), stale (in complete groups that are not trained), cut (thrown away "
          "before), parked (not decided yet).",
          {fate(tokens.trained, "trained"), fate(tokens.masked, "masked"),
           fate(tokens.stale, "stale"), fate(tokens.cut, "cut"), fate(tokens.parked, "parked")});
  out.Add(MetricType::Gauge, "buttress_coordinator_completion_length_tokens",
          "Mean length of the completions drawn for the newest plans, and of those in them.",
          {Value(status.drawn_length, {{"of", "drawn"}}),
           Value(status.planned_length, {{"of", "planned"}})});
  out.Gauge("buttress_coordinator_kept_tokens",
            "Tokens of unfinished groups that are kept for a lease that follows.",
            status.kept_tokens);
  out.Counter("buttress_coordinator_continued_tokens_total",
              "Kept tokens that a further lease continues, since this process started.", continued);
}

void CollectSteps(const RunRow& run, Families& out) {
  out.Gauge("buttress_coordinator_epoch", "Starts of the coordinator in this run.",
            run.coordinator_epoch);
  out.Counter("buttress_coordinator_learner_incarnations_total",
              "Starts of the learner in this run.", run.learner_epoch);
  out.Gauge("buttress_coordinator_planned_step", "Last step with a plan.", run.planned_step);
  out.Gauge("buttress_coordinator_committed_step", "Last step that was trained.",
            run.committed_step);
  out.Gauge("buttress_coordinator_checkpoint_step", "Last step behind a durable checkpoint.",
            run.checkpoint_step);
  out.Gauge("buttress_coordinator_settled_step",
            "Last step whose groups are not needed again: a durable checkpoint after it has "
            "another one before it, or the run is over.",
            run.settled_step);
}

void CollectLeases(const SchedulerEvents& events, Families& out) {
  const auto ended = [](std::int64_t count, const char* reason) {
    return Value(count, {{"reason", reason}});
  };
  out.Counter("buttress_coordinator_leases_granted_total", "Leases granted.",
              events.leases_granted);
  out.Counter("buttress_coordinator_leases_shared_total",
              "Leases of late groups that were granted to a further, idle worker.",
              events.leases_shared);
  out.Add(
      MetricType::Counter, "buttress_coordinator_leases_ended_total",
      "Leases that ended, by reason.",
      {ended(events.submissions[static_cast<std::size_t>(SubmitOutcome::kAccepted)], "completed"),
       ended(events.leases_expired, "expired"), ended(events.leases_returned, "released"),
       ended(events.leases_lost_with_worker, "worker_replaced")});
  out.Counter("buttress_coordinator_batches_filled_total",
              "Plans that hold groups without a signal, because no more could be replaced.",
              events.batches_filled);
}

// Nothing until an episode is accepted, so that runs without run.env have no empty series.
void CollectEpisodes(const EpisodeEvents& episodes, Families& out) {
  if (episodes == EpisodeEvents()) return;
  const auto by = [](std::int64_t tokens, const char* who) { return Value(tokens, {{"by", who}}); };
  std::vector<ClientMetric> ends;
  AddCounts(episodes.ends, EpisodeEndName, "end", 1, {}, ends);
  out.Add(MetricType::Counter, "buttress_coordinator_episode_ends_total",
          "Accepted episodes by why they ended, since this process started.", std::move(ends));
  out.Counter("buttress_coordinator_episode_turns_total",
              "Answers of the policy in accepted episodes, since this process started.",
              episodes.turns);
  out.Counter("buttress_coordinator_episode_tool_calls_total",
              "Tool calls of the policy in accepted episodes, since this process started.",
              episodes.tool_calls);
  out.Counter("buttress_coordinator_episode_failed_tool_calls_total",
              "Tool calls of accepted episodes that failed, since this process started.",
              episodes.failed_tool_calls);
  out.Add(MetricType::Counter, "buttress_coordinator_episode_tokens_total",
          "Tokens of accepted episodes behind their prompt, by who wrote them, since this process "
          "started.",
          {by(episodes.policy_tokens, "policy"), by(episodes.environment_tokens, "environment")});
}

class FreeSpaceCollector : public prometheus::Collectable {
 public:
  explicit FreeSpaceCollector(std::string folder) : folder_(std::move(folder)) {}

  std::vector<MetricFamily> Collect() const override {
    const auto free = FreeBytes(folder_);
    if (!free) return {};
    Families out;
    out.Gauge("buttress_coordinator_store_free_bytes", "Free space where the ledger lies.", *free);
    return out.all;
  }

 private:
  const std::string folder_;
};

std::map<std::string, prometheus::Counter*, std::less<>> SubmissionCounters(Metrics& metrics) {
  std::vector<std::string> results = {"malformed", "too_large", "backpressure"};
  for (std::size_t i = 0; i < kSubmitOutcomes; ++i) {
    results.emplace_back(SubmitOutcomeName(static_cast<SubmitOutcome>(i)));
  }
  std::map<std::string, prometheus::Counter*, std::less<>> counters;
  for (const std::string& result : results) {
    counters[result] = &metrics.Counter("buttress_coordinator_submissions_total",
                                        "Submitted groups by result.", {{"result", result}});
  }
  return counters;
}

}  // namespace

void RunCollector::Update(SchedulerStatus status, SchedulerEvents events,
                          const CollapseCounts& plan,
                          const std::map<std::string, WorkerInfo>& workers, std::int64_t now_ms) {
  MutexLock lock(mutex_);
  status_ = std::move(status);
  events_ = events;
  plan_ = plan;
  workers_ = static_cast<std::int64_t>(workers.size());
  alive_workers_ = std::ranges::count_if(workers, [now_ms](const auto& entry) {
    return now_ms - entry.second.last_heard_ms <= kAliveMs;
  });
}

std::vector<MetricFamily> RunCollector::Collect() const {
  MutexLock lock(mutex_);
  Families out;
  CollectGroups(status_, out);
  CollectCollapse(status_, plan_, names_, out);
  CollectLeases(events_, out);
  CollectEpisodes(events_.episodes, out);
  CollectTokens(status_, events_.tokens_continued, out);
  CollectSteps(status_.run, out);
  out.Gauge("buttress_coordinator_policy_version", "Step of the newest announced weights.",
            status_.announced ? status_.announced->step : 0);
  out.Add(MetricType::Gauge, "buttress_coordinator_workers", "Workers by state.",
          {Value(alive_workers_, {{"state", "alive"}}),
           Value(workers_ - alive_workers_, {{"state", "silent"}})});
  return out.all;
}

CoordinatorMetrics::CoordinatorMetrics(Metrics& m, const RunConfig& config,
                                       const std::string& config_sha256,
                                       const std::string& store_folder)
    : metrics(m),
      run(std::make_shared<RunCollector>()),
      submissions(SubmissionCounters(m)),
      ready(m.Gauge("buttress_ready", "1 while calls are served.")),
      run_finished(m.Gauge("buttress_coordinator_run_finished",
                           "1 once the last step of the run is settled.")),
      run_stopped(m.Gauge("buttress_coordinator_run_stopped",
                          "1 while the run is stopped behind a checkpoint, by an operator or, "
                          "because there is nothing to learn, by the learner.")),
      submission_bytes(m.Counter("buttress_coordinator_submission_bytes_total",
                                 "Payload bytes of accepted groups.")),
      group_raw_reward_mean(
          m.Histogram("buttress_coordinator_group_raw_reward_mean",
                      "Mean raw reward of an accepted group's scorable completions.",
                      {0, .01, .1, .2, .3, .4, .5, .6, .7, .8, .9, .99, 1})),
      group_staleness_versions(m.Histogram("buttress_coordinator_group_staleness_versions",
                                           "Steps between the oldest version that sampled a "
                                           "planned group and the weights it trains.",
                                           {0, 1, 2, 3, 4, 6, 8, 16})),
      last_batch_committed(m.Gauge("buttress_coordinator_last_batch_committed_timestamp_seconds",
                                   "When the last step was committed, Unix time.")),
      learner_fenced(m.Counter("buttress_coordinator_learner_fenced_total",
                               "Calls of learners that another learner has replaced.")),
      store_commit_seconds(m.Histogram("buttress_coordinator_store_commit_seconds",
                                       "Payload sync and ledger transaction of one group commit.",
                                       {.0005, .001, .002, .005, .01, .02, .05, .1, .25, .5, 1})),
      store_commits(m.Counter("buttress_coordinator_store_transactions_total", "Group commits.",
                              {{"result", "ok"}})),
      store_errors(m.Counter("buttress_coordinator_store_transactions_total", "Group commits.",
                             {{"result", "error"}})),
      recovery_seconds(m.Gauge("buttress_coordinator_recovery_seconds",
                               "From the start of the process to serving.")),
      parked_calls(
          m.Gauge("buttress_coordinator_parked_calls", "Long polls that wait for an answer.")),
      paused(m.Gauge("buttress_coordinator_paused",
                     "1 while the run waits for room on the disk of the ledger.")),
      stalls(m.Counter(
          "buttress_coordinator_stalls_total",
          "Times that this process did not run for seconds, so that leases were prolonged.")) {
  SetReady(false);
  metrics.Register(run);
  metrics.Register(std::make_shared<FreeSpaceCollector>(store_folder));
  metrics.Gauge("buttress_coordinator_total_steps", "Steps of the run.")
      .Set(static_cast<double>(config.run.steps));
  metrics.Gauge("buttress_failpoints_active", "Test failpoints that are armed.")
      .Set(ArmedFailpoints());
  metrics
      .Gauge("buttress_run_info", "Identity of the run; always 1.",
             {{"config_sha256", config_sha256},
              {"algorithm", std::string(ChoiceName(config.run.algorithm.advantage))},
              {"model", config.run.model.path}})
      .Set(1);
}

void CoordinatorMetrics::Handled(std::string_view method, StatusCode code) {
  metrics
      .Counter("grpc_server_handled_total", "Calls answered.",
               {{"grpc_service", "buttress.v1.Coordinator"},
                {"grpc_method", std::string(method)},
                {"grpc_code", std::string(StatusCodeName(code))}})
      .Increment();
}

void CoordinatorMetrics::SetReady(bool now) {
  ready.Set(now ? 1 : 0);
  metrics.health().SetReady(now);
}

void CoordinatorMetrics::Submitted(std::string_view result) {
  const auto counter = submissions.find(result);
  BUTTRESS_CHECK(counter != submissions.end(), "every result of a submission has a counter");
  counter->second->Increment();
}

}  // namespace buttress
