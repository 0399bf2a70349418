// Verifier code: runs a program and its tests (tests.h) in a sandbox (lib/verify/sandbox/).
//
// The program is the last fence of the language (```python, ```cpp), else the whole response. It is
// correct if every test passes. A test fails if it crashes or exceeds a limit of CPU time, time,
// memory, disk, processes or output. The programs of all tests together have run.reward.timeout_ms,
// which only they use up: neither the compiler nor the start of a sandbox or interpreter does, nor
// waiting for a CPU. A failure of the machine, a sandbox that does not start or a program that it
// is too busy to run, is unscorable.
#include <algorithm>
#include <memory>
#include <optional>
#include <random>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/code/tests.h"
#include "lib/verify/extract.h"
#include "lib/verify/python_programs.h"
#include "lib/verify/sandbox/sandbox.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::int64_t kMegabyte = 1 << 20;
// Limits of the compiler, which do not depend on those of the program.
constexpr std::int64_t kCompilerMegabytes = 4096;
constexpr std::int64_t kProgramMegabytes = 64;
constexpr std::int64_t kCompilerProcesses = 32;
// The time of each program that does not count, because its interpreter needs it to start.
constexpr std::int64_t kStartMs = 100;
// The time of a program in the self-test.
constexpr std::int64_t kPatientMs = 120000;

// Returns how a program failed; empty if it exited with 0.
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
      break;
  }
  if (result.exit_code == 0) return "";
  return "exit code " + std::to_string(result.exit_code) + " " +
         std::string(FirstBytes(Trim(result.errors), kShownBytes));
}

// Returns a word that the response cannot guess.
std::string SecretWord() {
  std::random_device device;
  return std::to_string(device()) + "-" + std::to_string(device()) + "-" + std::to_string(device());
}

// Returns the lines up to the first one that is not JSON. NaN is not JSON.
std::vector<json> Lines(std::string_view output) {
  std::vector<json> lines;
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    Result<json> line = ParseBoundedJson(output.substr(0, end));
    if (!line.ok()) return lines;
    lines.push_back(*std::move(line));
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  return lines;
}

// Judges one response. Its programs have `timeout_ms` together.
class Trial {
 public:
  Trial(const Sandbox& sandbox, const CodeConfig& config, std::int64_t timeout_ms)
      : sandbox_(sandbox), config_(config), left_ms_(timeout_ms) {}

  Verdict Judge(std::string_view program, const CodeTests& tests) {
    total_ = tests.size();
    std::string binary;
    if (config_.language == CodeLanguage::kCpp) {
      if (tests.programs.empty())
        return Unscorable(
            "answer: calls and asserts are for Python; C++ programs need inputs and outputs");
      Result<std::string> compiled = Compile(program);
      if (!compiled.ok()) return Failed(compiled.status());
      binary = *std::move(compiled);
      program = binary;
    }
    const Status status = !tests.programs.empty() ? RunPrograms(program, tests)
                          : !tests.calls.empty()  ? RunCalls(program, tests)
                                                  : RunAsserts(program, tests);
    return status.ok() ? Correct(Passed(), "") : Failed(status);
  }

 private:
  // kInvalidArgument is a failure of the program, which makes the response wrong.
  Verdict Failed(const Status& status) const {
    if (status.code() == StatusCode::kInvalidArgument)
      return Wrong(Passed() + ": " + status.message(), "");
    return Unscorable(status.message());
  }

  std::string Passed() const {
    return std::to_string(passed_) + " of " + std::to_string(total_) + " tests";
  }

  // Runs a program within its wall time and what earlier programs have left of the timeout.
  Result<SandboxResult> Run(SandboxRun run) {
    if (left_ms_ <= 0) return InvalidArgument("time of all tests");
    run.limits.wall = std::min(run.limits.wall, milliseconds(left_ms_ + kStartMs));
    BUTTRESS_ASSIGN_OR_RETURN(SandboxResult result, RunOnFreeMachine(run));
    left_ms_ -= std::max<std::int64_t>(0, result.used.count() - kStartMs);
    return result;
  }

  // kUnavailable where the machine is too busy, of which the program is innocent.
  Result<SandboxResult> RunOnFreeMachine(const SandboxRun& run) const {
    Result<SandboxResult> result = sandbox_.Run(run);
    if (result.ok() && result->end == SandboxEnd::kStarved)
      return Unavailable(std::string(kTimeoutReason) +
                         ": the machine is too busy to run the program; lower run.reward.threads");
    return result;
  }

  SandboxLimits Limits() const {
    return {.cpu_seconds = config_.cpu_seconds,
            .wall = milliseconds(config_.wall_ms),
            .memory_bytes = config_.memory_mb * kMegabyte,
            .disk_bytes = config_.disk_mb * kMegabyte,
            .output_bytes = static_cast<std::size_t>(config_.output_kb) << 10,
            .processes = config_.processes};
  }

  Result<std::string> Compile(std::string_view program) const {
    SandboxRun run;
    run.argv = {"/usr/bin/sh", "-c",
                config_.compiler +
                    " -std=c++20 -O2 -o /tmp/program /work/main.cc && exec cat /tmp/program"};
    run.files = {{"/work/main.cc", program}};
    run.limits = {.cpu_seconds = config_.compile_ms / 1000 + 1,
                  .wall = milliseconds(config_.compile_ms),
                  .memory_bytes = kCompilerMegabytes * kMegabyte,
                  .disk_bytes = kProgramMegabytes * kMegabyte,
                  .output_bytes = static_cast<std::size_t>(kProgramMegabytes * kMegabyte),
                  .processes = kCompilerProcesses};
    BUTTRESS_ASSIGN_OR_RETURN(SandboxResult result, RunOnFreeMachine(run));
    if (const std::string failure = Failure(result); !failure.empty())
      return InvalidArgument("does not compile: " + failure);
    return std::move(result.output);
  }

