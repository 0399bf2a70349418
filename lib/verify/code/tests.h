// The tests of a program: the reference answer of verifier code, in the forms of public data sets.
//
//   programs   [{"input": "1 2\n", "output": "3\n"}, ...]
//              {"inputs": ["1 2\n", ...], "outputs": ["3\n", ...]}    (APPS, TACO, verl's
//              prime_code)
//   calls      {"fn_name": "add", "inputs": [[1, 2], ...], "outputs": [3, ...]}
//              Arguments and value of each call. An input that is a text has one JSON value per
//              line.
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

// Returns whether the texts have the same words, regardless of the white space between them.
bool SameOutput(std::string_view given, std::string_view expected);

// Returns whether the values are equal as JSON. Numbers that are not integers may differ by a
// relative 1e-9.
bool SameValue(const nlohmann::json& given, const nlohmann::json& expected);

}  // namespace buttress
