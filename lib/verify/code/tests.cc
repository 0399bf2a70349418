#include "lib/verify/code/tests.h"

#include <fmt/core.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxTests = 1000;
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

// Returns a text, or the text of a list of lines.
std::optional<std::string> TextOf(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return std::nullopt;
  std::string text;
  for (const json& line : value) {
    if (!line.is_string()) return std::nullopt;
    text += line.get_ref<const std::string&>() + "\n";
  }
  return text;
}

// Parses one JSON value per line and skips empty lines.
Result<json> ValuesOfLines(const std::string& text) {
  json values = json::array();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trim(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) continue;
    BUTTRESS_ASSIGN_OR_RETURN(json value, ParseBoundedJson(line));
    values.push_back(std::move(value));
  }
  return values;
}

Status AddProgram(const json& input, const json& output, CodeTests& tests) {
  std::optional<std::string> in = TextOf(input);
  std::optional<std::string> out = TextOf(output);
  if (!in || !out)
    return InvalidArgument("input or output of a test is neither a text nor a list of lines");
  tests.programs.push_back({*std::move(in), *std::move(out)});
  return OkStatus();
}

Status AddCall(const json& input, const json& output, CodeTests& tests) {
  if (input.is_array()) {
    tests.calls.push_back({input, output});
    return OkStatus();
  }
  if (!input.is_string() || !output.is_string())
    return InvalidArgument(
        "input of a call is neither a list of arguments nor a text of JSON lines");
  BUTTRESS_ASSIGN_OR_RETURN(json arguments, ValuesOfLines(input.get_ref<const std::string&>()));
  BUTTRESS_ASSIGN_OR_RETURN(json value, ParseBoundedJson(output.get_ref<const std::string&>()));
  tests.calls.push_back({std::move(arguments), std::move(value)});
  return OkStatus();
}

// Returns the value, or that of the JSON in a text.
Result<json> Unpacked(const json& value) {
  if (!value.is_string()) return value;
  return ParseBoundedJson(value.get_ref<const std::string&>(), kMaxReferenceBytes);
}

// Returns the function that LiveCodeBench's "metadata" of a row or a test names; empty if it names
// none.
Result<std::string> FunctionOf(const json& holder) {
  if (!holder.contains("metadata") || holder["metadata"].is_null()) return std::string();
  BUTTRESS_ASSIGN_OR_RETURN(const json metadata, Unpacked(holder["metadata"]));
  for (const char* name : {"func_name", "fn_name"}) {
    if (metadata.is_object() && metadata.contains(name) && metadata[name].is_string())
      return metadata[name].get<std::string>();
  }
  return std::string();
}

// Reads tests that call `function` or, if it is empty, what their own metadata name.
Status ReadPairs(const json& list, std::string function, CodeTests& tests) {
  if (!list.is_array()) return InvalidArgument("the tests are no list");
  if (function.empty() && !list.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(function, FunctionOf(list.front()));
  }
  tests.function = std::move(function);
  for (const json& test : list) {
    if (!test.is_object() || !test.contains("input") || !test.contains("output"))
      return InvalidArgument("a test without 'input' and 'output'");
    BUTTRESS_RETURN_IF_ERROR(
        (tests.function.empty() ? AddProgram : AddCall)(test["input"], test["output"], tests));
  }
  return OkStatus();
}

// APPS has values in lists of one.
void Unwrap(std::vector<CallTest>& calls) {
  const auto is_wrapped = [](const CallTest& call) {
    return call.value.is_array() && call.value.size() == 1;
  };
  if (!std::all_of(calls.begin(), calls.end(), is_wrapped)) return;
  for (CallTest& call : calls) call.wrapped = true;
}

Status ReadColumns(const json& row, CodeTests& tests) {
  if (!row.contains("outputs") || !row["inputs"].is_array() || !row["outputs"].is_array() ||
      row["inputs"].size() != row["outputs"].size())
    return InvalidArgument("'inputs' and 'outputs' are not two lists of one length");
  const bool calls = row.contains("fn_name") && !row["fn_name"].is_null();
  if (calls && !row["fn_name"].is_string()) return InvalidArgument("'fn_name' is not a text");
  if (calls) tests.function = row["fn_name"].get<std::string>();
  for (std::size_t i = 0; i < row["inputs"].size(); ++i)
    BUTTRESS_RETURN_IF_ERROR(
        (calls ? AddCall : AddProgram)(row["inputs"][i], row["outputs"][i], tests));
  Unwrap(tests.calls);
  return OkStatus();
}

Status ReadAsserts(const json& list, CodeTests& tests) {
  if (!list.is_array()) return InvalidArgument("the asserts are no list");
  for (const json& line : list) {
    if (!line.is_string()) return InvalidArgument("an assert is not a text");
    tests.asserts.push_back(line.get<std::string>());
  }
  return OkStatus();
}

bool HasText(const json& row, const char* name) {
  return row.contains(name) && row[name].is_string();
}

