#include "lib/verify/code/trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/extract.h"
#include "lib/verify/python_programs.h"
#include "lib/verify/verifier.h"

namespace buttress {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::int64_t kMegabyte = 1 << 20;
// Limits of the compiler, which do not depend on those of the program.
constexpr std::int64_t kCompilerMegabytes = 4096;
constexpr std::int64_t kProgramMegabytes = 64;
constexpr std::int64_t kCompilerProcesses = 32;
// The time of the run that does not count, because the interpreter needs it to start.
constexpr std::int64_t kStartMs = 100;
constexpr std::size_t kMaxHeadBytes = 4096;
constexpr int kSignalExit = 128;  // as shells have it

std::string ExitFailure(std::int64_t code, std::string_view errors) {
  if (code == 0) return "";
  if (code == kSignalExit + SIGXCPU) return "CPU time";
  return "exit code " + std::to_string(code) + " " +
         std::string(FirstBytes(Trim(errors), kShownBytes));
}

// Returns how a run failed; empty if it exited with 0.
std::string Failure(const SandboxResult& result) {
  switch (result.end) {
    case SandboxEnd::kCpuTime:
      return "CPU time";
    case SandboxEnd::kWallTime:
      return "time";
    case SandboxEnd::kOutput:
      return "too much output";
    case SandboxEnd::kMemory:
      return "memory";
    case SandboxEnd::kFiles:
      return "too many files";
    default:
      return ExitFailure(result.exit_code, result.errors);
  }
}

// How a test ended (harness.py). What it says is the program's, which may have forged it.
struct Report {
  std::string failure;   // empty if the test ran to its end
  std::string unusable;  // of an assert: why it cannot be judged, of which the program is innocent
  std::string output;
};

std::int64_t NumberIn(const json& head, const char* name) {
  return head.contains(name) && head[name].is_number_integer() ? head[name].get<std::int64_t>() : 0;
}

std::string TextIn(const json& head, const char* name) {
  return head.contains(name) && head[name].is_string() ? head[name].get<std::string>() : "";
}

std::string FailureIn(const json& head) {
  if (head.contains("flood")) return "too much output";
  const std::int64_t code =
      head.contains("signal") ? kSignalExit + NumberIn(head, "signal") : NumberIn(head, "exit");
  return ExitFailure(code, TextIn(head, "errors"));
}

// Takes a report off the front of `text`; nullopt if it is not all there.
std::optional<Report> NextReport(std::string& text) {
  const std::size_t line_end = text.find('\n');
  if (line_end == std::string::npos && text.size() <= kMaxHeadBytes) return std::nullopt;
  const Result<json> head = ParseBoundedJson(text.substr(0, std::min(line_end, kMaxHeadBytes)));
  if (!head.ok() || !head->is_object() || NumberIn(*head, "bytes") < 0)
    return Report{"no report of the test", "", ""};
  const auto bytes = static_cast<std::size_t>(NumberIn(*head, "bytes"));
  if (text.size() - line_end - 1 < bytes) return std::nullopt;
  Report report{FailureIn(*head), TextIn(*head, "unusable"), text.substr(line_end + 1, bytes)};
  text.erase(0, line_end + 1 + bytes);
  return report;
}

class Trial {
 public:
  Trial(const Sandbox& sandbox, const RewardConfig& config, const CodeTests& tests)
      : sandbox_(sandbox), config_(config.code), timeout_ms_(config.timeout_ms), tests_(tests) {}

  Result<TrialResult> Run(std::string_view program) {
    if (config_.language == CodeLanguage::kCpp) return RunCpp(program);
    SandboxRun run;
    run.files = {{"/work/main.py", program}};
    BUTTRESS_RETURN_IF_ERROR(tests_.asserts.empty() ? RunHarness(std::move(run), json::object())
                                                    : RunAsserts(std::move(run)));
    return result_;
  }

 private:
  Result<TrialResult> RunCpp(std::string_view source) {
    if (tests_.programs.empty())
      return InvalidArgument(
          "calls and asserts are for Python; C++ programs need inputs and outputs");
    BUTTRESS_ASSIGN_OR_RETURN(const SandboxResult compiled, Compile(source));
    if (const std::string failure = Failure(compiled); !failure.empty())
      return TrialResult{0, "does not compile: " + failure};
    SandboxRun run;
    run.files = {{"/work/program", compiled.output}};
    BUTTRESS_RETURN_IF_ERROR(RunHarness(std::move(run), {{"command", {"/work/program"}}}));
    return result_;
  }

  Result<SandboxResult> Compile(std::string_view source) const {
    SandboxRun run;
    run.argv = {"/usr/bin/sh", "-c",
                config_.compiler +
                    " -std=c++20 -O2 -o /tmp/program /work/main.cc && exec cat /tmp/program"};
    run.files = {{"/work/main.cc", source}};
    run.limits = {.cpu_seconds = config_.compile_ms / 1000 + 1,
                  .wall = milliseconds(config_.compile_ms),
                  .memory_bytes = kCompilerMegabytes * kMegabyte,
                  .disk_bytes = kProgramMegabytes * kMegabyte,
                  .output_bytes = static_cast<std::size_t>(kProgramMegabytes * kMegabyte),
                  .processes = kCompilerProcesses};
    return RunOnFreeMachine(run);
  }

