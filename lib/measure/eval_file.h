// <out>/eval.jsonl: one JSON object for each evaluation during the run (run.eval). The evaluator
// writes it; everything that shows a run reads it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// The held-out accuracy of a version.
struct EvalRow {
  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

  std::int64_t step = 0;
  std::uint64_t learner_epoch = 0;
  double time_unix = 0;
  double accuracy = kNotMeasured;     // correct / scorable completions
  double reward_mean = kNotMeasured;  // raw, of the scorable completions
  std::int64_t prompts = 0;
  std::int64_t completions = 0;  // of all prompts
  std::int64_t unscorable = 0;
  std::int64_t truncated = 0;  // completions cut at the token limit
  std::int64_t tokens = 0;
  double temperature = 0;
  double seconds = 0;  // generating and scoring

  // NaN without completions.
  double truncated_share() const;

  bool operator==(const EvalRow&) const = default;
};

std::string EvalsPath(const std::string& out);

// One line without its end. Numbers that are not finite become null.
std::string EvalToJson(const EvalRow& row);

// kDataLoss names the field that is missing or of another type.
Result<EvalRow> ParseEval(std::string_view line);

// Returns the evaluations of the steps in rising order. A row makes those before it of the same and
// of later steps void: the learner went back and trained them again. A file that does not exist has
// none. kDataLoss names path and line.
Result<std::vector<EvalRow>> ReadEvals(const std::string& out);

// Adds a row, durably: a crash leaves the file with the whole row or without it.
Status AddEval(const std::string& out, const EvalRow& row);

}  // namespace buttress