Status ReadObject(const json& row, CodeTests& tests) {
  if (row.contains("inputs")) return ReadColumns(row, tests);
  if (row.contains("public_test_cases")) {
    BUTTRESS_ASSIGN_OR_RETURN(const json list, Unpacked(row["public_test_cases"]));
    BUTTRESS_ASSIGN_OR_RETURN(std::string function, FunctionOf(row));
    return ReadPairs(list, std::move(function), tests);
  }
  if (HasText(row, "test_setup_code")) tests.setup = row["test_setup_code"].get<std::string>();
  if (row.contains("test_imports")) {
    const std::optional<std::string> imports = TextOf(row["test_imports"]);
    if (!imports) return InvalidArgument("'test_imports' is neither a text nor a list of lines");
    tests.setup = *imports + "\n" + tests.setup;
  }
  if (row.contains("test_list")) return ReadAsserts(row["test_list"], tests);
  if (row.contains("asserts")) return ReadAsserts(row["asserts"], tests);
  if (!HasText(row, "test") || !HasText(row, "entry_point"))
    return InvalidArgument(
        "none of 'inputs', 'public_test_cases', 'test_list', 'asserts', and 'test' with "
        "'entry_point'");
  tests.entry = row["entry_point"].get<std::string>();
  tests.asserts.push_back(row["test"].get<std::string>() + "\ncheck(" + tests.entry + ")\n");
  if (HasText(row, "prompt")) tests.before = row["prompt"].get<std::string>();
  return OkStatus();
}

bool SameNumber(double given, double expected, double tolerance) {
  return given == expected ||
         std::abs(given - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

// Returns a word that JSON reads as a number.
std::optional<json> NumberOf(std::string_view word) {
  Result<json> value = ParseBoundedJson(word);
  if (!value.ok() || !value->is_number()) return std::nullopt;
  return *std::move(value);
}

bool SameWord(std::string_view given, std::string_view expected, double tolerance) {
  if (given == expected) return true;
  const std::optional<json> a = NumberOf(given);
  const std::optional<json> b = NumberOf(expected);
  return a && b && SameValue(*a, *b, tolerance);
}

}  // namespace

Result<CodeTests> ParseCodeTests(std::string_view answer) {
  BUTTRESS_ASSIGN_OR_RETURN(const json row, ParseBoundedJson(Trim(answer), kMaxReferenceBytes));
  CodeTests tests;
  BUTTRESS_RETURN_IF_ERROR(row.is_array() ? ReadPairs(row, "", tests)
                           : row.is_object()
                               ? ReadObject(row, tests)
                               : InvalidArgument("neither a list nor an object of tests"));
  if (tests.size() > 0 && tests.size() <= kMaxTests) return tests;
  return InvalidArgument(fmt::format("{} tests; expected 1 to {}", tests.size(), kMaxTests));
}

std::set<std::string> CalledNames(const CodeTests& tests) {
  std::set<std::string> names;
  if (!tests.function.empty()) names.insert(tests.function);
  if (!tests.entry.empty()) names.insert(tests.entry);
  if (!names.empty()) return names;
  static const RE2 call(R"((?:^|[^\w.])([A-Za-z_]\w*)\s*\()");
  for (const std::string& text : tests.asserts) {
    re2::StringPiece rest(text);
    std::string name;
    while (RE2::FindAndConsume(&rest, call, &name)) names.insert(name);
  }
  return names;
}

bool SameOutput(std::string_view given, std::string_view expected, double tolerance) {
  while (true) {
    given.remove_prefix(std::min(given.find_first_not_of(kWhiteSpace), given.size()));
    expected.remove_prefix(std::min(expected.find_first_not_of(kWhiteSpace), expected.size()));
    const std::string_view a = given.substr(0, given.find_first_of(kWhiteSpace));
    const std::string_view b = expected.substr(0, expected.find_first_of(kWhiteSpace));
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    if (!SameWord(a, b, tolerance)) return false;
    given.remove_prefix(a.size());
    expected.remove_prefix(b.size());
  }
}

bool SameValue(const json& given, const json& expected, double tolerance) {
  const auto same = [tolerance](const json& a, const json& b) {
    return SameValue(a, b, tolerance);
  };
  if (given.is_number_float() && expected.is_number_integer())
    return given.get<double>() == expected.get<double>();
  if (given.is_number() && expected.is_number_float())
    return SameNumber(given.get<double>(), expected.get<double>(), tolerance);
  if (given.is_array() && expected.is_array())
    return given.size() == expected.size() &&
           std::equal(given.begin(), given.end(), expected.begin(), same);
  if (!given.is_object() || !expected.is_object()) return given == expected;
  if (given.size() != expected.size()) return false;
  for (const auto& field : given.items()) {
    const auto found = expected.find(field.key());
    if (found == expected.end() || !same(field.value(), *found)) return false;
  }
  return true;
}

}  // namespace buttress
