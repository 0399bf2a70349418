#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "lib/verify/code/tests.h"
#include "lib/verify/verifier.h"
#include "tests/support/one_cpu.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.timeout_ms = 200000;
    config_.code.cpu_seconds = 30;
    config_.code.wall_ms = 60000;
    config_.code.compile_ms = 100000;
    Use(config_);
  }

  // Makes the verifier with `config`. Skips the test if programs cannot be run.
  void Use(const RewardConfig& config) {
    Result<std::unique_ptr<Verifier>> made = MakeVerifier("code", config);
    if (made.status().code() == StatusCode::kFailedPrecondition)
      GTEST_SKIP() << made.status().message();
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    verifier_ = *std::move(made);
  }

  Verdict Judge(std::string_view response, std::string_view answer) const {
    return verifier_->Verify({{}, response, answer, {}, false});
  }

  RewardConfig config_;
  std::unique_ptr<Verifier> verifier_;
};

constexpr std::string_view kSums = R"({"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]})";
constexpr std::string_view kCalls =
    R"({"fn_name": "add", "inputs": [[1, 2], [0.1, 0.2]], "outputs": [3, 0.3]})";
constexpr std::string_view kAsserts =
    R"({"test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"], )"
    R"("test_setup_code": "import math"})";
constexpr std::string_view kAdd =
    "```python\ndef add(a, b):\n    print('noise')\n    return a + b\n```";

TEST_F(CodeTest, ProgramsPassOrFail) {
  EXPECT_EQ(
      Judge("Here:\n```python\na, b = map(int, input().split())\nprint(a + b)\n```\nDone.", kSums)
          .outcome,
      Outcome::kCorrect);
  const Verdict one = Judge("print(3)", kSums);
  EXPECT_EQ(one.outcome, Outcome::kWrong);
  EXPECT_EQ(one.given, "1 of 2 tests: 3 instead of 7");
  EXPECT_THAT(Judge("raise ValueError('no')", kSums).given,
              StartsWith("0 of 2 tests: exit code 1"));
  EXPECT_EQ(Judge("print(", kSums).given,
            "0 of 2 tests: exit code 1 SyntaxError: '(' was never closed (main.py, line 1)");
  EXPECT_EQ(Judge("", kSums).given, "0 of 2 tests: nothing instead of 3");
}

TEST_F(CodeTest, CallsPassOrFail) {
  EXPECT_EQ(Judge(kAdd, kCalls).outcome, Outcome::kCorrect);
  EXPECT_EQ(Judge("class Solution:\n  def add(self, a, b): return a + b", kCalls).outcome,
            Outcome::kCorrect);
  EXPECT_EQ(Judge("def add(a, b): return 3", kCalls).given, "1 of 2 tests: 3 instead of 0.3");
  EXPECT_THAT(Judge("def add(a, b): return a / 0", kCalls).given, HasSubstr("ZeroDivisionError"));
  EXPECT_EQ(Judge("def sub(a, b): return a", kCalls).given,
            "0 of 2 tests: exit code 1 KeyError: 'add'");
  EXPECT_EQ(Judge("def add(a, b): return x\nx", kCalls).given,
            "0 of 2 tests: exit code 1 NameError: name 'x' is not defined");
  EXPECT_EQ(Judge("def add(a, b): return float('nan')", kCalls).outcome, Outcome::kWrong);
  EXPECT_EQ(Judge("def f(a, b): return [a, {'k': b}]",
                  R"({"fn_name": "f", "inputs": ["1\n\"x\""], "outputs": ["[1, {\"k\": \"x\"}]"]})")
                .outcome,
            Outcome::kCorrect);
}

TEST_F(CodeTest, AssertsPassOrFail) {
  EXPECT_EQ(Judge(kAdd, kAsserts).outcome, Outcome::kCorrect);
  EXPECT_THAT(Judge("def add(a, b): return 3", kAsserts).given,
              StartsWith("1 of 2 tests: exit code 1"));
  EXPECT_EQ(
      Judge(kAdd, R"({"test": "def check(f):\n  assert f(1, 1) == 2\n", "entry_point": "add"})")
          .outcome,
      Outcome::kCorrect);
}

