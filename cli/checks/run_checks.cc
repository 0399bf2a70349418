#include "cli/checks/run_checks.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/fleet/ssh_session.h"
#include "cli/keep/run_folder.h"
#include "cli/process.h"
#include "cli/train/supervisor.h"
#include "lib/base/os/fd.h"
#include "lib/base/os/file.h"
#include "lib/base/text/bounded_json.h"
#include "lib/checks/peer_checks.h"
#include "lib/checks/program_checks.h"
#include "lib/checks/reward_files.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/config/run_identity.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kProgramMs = 120000;
constexpr std::int64_t kStopMs = 5000;
constexpr std::int64_t kMaxOutputBytes = 1 << 20;

// A program that was run to its end, or for as long as it may.
class Run {
 public:
  explicit Run(const std::vector<std::string>& argv)
      : output_(::memfd_create("output", MFD_CLOEXEC)) {
    auto process = Process::StartOn(argv, STDIN_FILENO, output_.get());
    if (!process.ok()) return;
    ended_ = WaitUntil(kProgramMs, [&] { return !process->Running(); });
    if (ended_) {
      code_ = process->exit_code();
      return;
    }
    process->Signal(SIGTERM);
    if (!WaitUntil(kStopMs, [&] { return !process->Running(); })) process->Signal(SIGKILL);
  }

  bool ended() const { return ended_; }

  int code() const { return code_; }

  // A file with what it printed.
  std::string path() const { return "/proc/self/fd/" + std::to_string(output_.get()); }

 private:
  OwnedFd output_;
  bool ended_ = false;
  int code_ = -1;
};

std::string LateText() {
  return fmt::format(
      "no end within {} s; the machines must reach one another, without a question "
      "of ssh for a password",
      kProgramMs / 1000);
}

// What the other machines of a run check is written below the run folder, so that it disturbs no
// run that uses it.
std::string FleetCheckFolder(const std::string& out) { return JoinPath(out, "check"); }

// Whether a launch that refused rows of a dataset left this folder (BadRowsPath of row_faults.h).
bool IsOfBadRows(const fs::path& folder) {
  std::error_code ignored;
  const fs::directory_iterator entries(folder, ignored);
  return folder.filename() == "data" && entries != fs::directory_iterator() &&
         std::ranges::all_of(entries, [](const auto& entry) {
           return entry.path().filename().string().starts_with("bad_rows_");
         });
}

void CheckOthers(const RunConfig& config, Fleet& fleet, Findings& findings) {
  RunConfig own = config;
  own.local.out = FleetCheckFolder(config.local.out);
  Status status = MakeFolders(JoinPath(own.local.out, "logs"));
  if (status.ok()) status = fleet.Check(own, findings);
  if (!status.ok()) findings.Error("--hosts", status.message());
}

// Adds what `rollout_worker --check` finds and `findings` lacks.
void CheckWorkerProgram(const std::vector<std::string>& settings, Findings& findings) {
  const std::string key = "rollout_worker --check";
  std::vector<std::string> argv = {SiblingProgram("rollout_worker"), "--check", "--json"};
  argv.insert(argv.end(), settings.begin(), settings.end());
  const Run run(argv);
  if (!run.ended()) return findings.Error(key, LateText());
  const auto text = ReadFile(run.path(), kMaxOutputBytes);
  // Log lines may stand around the report.
  const std::size_t begin = text.ok() ? text->find("{\n  \"ok\"") : std::string::npos;
  const std::size_t end = text.ok() ? text->find("\n}", begin) : std::string::npos;
  if (begin == std::string::npos || end == std::string::npos)
    return findings.Error(key, LastErrorInLog(run.path()));
  const auto report = ParseBoundedJson(text->substr(begin, end + 2 - begin));
  if (!report.ok() || !report->is_object() || !report->contains("checks"))
    return findings.Error(key, LastErrorInLog(run.path()));
  for (const nlohmann::json& check : (*report)["checks"]) {
    const auto severity = FindChoice<Severity>(check.value("severity", ""));
    findings.AddNew({severity.ok() ? *severity : Severity::kError, check.value("check", ""),
                     check.value("text", "")});
  }
}

void CheckWithPrograms(const RunConfig& config, const RunFile& file,
                       const std::vector<std::string>& hosts, Findings& findings) {
  if (!findings.Verdict().ok()) return;  // the programs would only repeat it
  CheckLearnerJob(config, file.Arguments(), hosts, findings);
  const WorkerConfig& worker = config.local.worker;
  if (worker.engine == EngineKind::kVllm || worker.device == ComputeDevice::kCuda)
    CheckWorkerProgram(file.Arguments(), findings);
  CheckCoordinator(config, Program::kStatus, findings);
}

Findings Only(const std::string& check, const Status& status) {
  Findings findings;
  findings.Error(check, status.message());
  return findings;
}

}  // namespace

void CheckLearnerJob(const RunConfig& config, const std::vector<std::string>& settings,
                     const std::vector<std::string>& hosts, Findings& findings) {
  const std::string key = "local.launch.mpirun";
  const std::string ranks = std::to_string(config.local.launch.learner_ranks);
  std::vector<std::string> argv = MpirunCommand(config.local, hosts);
  argv.insert(argv.end(), {SiblingProgram("learner"), "--expect-world", ranks, "--check"});
  argv.insert(argv.end(), settings.begin(), settings.end());
  const Run run(argv);
  if (!run.ended()) return findings.Error(key, "the learner's ranks: " + LateText());
  if (run.code() != 0) {
    return findings.Error(key, fmt::format("the learner's ranks end with {}: {}", run.code(),
                                           LastErrorInLog(run.path())));
  }
  findings.Ok(key, ranks + " learner ranks start, agree on the settings and have what they need");
}