  Status RunPrograms(std::string_view program, const CodeTests& tests) {
    const bool cpp = config_.language == CodeLanguage::kCpp;
    SandboxRun run;
    run.argv = cpp ? std::vector<std::string>{"/work/program"}
                   : std::vector<std::string>{config_.python, "-I", "/work/main.py"};
    run.files = {{run.argv.back(), program}};
    run.limits = Limits();
    for (const ProgramTest& test : tests.programs) {
      run.input = test.input;
      BUTTRESS_ASSIGN_OR_RETURN(const SandboxResult result, Run(run));
      if (const std::string failure = Failure(result); !failure.empty())
        return InvalidArgument(failure);
      if (!SameOutput(result.output, test.output)) return InvalidArgument("another output");
      ++passed_;
    }
    return OkStatus();
  }

  Result<SandboxResult> RunHarness(std::string_view program, const json& request) {
    const std::string input = request.dump(-1, ' ', false, json::error_handler_t::replace);
    SandboxRun run;
    run.argv = {config_.python, "-I", "/work/harness.py"};
    run.files = {{"/work/main.py", program}, {"/work/harness.py", kPythonHarness}};
    run.input = input;
    run.limits = Limits();
    return Run(std::move(run));
  }

  Status RunCalls(std::string_view program, const CodeTests& tests) {
    json calls = json::array();
    for (const CallTest& test : tests.calls) calls.push_back(test.arguments);
    BUTTRESS_ASSIGN_OR_RETURN(
        const SandboxResult result,
        RunHarness(program, {{"function", tests.function}, {"calls", std::move(calls)}}));
    const std::vector<json> lines = Lines(result.output);
    for (std::size_t i = 0; i < tests.calls.size(); ++i) {
      if (i >= lines.size())
        return InvalidArgument(Failure(result).empty() ? "no value" : Failure(result));
      if (!lines[i].is_object() || !lines[i].contains("value"))
        return InvalidArgument(lines[i].dump());
      if (!SameValue(lines[i]["value"], tests.calls[i].value))
        return InvalidArgument("another value");
      ++passed_;
    }
    return OkStatus();
  }

  Status RunAsserts(std::string_view program, const CodeTests& tests) {
    const std::string word = SecretWord();
    BUTTRESS_ASSIGN_OR_RETURN(
        const SandboxResult result,
        RunHarness(program, {{"setup", tests.setup}, {"asserts", tests.asserts}, {"word", word}}));
    std::string expected;
    for (; passed_ < tests.asserts.size(); ++passed_) {
      expected += word + " " + std::to_string(passed_) + "\n";
      if (!result.output.starts_with(expected))
        return InvalidArgument(Failure(result).empty() ? "ended early" : Failure(result));
    }
    return OkStatus();
  }

  const Sandbox& sandbox_;
  const CodeConfig& config_;
  std::int64_t left_ms_;
  std::size_t passed_ = 0;
  std::size_t total_ = 0;
};

class Code : public Verifier {
 public:
  Code(const RewardConfig& config, Sandbox sandbox)
      : config_(config.code), timeout_ms_(config.timeout_ms), sandbox_(std::move(sandbox)) {}

  bool bounds_time() const override { return true; }

  Verdict Verify(const VerifyRequest& request) const override {
    const Result<CodeTests> tests = ParseCodeTests(request.answer);
    if (!tests.ok()) return Unscorable("answer: " + tests.status().message());
    const auto fenced =
        InLastFence(request.response, config_.language == CodeLanguage::kCpp ? "cpp c++ cc cxx c"
                                                                             : "python py python3");
    if (!fenced && request.truncated)
      return Wrong("0 of " + std::to_string(tests->size()) + " tests: cut", "");
    Verdict verdict =
        Trial(sandbox_, config_, timeout_ms_).Judge(fenced ? *fenced : request.response, *tests);
    verdict.anchor = fenced ? "fence" : "whole";
    return verdict;
  }

 private:
  const CodeConfig config_;
  const std::int64_t timeout_ms_;
  const Sandbox sandbox_;
};

// Judges programs in the configured language whose outcome is known. `code` has generous limits,
// because the test must not depend on the speed of the machine.
Status CheckItself(const Code& code, CodeLanguage language) {
  constexpr std::string_view kTests = R"([{"input": "20 22", "output": "42"}])";
  const bool cpp = language == CodeLanguage::kCpp;
  const KnownAnswer known[] = {
      {cpp ? "```cpp\n#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << "
             "a + b; }\n```"
           : "```python\nprint(sum(map(int, input().split())))\n```",
       kTests, Outcome::kCorrect},
      {cpp ? "int main() {}" : "print(41)", kTests, Outcome::kWrong},
      {cpp ? "int main() { return 1 }" : "print(", kTests, Outcome::kWrong},
      {"", "no tests", Outcome::kUnscorable},
  };
  return CheckKnownAnswers("code", code, known);
}

}  // namespace

Result<std::unique_ptr<Verifier>> MakeCode(const RewardConfig& config) {
  SandboxOptions options{config.code.python, config.code.read_only};
  BUTTRESS_ASSIGN_OR_RETURN(const Sandbox sandbox, Sandbox::Open(options));
  RewardConfig patient = config;
  patient.timeout_ms = kPatientMs;
  patient.code.cpu_seconds = kPatientMs / 1000;
  patient.code.wall_ms = patient.code.compile_ms = kPatientMs;
  BUTTRESS_RETURN_IF_ERROR(CheckItself(Code(patient, sandbox), config.code.language));
  return std::unique_ptr<Verifier>(std::make_unique<Code>(config, sandbox));
}

}  // namespace buttress
