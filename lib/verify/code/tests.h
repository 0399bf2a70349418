// The tests of a program: the reference answer of verifier code, in the forms of public data sets.
//
//   programs   [{"input": "1 2\n", "output": "3\n"}, ...]
//              {"inputs": ["1 2\n", ...], "outputs": ["3\n", ...]}    (APPS, TACO, verl's
//              prime_code)
//   calls      {"fn_name": "add", "inputs": [[1, 2], ...], "outputs": [3, ...]}    (APPS, whose
//              outputs may be lists of the one value)
//              Arguments and value of each call. An input that is a text has one JSON value per
//              line.
//   either     {"public_test_cases": [{"input": "1\n2", "output": "3"}, ...],
//              "metadata": {"func_name": "add"}}    (LiveCodeBench; both may be JSON in a text, and
//              a list of tests may have the metadata in each; without "func_name" programs)
//   asserts    {"test_list": ["assert add(1, 2) == 3", ...], "test_setup_code": "..."}    (MBPP;
//              "asserts" is a synonym of "test_list")
//              {"test": "def check(candidate): ...", "entry_point": "add"}    (HumanEval, whose
//              "prompt", if it is there as well, is code that the response continues)
//
// Expected values never enter the process of the response. For programs and calls they stay outside
// the sandbox. Asserts run in a process of their own, to which the values of the response come as
// JSON (asserts.py).
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

struct ProgramTest {
  std::string input;
  std::string output;
};

struct CallTest {
  nlohmann::json arguments;  // a list
  nlohmann::json value;
  bool wrapped = false;  // whether the only element of the value is right too
};

// Exactly one of the three lists is not empty.
struct CodeTests {
  std::vector<ProgramTest> programs;
  std::vector<CallTest> calls;
  std::string function;  // the one that the calls call
  std::vector<std::string> asserts;
  std::string setup;   // runs before each assert
  std::string entry;   // the function that the asserts are about, if it is known
  std::string before;  // runs before the response

  std::size_t size() const { return programs.size() + calls.size() + asserts.size(); }
};

// Returns kInvalidArgument with what is missing or malformed.
Result<CodeTests> ParseCodeTests(std::string_view answer);

// Returns the names that a response must define for the tests: what they call. Empty for programs.
std::set<std::string> CalledNames(const CodeTests& tests);

// Returns whether the texts have the same words, regardless of the white space between them. Words
// that are numbers compare as those of SameValue: 3 is 3.0.
bool SameOutput(std::string_view given, std::string_view expected, double tolerance);

// Returns whether the values are equal as JSON, where 3 is 3.0, and true is not 1. A number may
// differ by `tolerance` * max(1, |expected|) where the expected one is no integer.
bool SameValue(const nlohmann::json& given, const nlohmann::json& expected, double tolerance);

}  // namespace buttress
