// Verifier code: runs a program and its tests (tests.h) in a sandbox (lib/verify/sandbox/).
//
// The program is the last fence of the language (```python, ```cpp) that defines what the tests
// call, else the last one, else the whole response. It is
// correct if every test passes. A test fails if it crashes or exceeds a limit of CPU time, time,
// memory, disk, processes or output. The programs of all tests together have run.reward.timeout_ms,
// which only they use up: neither the compiler nor the start of a sandbox or interpreter does, nor
// waiting for a CPU. A failure of the machine, a sandbox that does not start or a program that it
// is too busy to run, is unscorable.
#include <re2/re2.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/verify/code/tests.h"
#include "lib/verify/code/trial.h"
#include "lib/verify/extract.h"
#include "lib/verify/sandbox/sandbox.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

// The time of a program in the self-test.
constexpr std::int64_t kPatientMs = 120000;

class Code : public Verifier {
 public:
  Code(const RewardConfig& config, Sandbox sandbox)
      : config_(config), sandbox_(std::move(sandbox)) {}

  bool bounds_time() const override { return true; }

  Verdict Verify(const VerifyRequest& request) const override {
    const Result<CodeTests> tests = ParseCodeTests(request.answer);
    if (!tests.ok()) return Unscorable("answer: " + tests.status().message());
    const auto fenced = Fence(request.response, *tests);
    const std::string all = " of " + std::to_string(tests->size()) + " tests";
    if (!fenced && request.truncated) return Wrong("0" + all + ": cut", "");
    const Result<TrialResult> result =
        RunTests(sandbox_, config_, fenced ? *fenced : request.response, *tests);
    if (result.status().code() == StatusCode::kInvalidArgument)
      return Unscorable("answer: " + result.status().message());
    if (!result.ok()) return Unscorable(result.status().message());
    const std::string passed = std::to_string(result->passed) + all;
    Verdict verdict =
        result->failure.empty() ? Correct(passed, "") : Wrong(passed + ": " + result->failure, "");
    verdict.anchor = fenced ? "fence" : "whole";
    return verdict;
  }

 private:
  // Returns the last fence that defines what the tests call, which an example of its use may
  // follow; else the last one.
  std::optional<std::string_view> Fence(std::string_view response, const CodeTests& tests) const {
    const bool cpp = config_.code.language == CodeLanguage::kCpp;
    const std::vector<std::string_view> fences =
        InFences(response, cpp ? "cpp c++ cc cxx c" : "python py python3");
    if (fences.empty()) return std::nullopt;
    const std::set<std::string> names = CalledNames(tests);
    static const RE2 definition(R"((?m)^\s*(?:(?:async\s+)?def|class)\s+(\w+))");
    for (auto fence = fences.rbegin(); fence != fences.rend(); ++fence) {
      re2::StringPiece rest(fence->data(), fence->size());
      std::string name;
      while (RE2::FindAndConsume(&rest, definition, &name)) {
        if (names.contains(name)) return *fence;
      }
    }
    return fences.back();
  }

  const RewardConfig config_;
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