  // Runs the programs or the calls.
  Status RunHarness(SandboxRun run, json options) {
    std::string input;
    json sizes = json::array();
    const auto add = [&](const std::string& text) {
      input += text;
      sizes.push_back(text.size());
    };
    for (const ProgramTest& test : tests_.programs) add(test.input);
    for (const CallTest& test : tests_.calls)
      add(test.arguments.dump(-1, ' ', false, json::error_handler_t::replace));
    if (!tests_.calls.empty()) options["function"] = tests_.function;
    options.update({{"sizes", std::move(sizes)},
                    {"cpu_seconds", config_.cpu_seconds},
                    {"output_bytes", OutputBytes()}});
    run.files.push_back({"/work/harness.py", kPythonHarness});
    run.argv = {config_.python, "-I", "/work/harness.py", options.dump()};
    run.input = input;
    return RunPieces(std::move(run));
  }

  Status RunAsserts(SandboxRun run) {
    const std::string input =
        json{{"asserts", tests_.asserts},      {"setup", tests_.setup},
             {"entry", tests_.entry},          {"before", tests_.before},
             {"tolerance", config_.tolerance}, {"cpu_seconds", config_.cpu_seconds}}
            .dump(-1, ' ', false, json::error_handler_t::replace);
    run.files.push_back({"/work/asserts.py", kPythonAsserts});
    run.files.push_back({"/work/harness.py", kPythonHarness});
    run.files.push_back({"/work/values.py", kPythonValues});
    run.argv = {config_.python, "-I", "/work/asserts.py"};
    run.input = input;
    BUTTRESS_RETURN_IF_ERROR(RunPieces(std::move(run)));
    return unusable_.empty() ? OkStatus() : InvalidArgument(unusable_);
  }

  // Runs until a test fails. Each report ends a piece of the run.
  Status RunPieces(SandboxRun run) {
    run.limits = Limits();
    run.take = [this](std::string& output) { return TakeReports(output); };
    BUTTRESS_ASSIGN_OR_RETURN(const SandboxResult result, RunOnFreeMachine(run));
    if (result.end == SandboxEnd::kStopped || result_.passed == tests_.size()) return OkStatus();
    result_.failure = Failure(result);
    if (result_.failure.empty()) result_.failure = "ended early";
    return OkStatus();
  }

  bool TakeReports(std::string& output) {
    while (result_.passed < tests_.size()) {
      const std::optional<Report> report = NextReport(output);
      if (!report) return true;
      unusable_ = report->unusable;
      if (!unusable_.empty()) return false;
      result_.failure = report->failure.empty() ? Difference(report->output) : report->failure;
      if (!result_.failure.empty()) return false;
      ++result_.passed;
    }
    return true;
  }

  // Returns how the output of the next test differs from what is expected; empty if it does not.
  std::string Difference(const std::string& output) const {
    if (!tests_.asserts.empty()) return "";
    if (!tests_.programs.empty()) {
      const std::string& expected = tests_.programs[result_.passed].output;
      return SameOutput(output, expected, config_.tolerance) ? "" : Instead(output, expected);
    }
    const CallTest& test = tests_.calls[result_.passed];
    const Result<json> value = ParseBoundedJson(output);
    const bool same =
        value.ok() && (SameValue(*value, test.value, config_.tolerance) ||
                       (test.wrapped && SameValue(*value, test.value[0], config_.tolerance)));
    return same ? "" : Instead(output, (test.wrapped ? test.value[0] : test.value).dump());
  }

  // "3 instead of 4", of both the first bytes.
  static std::string Instead(std::string_view output, std::string_view expected) {
    constexpr std::size_t kShown = 60;
    const auto shown = [](std::string_view text) {
      return Trim(text).empty() ? "nothing" : FirstBytes(Trim(text), kShown);
    };
    return fmt::format("{} instead of {}", shown(output), shown(expected));
  }

  // kUnavailable where the machine is too busy, of which the program is innocent.
  Result<SandboxResult> RunOnFreeMachine(const SandboxRun& run) const {
    Result<SandboxResult> result = sandbox_.Run(run);
    if (result.ok() && result->end == SandboxEnd::kStarved)
      return Unavailable(std::string(kTimeoutReason) +
                         ": the machine is too busy to run the program; lower run.reward.threads");
    return result;
  }

  std::size_t OutputBytes() const { return static_cast<std::size_t>(config_.output_kb) << 10; }

  SandboxLimits Limits() const {
    const std::int64_t total_ms = timeout_ms_ + kStartMs;
    // The harness lowers it for each test to that of the setting.
    return {.cpu_seconds = total_ms / 1000 + config_.cpu_seconds + 1,
            .wall = milliseconds(config_.wall_ms),
            .total = milliseconds(total_ms),
            .memory_bytes = config_.memory_mb * kMegabyte,
            .disk_bytes = config_.disk_mb * kMegabyte,
            .output_bytes = OutputBytes() + kMaxHeadBytes,
            .processes = config_.processes};
  }

  const Sandbox& sandbox_;
  const CodeConfig& config_;
  const std::int64_t timeout_ms_;
  const CodeTests& tests_;
  TrialResult result_;
  std::string unusable_;
};

}  // namespace

Result<TrialResult> RunTests(const Sandbox& sandbox, const RewardConfig& config,
                             std::string_view program, const CodeTests& tests) {
  return Trial(sandbox, config, tests).Run(program);
}

}  // namespace buttress