TEST_F(CodeTest, AssertsSeeValuesOfPython) {
  const auto passes = [&](std::string_view response, const std::string& text) {
    return Judge(response, json{{"test_list", {text}}}.dump()).outcome == Outcome::kCorrect;
  };
  constexpr std::string_view kEcho = "def f(x): return x";
  for (const std::string value : {"(1, 2)", "{1, 2}", "{1: (2, [3])}", "b'x'", "2j", "None",
                                  "'\\n'", "range(3)", "10 ** 30", "float('inf')"})
    EXPECT_TRUE(passes(kEcho, "assert f(" + value + ") == " + value)) << value;
  EXPECT_FALSE(passes(kEcho, "assert f((1, 2)) == [1, 2]"));
  EXPECT_FALSE(passes(kEcho, "assert f(True) == 1"));
  EXPECT_TRUE(passes(kEcho, "assert f([0.1 + 0.2, 1]) == [0.3, 1.0] and not f(1) == 2"));
  EXPECT_FALSE(passes(kEcho, "assert f(0.3001) == 0.3"));
  EXPECT_TRUE(passes("def f(n):\n  for i in range(n): yield i\n  raise ValueError('end')",
                     "try:\n  assert False, list(f(3))\nexcept ValueError as e:\n"
                     "  assert str(e) == 'end'"));
  EXPECT_TRUE(passes("def sum(a, b): return 6", "assert sum(10, 15) == 6"));
}

TEST_F(CodeTest, AssertsUseObjectsOfTheResponse) {
  const json setup{{"test_list", {"assert total(root) == 3"}},
                   {"test_setup_code", "root = Node(1)\nroot.next = Node(2)"},
                   {"test_imports", {"import math"}}};
  EXPECT_EQ(Judge("class Node:\n  def __init__(self, v): self.v, self.next = v, None\n"
                  "def total(n): return n.v + total(n.next) if n else 0",
                  setup.dump())
                .given,
            "1 of 1 tests");
  const json check{{"prompt", "def encode(s):\n  return s[::-1]\ndef decode(s):\n  pass\n"},
                   {"test", "def check(f):\n  assert f(encode('ab')) == 'ab'\n"},
                   {"entry_point", "decode"}};
  EXPECT_EQ(Judge("def decode(s): return s[::-1]", check.dump()).given, "1 of 1 tests");
  const Verdict unusable =
      Judge("def f(g): return g(1)", R"({"test_list": ["assert f(lambda x: x) == 1"]})");
  EXPECT_EQ(unusable.outcome, Outcome::kUnscorable);
  EXPECT_THAT(unusable.unscorable_reason, HasSubstr("gives a function to the response"));
  EXPECT_EQ(Judge(kAdd, R"({"test_list": ["assert ("]})").outcome, Outcome::kUnscorable);
}

TEST_F(CodeTest, EachTestHasAProcessOfItsOwn) {
  EXPECT_EQ(
      Judge("seen = []\ndef add(a, b):\n  seen.append(a)\n  return a + b + len(seen) - 1", kCalls)
          .outcome,
      Outcome::kCorrect);
  EXPECT_EQ(Judge("import sys, threading\n"
                  "def run(): print(sum(map(int, open(0).read().split())))\n"
                  "threading.Thread(target=run).start()\nsys.exit(1)",
                  kSums)
                .given,
            "2 of 2 tests");
  EXPECT_EQ(Judge("def f(x: List[int]) -> Optional[int]: return Counter(x).most_common(1)[0][0]",
                  R"({"fn_name": "f", "inputs": [[[1, 2, 2]]], "outputs": [2]})")
                .outcome,
            Outcome::kCorrect);
}

TEST_F(CodeTest, TimeInTheProgramIsTheProgramsAndTimeOfTheCompilerIsNot) {
  config_.code.wall_ms = 1000;
  Use(config_);
  EXPECT_EQ(Judge("import time\ntime.sleep(1000)", kSums).given, "0 of 2 tests: time");
  config_.code.wall_ms = 60000;
  config_.code.cpu_seconds = 1;
  Use(config_);
  EXPECT_EQ(Judge("while True: print('x' * 1000)", kSums).given, "0 of 2 tests: too much output");
  EXPECT_THAT(Judge("while True: pass", kSums).given,
              EndsWith("time"));  // of the CPU, unless other programs take it
  config_.code.cpu_seconds = 30;
  config_.timeout_ms = 1000;
  Use(config_);
  EXPECT_EQ(Judge("import time\ntime.sleep(1000)", kSums).given, "0 of 2 tests: time");
  config_.timeout_ms = 8000;  // of both tests together
  Use(config_);
  const Verdict slow = Judge("import time\nprint(3)\ntime.sleep(5)", kSums);
  EXPECT_EQ(slow.outcome, Outcome::kWrong);
  EXPECT_THAT(slow.given, HasSubstr("1 of 2 tests: "));
}

TEST_F(CodeTest, FilesAndOutputAreBounded) {
  const std::string writes =
      "import sys\nopen('/tmp/x', 'wb').write(b'x' * (2 << 20))\nprint('x' * 2000)";
  const std::string tests = json{{{"input", ""}, {"output", std::string(2000, 'x')}}}.dump();
  EXPECT_EQ(Judge(writes, tests).outcome, Outcome::kCorrect);
  config_.code.output_kb = 1;
  Use(config_);
  EXPECT_EQ(Judge(writes, tests).given, "0 of 1 tests: too much output");
  config_.code.disk_mb = 1;
  Use(config_);
  EXPECT_THAT(Judge(writes, tests).given, StartsWith("0 of 1 tests: exit code 1"));
}

TEST_F(CodeTest, ProcessesAreBoundedAndNumbersComparedAsTheSettingsSay) {
  const std::string forks =
      "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        time.sleep(1)\n"
      "        os._exit(0)\nprint(3.2)";
  const std::string tests = R"([{"input": "", "output": "3.0"}])";
  config_.code.tolerance = 0.5;
  Use(config_);
  EXPECT_EQ(Judge(forks, tests).given, "1 of 1 tests");
  config_.code.processes = 8;
  Use(config_);
  EXPECT_THAT(Judge(forks, tests).given, StartsWith("0 of 1 tests: exit code 1"));
}

// A program with 40 quick tests, four at a time on one CPU.
TEST_F(CodeTest, NeitherABusyMachineNorTheStartOfAnInterpreterIsTimeOfTheProgram) {
  config_.timeout_ms = 500;  // of all tests together
  Use(config_);
  json tests = json::array();
  for (int i = 0; i < 40; ++i)
    tests.push_back({{"input", std::to_string(i)}, {"output", std::to_string(i)}});
  const OneCpu one_cpu;
  std::vector<Verdict> verdicts(4);
  std::vector<std::jthread> threads;
  for (Verdict& verdict : verdicts)
    threads.emplace_back([&] { verdict = Judge("print(input())", tests.dump()); });
  threads.clear();
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.given, "40 of 40 tests");
}

