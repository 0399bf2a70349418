#include "lib/verify/code/tests.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

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

Status ReadPairs(const json& list, CodeTests& tests) {
  for (const json& test : list) {
    if (!test.is_object() || !test.contains("input") || !test.contains("output"))
      return InvalidArgument("a test without 'input' and 'output'");
    BUTTRESS_RETURN_IF_ERROR(AddProgram(test["input"], test["output"], tests));
  }
  return OkStatus();
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
        "none of 'inputs', 'test_list', 'asserts', and 'test' with 'entry_point'");
  tests.entry = row["entry_point"].get<std::string>();
  tests.asserts.push_back(row["test"].get<std::string>() + "\ncheck(" + tests.entry + ")\n");
  if (HasText(row, "prompt")) tests.before = row["prompt"].get<std::string>();
  return OkStatus();
}

bool IsInteger(const json& value) { return value.is_number_integer(); }

}  // namespace

Result<CodeTests> ParseCodeTests(std::string_view answer) {
  BUTTRESS_ASSIGN_OR_RETURN(const json row, ParseBoundedJson(Trim(answer), kMaxReferenceBytes));
  CodeTests tests;
  BUTTRESS_RETURN_IF_ERROR(row.is_array() ? ReadPairs(row, tests)
                           : row.is_object()
                               ? ReadObject(row, tests)
                               : InvalidArgument("neither a list nor an object of tests"));
  if (tests.size() > 0 && tests.size() <= kMaxTests) return tests;
  return InvalidArgument(fmt::format("{} tests; expected 1 to {}", tests.size(), kMaxTests));
}

bool SameOutput(std::string_view given, std::string_view expected) {
  while (true) {
    given.remove_prefix(std::min(given.find_first_not_of(kWhiteSpace), given.size()));
    expected.remove_prefix(std::min(expected.find_first_not_of(kWhiteSpace), expected.size()));
    const std::size_t length = std::min(given.find_first_of(kWhiteSpace), given.size());
    if (length != std::min(expected.find_first_of(kWhiteSpace), expected.size())) return false;
    if (given.substr(0, length) != expected.substr(0, length)) return false;
    if (length == 0) return true;
    given.remove_prefix(length);
    expected.remove_prefix(length);
  }
}

bool SameValue(const json& given, const json& expected) {
  if (given.is_number() && expected.is_number() && !(IsInteger(given) && IsInteger(expected))) {
    constexpr double kRelative = 1e-9;
    const double a = given.get<double>();
    const double b = expected.get<double>();
    return std::abs(a - b) <= kRelative * std::max(std::abs(a), std::abs(b));
  }
  if (given.is_array() && expected.is_array())
    return given.size() == expected.size() &&
           std::equal(given.begin(), given.end(), expected.begin(), SameValue);
  if (!given.is_object() || !expected.is_object()) return given == expected;
  const auto same = [&](const auto& field) {
    const auto found = expected.find(field.key());
    return found != expected.end() && SameValue(field.value(), *found);
  };
  if (given.size() != expected.size()) return false;
  for (const auto& field : given.items()) {
    if (!same(field)) return false;
  }
  return true;
}

}  // namespace buttress