void CheckNamedServers(const RunConfig& config, const RunFile& file, Findings& findings) {
  const WorkerConfig& worker = config.local.worker;
  if (worker.engine == EngineKind::kVllm && !worker.vllm.launch.on())
    CheckWorkerProgram(file.Arguments(), findings);
}

bool IsRunFolder(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(JoinPath(folder, "ledger.db"), ignored) ||
         fs::exists(JoinPath(folder, FolderLock::kName), ignored);
}

void CheckRunFolder(const RunConfig& config, const std::string& run_file, bool fresh,
                    Findings& findings) {
  const std::string& out = config.local.out;
  const std::string key = "local.out";
  std::error_code ignored;
  bool holds_run_file = false;
  std::set<std::string> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, ignored)) {
    if (fs::equivalent(entry.path(), run_file, ignored)) {
      holds_run_file = true;
    } else if (entry.path() != FleetCheckFolder(out) && !IsOfBadRows(entry.path())) {
      others.insert(entry.path().filename().string());
    }
  }
  if (!IsRunFolder(out)) {
    if (others.empty()) return;
    constexpr std::size_t kNamed = 4;
    const auto end = std::next(others.begin(), std::min(kNamed, others.size()));
    return findings.Error(
        key,
        fmt::format(
            "{} is not the folder of a run, and holds {}{}; nothing of it was moved or "
            "changed. Name a folder that is empty or does not exist yet",
            out, fmt::join(others.begin(), end, ", "),
            others.size() > kNamed ? fmt::format(" and {} more", others.size() - kNamed) : ""));
  }
  if (fresh && holds_run_file) {
    findings.Error(key, fmt::format("--fresh moves {} aside, and with it the run file {}; nothing "
                                    "was moved. Copy the run file to another folder",
                                    out, run_file));
  }
}

void CheckResume(const RunConfig& config, Findings& findings) {
  const std::string& out = config.local.out;
  std::error_code error;
  if (!fs::exists(JoinPath(out, "ledger.db"), error)) return;
  if (const Status reward = CheckRewardFiles(config); !reward.ok())
    findings.Error("resume", reward.message());
  const auto stored = LoadRunConfig(StoredConfigPath(out), {});
  if (!stored.ok()) {
    findings.Warn("resume",
                  "the settings that the run was started with cannot be shown, the "
                  "coordinator compares their hash alone: " +
                      stored.status().message());
    return;
  }
  const auto changes = ChangesOf(*stored, config);
  if (std::ranges::all_of(changes, &SettingChange::allowed)) {
    findings.Ok("resume", changes.empty() ? "the settings are those that the run was started with"
                                          : "the run continues with other settings:" +
                                                DescribeChanges(changes));
    return;
  }
  findings.Error("resume", "the run in " + out +
                               " was started with other settings; put the old values back, set "
                               "local.out to another folder, or start again with --fresh:" +
                               DescribeChanges(changes));
}

std::vector<std::string> RunFile::Arguments() const {
  std::vector<std::string> argv = {"--config", path};
  for (const std::string& override : overrides) argv.insert(argv.end(), {"--set", override});
  return argv;
}

void HostsFlags::AddTo(CLI::App& app) {
  app.add_option("--hosts", path,
                 "file with a machine a line, for a run on several over ssh, for example 'node2 "
                 "workers=4 ranks=1 address=10.0.0.2'; the line of this machine has 'coordinator'")
      ->type_name("FILE");
  app.add_option("--ssh", ssh, "with --hosts: the ssh command and its options")
      ->capture_default_str();
}

Result<std::optional<Fleet>> HostsFlags::Load(const LocalSettings& local, RunFile& run) const {
  if (path.empty()) return std::optional<Fleet>();
  BUTTRESS_ASSIGN_OR_RETURN(Fleet fleet, Fleet::Load(path, ssh));
  for (std::string& setting : fleet.Overrides(local)) run.overrides.push_back(std::move(setting));
  return std::optional<Fleet>(std::move(fleet));
}

Findings CheckRunFile(RunFile file, const HostsFlags& hosts, bool fresh) {
  const std::string run_file = file.path;
  auto config = LoadRunConfig(file.path, file.overrides);
  if (!config.ok()) return Only("configuration", config.status());
  auto fleet = hosts.Load(config->local, file);
  if (!fleet.ok()) return Only("--hosts", fleet.status());
  if (*fleet) config = LoadRunConfig(file.path, file.overrides);
  if (!config.ok()) return Only("configuration", config.status());

  const LaunchConfig& launch = config->local.launch;
  const ProcessCounts here =
      *fleet ? (*fleet)->Here() : ProcessCounts{launch.workers, launch.learner_ranks};
  Findings findings = RunChecks(*config, CheckScope::kDoctor, here);
  CheckRunFolder(*config, run_file, fresh, findings);
  if (!fresh) CheckResume(*config, findings);
  if (*fleet) CheckOthers(*config, **fleet, findings);
  const auto ranks_on = *fleet ? (*fleet)->MpirunArguments() : std::vector<std::string>();
  if (!ranks_on.empty()) file = {SentConfigPath(FleetCheckFolder(config->local.out)), {}};
  CheckWithPrograms(*config, file, ranks_on, findings);
  return findings;
}

}  // namespace buttress
