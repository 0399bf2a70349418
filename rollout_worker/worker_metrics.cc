#include "rollout_worker/worker_metrics.h"

#include <string>
#include <vector>

namespace buttress {
namespace {

constexpr std::array<std::string_view, 4> kStates = {"starting", "running", "draining", "stopped"};
constexpr std::array<std::string_view, 5> kFinishReasons = {"", "stop", "length", "abort", "error"};
constexpr std::array<std::string_view, 5> kWaitReasons = {"no_lease", "engine", "verifier",
                                                          "submit", "weights"};
constexpr std::array<std::string_view, 3> kStages = {"fetch", "checksum", "apply"};

// 16, 32, ... 65536.
std::vector<double> TokenBounds() {
  std::vector<double> bounds;
  for (double bound = 16; bound <= 65536; bound *= 2) bounds.push_back(bound);
  return bounds;
}

template <std::size_t N>
std::array<prometheus::Counter*, N> Counters(Metrics& metrics, std::string_view name,
                                             std::string_view help, const char* label,
                                             const std::array<std::string_view, N>& values) {
  std::array<prometheus::Counter*, N> counters{};
  for (std::size_t i = 0; i < N; ++i) {
    if (!values[i].empty())
      counters[i] = &metrics.Counter(name, help, {{label, std::string(values[i])}});
  }
  return counters;
}

WorkerMetrics::WeightSource SourceCounters(Metrics& metrics, const std::string& source) {
  const auto transfers = [&](const std::string& result) -> prometheus::Counter& {
    return metrics.Counter("buttress_worker_weight_transfers_total",
                           "Transfers of weight files, by source and result.",
                           {{"source", source}, {"result", result}});
  };
  return {
      metrics.Counter("buttress_worker_weight_bytes_total",
                      "Bytes of weights received by gRPC, as they are or as changes, by source.",
                      {{"source", source}}),
      transfers("whole"), transfers("broken")};
}

}  // namespace

WorkerMetrics::WorkerMetrics(Metrics& all)
    : metrics(all),
      episodes(all),
      completions(Counters(metrics, "buttress_worker_completions_total",
                           "Completions that the engine returned.", "finish_reason",
                           kFinishReasons)),
      wait_seconds(Counters(metrics, "buttress_worker_wait_seconds_total",
                            "Time in which the generation loop was idle, by what it waited for.",
                            "reason", kWaitReasons)),
      weight_update_failures(Counters(
          metrics, "buttress_worker_weight_update_failures_total",
          "Weight updates that failed; the engine kept the old weights.", "stage", kStages)),
      learner(SourceCounters(metrics, "learner")),
      relay(SourceCounters(metrics, "worker")),
      prompt_tokens(metrics.Counter("buttress_worker_prompt_tokens_total",
                                    "Prompt tokens given to the engine, once a completion.")),
      generated_tokens(metrics.Counter("buttress_worker_generated_tokens_total",
                                       "Tokens of the completions that the engine returned.")),
      completion_tokens(metrics.Histogram("buttress_worker_completion_tokens",
                                          "Length of completions in tokens.", TokenBounds())),
      idle_seconds(metrics.Histogram("buttress_worker_idle_seconds",
                                     "Lengths of the times in which the engine had nothing to "
                                     "generate.",
                                     {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300})),
      requests_in_flight(metrics.Gauge("buttress_worker_requests_in_flight",
                                       "Completions running or waiting in the engine.")),
      leases_held(metrics.Gauge("buttress_worker_leases_held",
                                "Groups held, from lease to acknowledgement.")),
      spool_bytes(metrics.Gauge("buttress_worker_spool_bytes",
                                "Bytes of complete groups that are not acknowledged yet.")),
      weights_version(
          metrics.Gauge("buttress_worker_weights_version", "Step of the loaded weights.")),
      weights_proven(metrics.Gauge("buttress_worker_weights_proven",
                                   "1 if what samples is what the learner published: the digest of "
                                   "the loaded files is the manifest's, and every server has "
                                   "proven its weights.")),
      weight_update_seconds(metrics.Histogram("buttress_worker_weight_update_seconds",
                                              "Time to fetch, verify and load a version.",
                                              {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300})),
      canary_difference(metrics.Gauge("buttress_worker_canary_difference_nats",
                                      "Mean difference of a server's canary log-probs from the "
                                      "learner's at the last weight update.")),
      unchanged_weights(
          metrics.Counter("buttress_worker_weights_unchanged_total",
                          "Weight updates after which a server still served the old weights.")),
      submit_retries(metrics.Counter("buttress_worker_submit_retries_total",
                                     "Submissions that were repeated.")) {
  for (std::size_t i = 0; i < kStates.size(); ++i) {
    state[i] = &metrics.Gauge("buttress_worker_state", "1 for the current state of the worker.",
                              {{"state", std::string(kStates[i])}});
  }
  SetState(WorkerState::kStarting);
}

void WorkerMetrics::SetState(WorkerState now) {
  for (std::size_t i = 0; i < state.size(); ++i)
    state[i]->Set(i == static_cast<std::size_t>(now) ? 1 : 0);
}

void WorkerMetrics::Count(const EngineResult& result) {
  prometheus::Counter* counter = completions[static_cast<std::size_t>(result.finish_reason)];
  if (counter != nullptr) counter->Increment();
  generated_tokens.Increment(static_cast<double>(result.sampled_tokens()));
  completion_tokens.Observe(static_cast<double>(result.sampled_tokens()));
  if (result.episode) episodes.Count(*result.episode);
}

void WorkerMetrics::CountWait(WaitReason reason, double seconds) {
  wait_seconds[static_cast<std::size_t>(reason)]->Increment(seconds);
}

void WorkerMetrics::SetServers(const std::vector<ServerState>& servers) {
  for (const ServerState& server : servers) {
    const MetricLabels labels = {{"server", server.url}};
    const auto raise = [](prometheus::Counter& counter, std::int64_t value) {
      counter.Increment(static_cast<double>(value) - counter.Value());
    };
    metrics
        .Gauge("buttress_worker_server_healthy",
               "1 if the vLLM server's last health check was answered in time.", labels)
        .Set(server.healthy ? 1 : 0);
    metrics
        .Gauge("buttress_worker_server_serving",
               "1 if the vLLM server has proven its weights and gets completions, or sleeps.",
               labels)
        .Set(server.serving ? 1 : 0);
    metrics
        .Gauge("buttress_worker_server_weights_version",
               "Step of the version that the vLLM server proved last.", labels)
        .Set(static_cast<double>(server.weights_step));
    raise(metrics.Counter("buttress_worker_server_losses_total",
                          "Times the vLLM server was lost: dead, hung, slow, or without weights.",
                          labels),
          server.losses);
    raise(metrics.Counter("buttress_worker_server_restarts_total",
                          "Times the vLLM server came back as another process.", labels),
          server.restarts);
    raise(metrics.Counter("buttress_worker_server_completions_total",
                          "Completions that the vLLM server ended.", labels),
          server.completions);
    raise(metrics.Counter("buttress_worker_server_tokens_total",
                          "Tokens that the vLLM server sent.", labels),
          server.tokens);
  }
}

void WorkerMetrics::SetProofs(const EngineStats& stats) {
  canary_difference.Set(stats.canary_difference);
  unchanged_weights.Increment(static_cast<double>(stats.unchanged_weights) -
                              unchanged_weights.Value());
}

void WorkerMetrics::Count(const WeightTransfer& transfer) {
  WeightSource& source = transfer.from_publisher ? learner : relay;
  source.bytes.Increment(static_cast<double>(transfer.bytes));
  (transfer.whole ? source.whole : source.broken).Increment();
}

void WorkerMetrics::CountWeightFailure(WeightStage stage) {
  weight_update_failures[static_cast<std::size_t>(stage)]->Increment();
}

}  // namespace buttress
