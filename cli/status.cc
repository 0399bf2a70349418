// `buttress status FILE`: asks the coordinator of a run for its progress and prints it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "lib/config/load.h"
#include "lib/config/load_credentials.h"
#include "lib/rl/collapse/acr.h"
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

std::string CountsText(const google::protobuf::Map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    if (count != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
  }
  return text.empty() ? "none" : text;
}

void Print(const v1::GetRunStatusResponse& run) {
  const v1::CollapseCounts& c = run.collapse();
  const std::uint64_t constant = c.all_correct() + c.all_wrong() + c.other_constant();
  const std::uint64_t scorable = constant + c.mixed();
  fmt::print("{}: {}, step {} of {}, version {}:{}\n", run.run_name(), StateText(run.run_state()),
             run.step(), run.total_steps(), run.version().learner_epoch(), run.version().step());
  fmt::print("groups: {}; dropped: {}\n", CountsText(run.groups()), CountsText(run.dropped()));
  fmt::print(
      "ACR {:.4f} = {} of {} groups (all-correct {}, all-wrong {}, other {}); unscorable {}\n",
      scorable == 0 ? 0.0 : static_cast<double>(constant) / static_cast<double>(scorable), constant,
      scorable, c.all_correct(), c.all_wrong(), c.other_constant(), c.unscorable());
  for (const v1::WorkerStatus& worker : run.workers()) {
    fmt::print("worker {}: {} leases, version {}:{}, last contact {:.1f} s ago, metrics at {}\n",
               worker.worker_id(), worker.leases(), worker.loaded_version().learner_epoch(),
               worker.loaded_version().step(), static_cast<double>(worker.silent_ms()) / 1000,
               worker.metrics_address().empty() ? "-" : worker.metrics_address());
  }
  fmt::print("starts: coordinator {}, learner {}\n", run.coordinator_epoch(), run.learner_epoch());
}

}  // namespace

std::function<Status()> AddStatus(CLI::App& app) {
  const auto flags = std::make_shared<ConfigFlags>();
  AddConfigFile(app, flags->path)->required();
  app.add_option("--set", flags->overrides,
                 "override a setting, as for `buttress launch`; may be repeated")
      ->allow_extra_args(false);
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
