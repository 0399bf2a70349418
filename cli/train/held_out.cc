#include "cli/train/held_out.h"

#include <fmt/core.h>

#include <filesystem>
#include <system_error>

#include "cli/process.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/status.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kEvalTimeoutMs = 3600 * 1000;

Status Evaluate(const std::string& when, const std::string& model, const std::string& path,
                const RunConfig& config, const RunPrograms& programs, Console& console) {
  console.Say("launch: held-out accuracy " + when + " training ...");
  const std::string log = JoinPath(config.local.out, "logs/eval_" + when + ".log");
  const std::string part = path + ".part";
  const auto argv =
      programs.CommandLine({SiblingProgram("rollout_worker"), "eval", "--model", model, "--prompts",
                            config.run.data.held_out, "--json", "--out", part});
  BUTTRESS_ASSIGN_OR_RETURN(Process process, Process::Start(argv, log));
  const bool ended = WaitUntil(kEvalTimeoutMs, [&] {
    console.SayWaiting("the held-out accuracy " + when);
    return !process.Running() || ShutdownRequested();
  });
  if (ShutdownRequested()) return Cancelled("interrupted");
  if (ended && process.exit_code() == ExitCode(NothingToLearn(""))) {
    return NothingToLearn("the evaluation " + when +
                          " training got no verdict: " + LastErrorInLog(log));
  }
  if (!ended || process.exit_code() != 0) {
    return Unavailable(fmt::format("the evaluation of {} failed: {}; whole log: {}", model,
                                   LastErrorInLog(log), log));
  }
  std::error_code error;
  fs::rename(part, path, error);
  if (error) return Unavailable("the evaluation wrote no " + part + ": " + error.message());
  return OkStatus();
}

}  // namespace

Result<std::optional<Accuracy>> MeasureHeldOut(const std::string& when, const std::string& model,
                                               const RunConfig& config, const RunPrograms& programs,
                                               Console& console) {
  if (config.run.data.held_out.empty()) return std::optional<Accuracy>();
  const std::string path = JoinPath(config.local.out, "eval_" + when + ".json");
  if (!fs::exists(path))
    BUTTRESS_RETURN_IF_ERROR(Evaluate(when, model, path, config, programs, console));
  BUTTRESS_ASSIGN_OR_RETURN(const Accuracy accuracy, ReadAccuracy(path));
  console.Say(fmt::format("launch: held-out accuracy {} training: {} of {} prompts (greedy)", when,
                          accuracy.Text(), accuracy.prompts));
  return std::optional(accuracy);
}

}  // namespace buttress
