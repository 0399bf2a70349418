// What a program is tested with: the reference answer of verifier code, as data sets have it.
//
//   [{"input": "1 2\n", "output": "3\n"}, ...]                      programs: text in, text out
//   {"inputs": ["1 2\n", ...], "outputs": ["3\n", ...]}             the same (APPS, TACO, verl's prime_code)
//   {"fn_name": "add", "inputs": [[1, 2], ...], "outputs": [3, ...]}   calls: arguments and the value; as texts, a JSON value a line
//   {"test_list": ["assert add(1, 2) == 3", ...], "test_setup_code": "..."}   asserts (MBPP); "asserts" is read too
//   {"test": "def check(candidate): ...", "entry_point": "add"}     asserts (HumanEval)
//
// Programs and calls keep the expected values outside the sandbox. Asserts run beside the response
// in one interpreter, so that a response which takes the interpreter over could pass them; take
// them only from data that has nothing else.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace buttress {

struct ProgramTest {
  std::string input;
  std::string output;
};

struct CallTest {
  nlohmann::json arguments;  // a list
  nlohmann::json value;
};

// One of the three lists is filled.
struct CodeTests {
  std::vector<ProgramTest> programs;
  std::vector<CallTest> calls;
  std::string function;  // of the calls
  std::vector<std::string> asserts;
  std::string setup;  // runs before the response where there are asserts

  std::size_t size() const { return programs.size() + calls.size() + asserts.size(); }
};

// kInvalidArgument says what is missing.
Result<CodeTests> ParseCodeTests(std::string_view answer);

// Equal word for word, whatever white space stands between.
bool SameOutput(std::string_view given, std::string_view expected);

// Equal as JSON; a number that is no integer to a relative 1e-9.
bool SameValue(const nlohmann::json& given, const nlohmann::json& expected);

}  // namespace buttress
