// `buttress status run.yaml`: what a run is doing, asked of its coordinator.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "lib/config/credentials.h"
#include "lib/config/load.h"
#include "lib/rl/acr.h"
#include "lib/rpc/coordinator_client.h"

namespace buttress {
namespace {

constexpr std::int64_t kGiveUpMs = 5000;

const char* StateText(v1::RunState state) {
  switch (state) {
    case v1::RUN_STATE_RUNNING:
      return "running";
    case v1::RUN_STATE_DRAINING:
      return "draining";
    case v1::RUN_STATE_FINISHED:
      return "finished";
    default:
      return "unknown";
  }
}

std::string Counts(const google::protobuf::Map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  return text.empty() ? "none" : text;
}

void Print(const v1::GetRunStatusResponse& run) {
  const v1::CollapseCounts& c = run.collapse();
  const std::uint64_t constant = c.all_correct() + c.all_wrong() + c.other_constant();
  const std::uint64_t scorable = constant + c.mixed();
  std::printf("%s: %s, step %llu of %llu, version %llu:%llu\n", run.run_name().c_str(),
              StateText(run.run_state()), static_cast<unsigned long long>(run.step()),
              static_cast<unsigned long long>(run.total_steps()),
              static_cast<unsigned long long>(run.version().learner_epoch()),
              static_cast<unsigned long long>(run.version().step()));
  std::printf("groups: %s; dropped: %s\n", Counts(run.groups()).c_str(),
              Counts(run.dropped()).c_str());
  std::printf(
      "ACR %.4f = %llu of %llu groups (all-correct %llu, all-wrong %llu, other %llu); unscorable "
      "%llu\n",
      scorable == 0 ? 0.0 : static_cast<double>(constant) / static_cast<double>(scorable),
      static_cast<unsigned long long>(constant), static_cast<unsigned long long>(scorable),
      static_cast<unsigned long long>(c.all_correct()),
      static_cast<unsigned long long>(c.all_wrong()),
      static_cast<unsigned long long>(c.other_constant()),
      static_cast<unsigned long long>(c.unscorable()));
  for (const v1::WorkerStatus& worker : run.workers()) {
    std::printf("worker %s: %u leases, version %llu:%llu, heard of %.1f s ago, metrics at %s\n",
                worker.worker_id().c_str(), worker.leases(),
                static_cast<unsigned long long>(worker.loaded_version().learner_epoch()),
                static_cast<unsigned long long>(worker.loaded_version().step()),
                static_cast<double>(worker.silent_ms()) / 1000,
                worker.metrics_address().empty() ? "-" : worker.metrics_address().c_str());
  }
  std::printf("coordinator started %llu times, learner %llu times\n",
              static_cast<unsigned long long>(run.coordinator_epoch()),
              static_cast<unsigned long long>(run.learner_epoch()));
}

}  // namespace

std::function<Status()> AddStatus(CLI::App& app) {
  const auto flags = std::make_shared<ConfigFlags>();
  app.add_option("config", flags->path, "YAML file of the run")->required();
  app.add_option("--set", flags->overrides, "override a setting, as given to launch");
  return [flags]() -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const RunConfig config, LoadRunConfig(flags->path, flags->overrides));
    BUTTRESS_ASSIGN_OR_RETURN(const Credentials credentials,
                              LoadCredentials(config.local.security));
    CoordinatorClientOptions options = CoordinatorClientOptionsFrom(config.local, credentials);
    options.give_up_after_ms = kGiveUpMs;
    CoordinatorClient client(options);
    BUTTRESS_ASSIGN_OR_RETURN(const v1::GetRunStatusResponse run, client.GetRunStatus());
    Print(run);
    return OkStatus();
  };
}

}  // namespace buttress