// Both take a compiler minutes or gigabytes.
TEST_F(CodeTest, SourcesThatBlowUpTheCompilerAreWrong) {
  config_.code.language = CodeLanguage::kCpp;
  config_.code.compile_ms = 3000;
  config_.timeout_ms = 60000;
  Use(config_);
  const std::string_view bombs[] = {
      "template <int N> struct A { A<N - 1> a; A<N - 2> b; }; template <int N, int M> struct B { "
      "typename B<N - 1, 2 * M>::T t; typename B<N - 1, 2 * M + 1>::T u; using T = int; }; "
      "template <int M> struct B<0, M> { using T = int; }; int main() { B<24, 0> b; }",
      "#include __FILE__\n#include __FILE__\nint main() {}"};
  for (const std::string_view bomb : bombs) {
    const Verdict verdict = Judge(bomb, kSums);
    EXPECT_EQ(verdict.outcome, Outcome::kWrong) << verdict.unscorable_reason;
    EXPECT_THAT(verdict.given, HasSubstr("does not compile"));
  }
}

TEST_F(CodeTest, CppCompilesAndRuns) {
  config_.code.language = CodeLanguage::kCpp;
  Use(config_);
  EXPECT_EQ(Judge("```cpp\n#include <cstdio>\nint main() { int a, b; std::scanf(\"%d %d\", &a, "
                  "&b); std::printf(\"%d\", a + b); }\n```",
                  kSums)
                .outcome,
            Outcome::kCorrect);
  EXPECT_EQ(Judge("int main() { return *static_cast<int*>(nullptr); }", kSums).outcome,
            Outcome::kWrong);
  EXPECT_THAT(Judge("int main() {", kSums).given, HasSubstr("does not compile"));
  EXPECT_THAT(Judge("#include \"/etc/passwd\"\nint main() {}", kSums).given,
              HasSubstr("No such file"));
  EXPECT_EQ(Judge("int main() {}", kCalls).outcome, Outcome::kUnscorable);
}

