#include "coordinator/coordinator_metrics.h"

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

class FreeSpaceCollector : public prometheus::Collectable {
 public:
  explicit FreeSpaceCollector(std::string folder) : folder_(std::move(folder)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const auto free = FreeBytes(folder_);
    if (!free) return {};
    prometheus::ClientMetric metric;
    metric.gauge.value = static_cast<double>(*free);
    return {{"buttress_coordinator_store_free_bytes",
             "Free space where the ledger lies.",
             prometheus::MetricType::Gauge,
             {metric}}};
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
      group_reward_mean(m.Histogram("buttress_coordinator_group_reward_mean",
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
  MutexLock lock(handled_mutex);
  prometheus::Counter*& counter = handled[{std::string(method), code}];
  if (counter == nullptr) {
    counter = &metrics.Counter("grpc_server_handled_total", "Calls answered.",
                               {{"grpc_service", "buttress.v1.Coordinator"},
                                {"grpc_method", std::string(method)},
                                {"grpc_code", std::string(StatusCodeName(code))}});
  }
  counter->Increment();
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
