// The coordinator program: it leases prompts, accepts groups, makes plans and keeps the ledger.
//
// Exit codes: 0 stopped, 2 configuration, 3 environment (a restart may help), 4 damaged data.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>

#include "coordinator/coordinator.h"
#include "coordinator/page/page_server.h"
#include "coordinator/standby/standby.h"
#include "coordinator/versions_file.h"
#include "lib/base/net/address.h"
#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/checks/program_checks.h"
#include "lib/checks/reward_files.h"
#include "lib/config/load.h"
#include "lib/config/load_credentials.h"
#include "lib/config/run_folder.h"
#include "lib/config/token_bounds.h"
#include "lib/data/row_faults.h"
#include "lib/page/page_data.h"
#include "lib/policy/model_config.h"
#include "lib/policy/stop_set.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kTick(200);
// A coordinator that exits when the run is finished or stopped first gives workers and learner this
// time to learn of it.
constexpr std::chrono::milliseconds kFinishedTime(10000);
// A dataset that is checked within this time is refused before the run begins.
constexpr std::chrono::milliseconds kCheckTime(1000);
constexpr int kCheckNice = 10;

// Returns the limits of a group of this run. The vocabulary is that of the model, which is often
// padded beyond that of the tokenizer.
GroupLimits GroupLimitsFrom(const RunSettings& run, const ModelConfig& model) {
  GroupLimits limits;
  limits.max_completions = static_cast<std::int32_t>(run.sampling.group_size);
  limits.max_branches = run.env.on() ? static_cast<std::int32_t>(run.env.max_turns) : 0;
  limits.max_prompt_tokens = static_cast<std::int32_t>(run.data.max_prompt_tokens);
  limits.max_completion_tokens = static_cast<std::int32_t>(MostBehindPrompt(run));
  if (run.env.on()) {
    // What the conversations of a group begin with may be any part of them.
    limits.max_completion_tokens += limits.max_prompt_tokens;
    limits.max_prompt_tokens = limits.max_completion_tokens;
  }
  limits.vocab_size = static_cast<std::int32_t>(model.vocab_size);
  return limits;
}

// The run continues without metrics if they cannot be served, but not without probes: a kubelet
// would end a program that answers none.
Status ServeMetrics(const LocalSettings& local, const Credentials& credentials, Metrics& metrics) {
  if (local.coordinator.probes != "off")
    BUTTRESS_RETURN_IF_ERROR(metrics.ServeProbes(local.coordinator.probes).status());
  if (local.coordinator.metrics == "off") return OkStatus();
  if (const Status served = metrics.Serve(local.coordinator.metrics, credentials); !served.ok()) {
    Log(kWarn, "metrics are not served", {{"error", served.message()}});
    return OkStatus();
  }
  return WriteFileAtomic(JoinPath(local.out, "coordinator.metrics"),
                         BoundAddress(local.coordinator.metrics, metrics.port()) + "\n");
}

void LogChecked(const PromptSet::Source& source, const DroppedRows& dropped) {
  const std::string& path = source.settings.data.prompts;
  if (dropped.count == 0)
    return Log(kInfo, "every row of the dataset can be used",
               {{"dataset", path}, {"rows", source.file->size()}});
  Log(kWarn, "prompts longer than max_prompt_tokens are never drawn",
      {{"dataset", path},
       {"rows", source.file->size()},
       {"dropped", dropped.count},
       {"lines", dropped.first}});
}

// The run continues without its page if that cannot be served. Null without one. `coordinator` and
// `tokenizer` outlive it.
std::unique_ptr<PageServer> ServePage(const RunConfig& config, const Credentials& credentials,
                                      const Tokenizer& tokenizer, Coordinator& coordinator) {
  const std::string& address = config.local.coordinator.page;
  if (address == "off") return nullptr;
  const auto data = std::make_shared<PageData>(
      config, &tokenizer, [&coordinator] { return coordinator.GetRunStatus(); });
  auto server = PageServer::Start(
      address, credentials, PageLinkPath(config.local.out),
      [data](double after, std::int64_t generation) { return data->Get(after, generation); });
  if (server.ok()) return *std::move(server);
  Log(kWarn, "the page is not served", {{"error", server.status().message()}});
  return nullptr;
}

// Checks all rows of the datasets during the run, which parses a row only when it draws it.
class DatasetCheck {
 public:
  // The bad rows of each dataset go to a file in the run folder `out`.
  DatasetCheck(const PromptSet& prompts, const std::string& out)
      : result_(
            std::async(std::launch::async, [this, &prompts, out] { return Run(prompts, out); })) {}

  // Waits until the check has ended.
  ~DatasetCheck() {
    stop_ = true;
    result_.wait();
  }

  DatasetCheck(const DatasetCheck&) = delete;
  DatasetCheck& operator=(const DatasetCheck&) = delete;

  // Waits until the check has ended, at most `timeout`. Returns its error; OK before.
  Status WaitFor(std::chrono::milliseconds timeout) const {
    const bool ended = result_.wait_for(timeout) == std::future_status::ready;
    return ended ? result_.get() : OkStatus();
  }

