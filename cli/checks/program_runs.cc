#include "cli/checks/program_runs.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/fleet/fleet.h"
#include "cli/process.h"
#include "cli/train/supervisor.h"
#include "lib/base/os/file.h"
#include "lib/base/text/bounded_json.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kProgramMs = 120000;
constexpr std::int64_t kStopMs = 5000;
constexpr std::int64_t kMaxOutputBytes = 1 << 20;

bool Runs(const fs::path& program) {
  std::error_code error;
  return fs::is_regular_file(program, error) && ::access(program.c_str(), X_OK) == 0;
}

bool OnPath(const std::string& program) {
  if (program.find('/') != std::string::npos) return Runs(program);
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (Runs(fs::path(folder) / program)) return true;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return false;
}

// A program that was run to its end, or for as long as it may.
class Run {
 public:
  explicit Run(const std::vector<std::string>& argv)
      : output_(::memfd_create("output", MFD_CLOEXEC)) {
    auto process = Process::StartOn(argv, STDIN_FILENO, output_);
    if (!process.ok()) return;
    ended_ = WaitUntil(kProgramMs, [&] { return !process->Running(); });
    if (ended_) {
      code_ = process->exit_code();
      return;
    }
    process->Signal(SIGTERM);
    if (!WaitUntil(kStopMs, [&] { return !process->Running(); })) process->Signal(SIGKILL);
  }

  ~Run() {
    if (output_ >= 0) ::close(output_);
  }

  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool ended() const { return ended_; }

  int code() const { return code_; }

  // A file with what it printed.
  std::string path() const { return "/proc/self/fd/" + std::to_string(output_); }

 private:
  int output_;
  bool ended_ = false;
  int code_ = -1;
};

std::string LateText() {
  return fmt::format(
      "no end within {} s; the machines must reach one another, without a question "
      "of ssh for a password",
      kProgramMs / 1000);
}

}  // namespace

void CheckPrograms(const LocalSettings& local, Findings& findings) {
  bool all = true;
  for (const char* name : {"coordinator", "rollout_worker", "learner"}) {
    const std::string path = SiblingProgram(name);
    if (Runs(path)) continue;
    all = false;
    findings.Error("programs", fmt::format("no program {}; build the target '{}'", path, name));
  }
  if (!OnPath(local.launch.mpirun)) {
    all = false;
    findings.Error("local.launch.mpirun",
                   local.launch.mpirun + " is not found; install Open MPI, or name its mpirun");
  }
  if (all) findings.Ok("programs", "coordinator, rollout_worker, learner and mpirun are found");
}

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
    findings.AddNew({SeverityOf(check.value("severity", "")), check.value("check", ""),
                     check.value("text", "")});
  }
}

}  // namespace buttress