TEST(ParseCodeTests, RefusesMalformedTests) {
  for (const std::string_view answer :
       {"", "42", "[]", "{}", "[1]", R"([{"input": "1"}])", R"({"inputs": ["1"], "outputs": []})",
        R"({"inputs": [1], "outputs": [2]})", R"({"fn_name": 3, "inputs": [[1]], "outputs": [2]})",
        R"({"fn_name": "f", "inputs": ["{"], "outputs": ["1"]})", R"({"test_list": [1]})",
        R"({"test": "x"})"}) {
    EXPECT_EQ(ParseCodeTests(answer).status().code(), StatusCode::kInvalidArgument) << answer;
  }
}

TEST_F(CodeTest, ReadsTheRowsOfDataSets) {
  constexpr std::string_view kSquare = "def f(a): return a * a";
  const json apps{{"fn_name", "f"}, {"inputs", {{2}, {3}}}, {"outputs", {{4}, {9}}}};
  EXPECT_EQ(Judge(kSquare, apps.dump()).given, "2 of 2 tests");
  EXPECT_EQ(Judge("def f(a): return [a * a]", apps.dump()).given, "2 of 2 tests");
  EXPECT_EQ(Judge("def f(a): return 4", apps.dump()).given, "1 of 2 tests: 4 instead of 9");
  const json test{{"input", "[1, 2]\n\"x\""}, {"output", "[\"x\", 2]"}, {"testtype", "functional"}};
  constexpr std::string_view kMethod =
      "class Solution:\n  def g(self, a: List[int], s: str): return (s, a[1])";
  json functional{{"public_test_cases", json{test}.dump()}, {"metadata", R"({"func_name": "g"})"}};
  EXPECT_EQ(Judge(kMethod, functional.dump()).given, "1 of 1 tests");
  json each = test;
  each["metadata"] = {{"func_name", "g"}};
  EXPECT_EQ(Judge(kMethod, json::array({each}).dump()).given, "1 of 1 tests");
  const json stdio{{"public_test_cases", {{{"input", "2"}, {"output", "4.0"}}}},
                   {"metadata", "{}"}};
  EXPECT_EQ(Judge("print(int(input()) ** 2)", stdio.dump()).given, "1 of 1 tests");
}

TEST_F(CodeTest, TheLastFenceThatDefinesWhatIsCalledIsTheProgram) {
  const std::string example = std::string(kAdd) + "\nUse:\n```python\nprint(add(1, 2) / 0)\n```\n";
  EXPECT_EQ(Judge(example, kCalls).given, "2 of 2 tests");
  EXPECT_EQ(Judge(example, kAsserts).given, "2 of 2 tests");
  EXPECT_EQ(Judge("```python\nprint(0)\n```\n```python\nprint(sum(map(int, input().split())))\n```",
                  kSums)
                .given,
            "2 of 2 tests");
}

TEST(CodeTests, OutputsAndValuesCompare) {
  constexpr double kTolerance = 1e-6;
  const auto output = [](const char* a, const char* b) { return SameOutput(a, b, kTolerance); };
  EXPECT_TRUE(output(" 1  2\n3", "1 2 3\n\n"));
  EXPECT_TRUE(output("", "\n"));
  EXPECT_FALSE(output("12", "1 2"));
  EXPECT_FALSE(output("1 2", "1 2 3"));
  EXPECT_FALSE(output("1 2 3", "1 2"));
  EXPECT_TRUE(output("0.30000000000000004", "0.3"));
  EXPECT_TRUE(output("3", "3.0") && output("3.0", "3") && output("1000000.5", "1000001.2"));
  EXPECT_FALSE(output("3.0000001", "3") || output("0.30001", "0.3"));
  EXPECT_FALSE(output("9007199254740993", "9007199254740992") || output("01", "1"));
  const auto value = [](const json& a, const json& b) { return SameValue(a, b, kTolerance); };
  EXPECT_TRUE(value(0.1 + 0.2, 0.3));
  EXPECT_TRUE(value(3.0, 3) && value(3, 3.0) && value(1e-12, 0.0));
  EXPECT_FALSE(value(9007199254740993, 9007199254740992));
  EXPECT_FALSE(value("3", 3) || value(true, 1) || value(1, true) || value(nullptr, 0));
  EXPECT_TRUE(value(json::parse(R"({"a": [1, 2.0]})"), json::parse(R"({"a": [1, 2]})")));
  EXPECT_FALSE(value(json::parse(R"({"a": 1, "b": 2})"), json::parse(R"({"a": 1, "c": 2})")));
  EXPECT_FALSE(SameOutput("0.30000000000000004", "0.3", 0));
}

}  // namespace
}  // namespace buttress