  Status status() const { return WaitFor(std::chrono::milliseconds(0)); }

 private:
  Status Run(const PromptSet& prompts, const std::string& out) {
    ::setpriority(PRIO_PROCESS, 0, kCheckNice);  // of this thread alone
    for (const PromptSet::Source& source : prompts.sources()) {
      const auto dropped =
          source.file->CheckRows(stop_, BadRowsPath(out, "prompts", source.settings.name));
      if (dropped.status().code() == StatusCode::kCancelled) return OkStatus();
      BUTTRESS_RETURN_IF_ERROR(dropped.status());
      LogChecked(source, *dropped);
    }
    return OkStatus();
  }

  std::atomic<bool> stop_ = false;
  const std::shared_future<Status> result_;
};

void WaitForStop(const Coordinator& coordinator, const DatasetCheck& check) {
  while (!WaitForShutdown(kTick)) {
    if (!check.status().ok() || coordinator.failed()) return;
    if (!coordinator.stopped()) continue;
    WaitForShutdown(kFinishedTime);
    return;
  }
}

Status Serve(RunConfig config) {
  BUTTRESS_RETURN_IF_ERROR(ArmFailpoints());
  BUTTRESS_ASSIGN_OR_RETURN(const Credentials credentials,
                            LoadCredentials(config.local.security, Program::kCoordinator));
  BUTTRESS_RETURN_IF_ERROR(CheckRewardFiles(config));
  const auto model = LoadModelConfig(config.run.model.path);
  if (!model.ok()) return InvalidArgument("run.model.path: " + model.status().message());
  auto loaded = Tokenizer::Load(config.run.model.path);
  if (!loaded.ok()) return InvalidArgument("run.model.path: " + loaded.status().message());
  const std::unique_ptr<Tokenizer> tokenizer = *std::move(loaded);
  BUTTRESS_ASSIGN_OR_RETURN(SamplingParams sampling,
                            SamplingOfRun(config.run.sampling, *model, *tokenizer));
  BUTTRESS_ASSIGN_OR_RETURN(
      const PromptSet prompts,
      PromptSet::Open(config.run, *tokenizer, JoinPath(config.local.out, "data"),
                      model->max_positions));
  config.run.steps = StepsOf(config.run, prompts.size());
  DatasetCheck check(prompts, config.local.out);
  BUTTRESS_RETURN_IF_ERROR(check.WaitFor(kCheckTime));
  Metrics metrics("coordinator");
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Coordinator> coordinator,
                            Coordinator::Start(config, prompts, GroupLimitsFrom(config.run, *model),
                                               std::move(sampling), metrics, credentials));
  const VersionsRecord versions(config, RecordedFiles::Of(config));
  BUTTRESS_RETURN_IF_ERROR(ServeMetrics(config.local, credentials, metrics));
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(config.local.out, "coordinator.address"),
                                           coordinator->address() + "\n"));
  Log(kInfo, "serving",
      {{"address", coordinator->address()},
       {"prompts", prompts.size()},
       {"out", config.local.out}});
  auto page = ServePage(config, credentials, *tokenizer, *coordinator);
  WaitForStop(*coordinator, check);
  page.reset();  // it asks the coordinator
  const Status status = coordinator->Stop();
  Log(kInfo, "stopped");
  return status.ok() ? check.status() : status;
}

// A standby calls the coordinator as an operator does.
Status Follow(const RunConfig& config) {
  BUTTRESS_ASSIGN_OR_RETURN(const Credentials credentials,
                            LoadCredentials(config.local.security, Program::kOperating));
  return FollowCoordinator(config, credentials);
}

// A thousand workers need a thousand connections; the usual soft limit is 1,024 files.
void AllowManyConnections() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0)
    Log(kWarn, "the limit of open files could not be raised");
}

int Run(int argc, char** argv) {
  CLI::App app("The coordinator of a Buttress run");
  ConfigFlags flags;
  flags.AddTo(app);
  bool standby = false;
  app.add_flag("--standby", standby,
               "follow the coordinator at local.coordinator.advertise into local.out, and answer "
               "nothing; start a coordinator on that folder to continue the run");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {  // --help throws as well
    return app.exit(e) == 0 ? 0 : ExitCode(InvalidArgument(e.what()));
  }
  InstallShutdownHandlers();
  SetLogRole("coordinator");
  AllowManyConnections();
  bool done = false;
  const auto config = LoadByFlags(flags, &done);
  if (done && config.ok()) return 0;
  Status status = config.status();
  if (config.ok() && flags.check) {
    status = ReportProgramChecks(RunChecks(*config, CheckScope::kCoordinator, {}), flags, *config);
  } else if (config.ok() && standby) {
    status = Follow(*config);
  } else if (config.ok()) {
    status = Serve(*config);
  }
  if (!status.ok()) std::fprintf(stderr, "coordinator: %s\n", status.ToString().c_str());
  return ExitCode(status);
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  try {
    buttress::TightenUmask();
    return buttress::Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "coordinator: %s\n", e.what());
    return buttress::ExitCode(buttress::Internal(e.what()));
  }
}
