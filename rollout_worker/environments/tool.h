// The tools that a policy can have (run.env.tools). Each takes one text.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

struct ToolResult {
  std::string text;     // for the policy; UTF-8
  bool failed = false;  // `text` says why
};

// Runs a tool, which takes `deadline_ms` at most. What is wrong with the argument is a result; an
// error is of the machine. Thread-safe.
using ToolFunction =
    std::function<Result<ToolResult>(const std::string& argument, std::int64_t deadline_ms)>;

// Checks what the run gives the tool, such as the file that is searched.
using MakeToolFunction = Result<ToolFunction>(const RunSettings& run);

// The exact value of an expression: a whole number, a terminating decimal, or a fraction; of what
// is not rational (sqrt(2), sin(1)) 15 digits. log is natural.
MakeToolFunction MakeCalculator;

// What a program prints, in the sandbox and with the limits of run.reward.code.
MakeToolFunction MakePythonTool;

// The three paragraphs of run.env.search_file, which blank lines separate, that BM25 (Robertson and
// Zaragoza 2009, "The Probabilistic Relevance Framework") puts first.
MakeToolFunction MakeSearch;

struct ToolRow {
  std::string_view name;
  std::string_view description;
  std::string_view parameter;  // name of the argument, and what it is
  std::string_view meaning;
  MakeToolFunction* make;
};

std::span<const ToolRow> ToolRows();

// Returns the description of a tool in the form of OpenAI's chat completions.
nlohmann::ordered_json DescriptionOf(const ToolRow& row);

}  // namespace buttress
