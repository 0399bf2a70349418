// The files of evaluations during the run (run.eval): <out>/eval.jsonl, one JSON object for each,
// which the evaluator writes and everything that shows a run reads; and <out>/evals, the weights
// that wait.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Means over the episodes of an evaluation (run.env).
struct EpisodeMeans {
  double turns = 0;
  double tool_calls = 0;
  double failed_tool_calls = 0;
  double at_limit = 0;  // share that ended at a limit of run.env, with a verdict

  bool operator==(const EpisodeMeans&) const = default;
};

// The held-out accuracy of a version.
struct EvalRow {
  static constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

  std::int64_t step = 0;
  std::uint64_t learner_epoch = 0;
  double time_unix = 0;
  double accuracy = kNotMeasured;         // correct / scorable completions
  double raw_reward_mean = kNotMeasured;  // of the scorable completions
  std::int64_t prompts = 0;
  std::int64_t completions = 0;  // of all prompts
  std::int64_t unscorable = 0;
  std::int64_t truncated = 0;  // completions cut at the token limit
  std::int64_t tokens = 0;
  double temperature = 0;
  double seconds = 0;                                   // generating and scoring
  std::optional<EpisodeMeans> episodes = std::nullopt;  // where completions are episodes

  // NaN without completions.
  double truncated_share() const;

  bool operator==(const EvalRow&) const = default;
};

// The accuracy of a model on held-out prompts: eval_before.json and eval_after.json of a run.
struct Accuracy {
  double accuracy = 0;  // correct / prompts
  std::int64_t prompts = 0;
  std::vector<double> by_row{};  // of each row of the prompt file; NaN without a verdict

  // "62.7 % (59.7 to 65.7)", with the 95 % interval of MeanOver.
  std::string Text() const;
};

// Reads the JSON that `rollout_worker eval --json` writes. kDataLoss if a field is missing.
Result<Accuracy> ReadAccuracy(const std::string& path);

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

// <out>/evals/newest.json: the newest row with `by_row`, so that ReadAccuracy reads it.
std::string NewestEvalPath(const std::string& out);

// Weights that wait for their evaluation: <out>/evals/v<learner epoch>.<step>, a Hugging Face
// folder. The learner puts them there and the evaluator takes them away, so that either may be
// killed at any time.
struct PendingEval {
  std::uint64_t learner_epoch = 0;
  std::int64_t step = 0;
  std::string folder;
};

// Weights that wait at most; those of a further step are left out.
inline constexpr std::size_t kMostPendingEvals = 2;

std::string PendingEvalsFolder(const std::string& out);

// Where the weights of a step wait, and where they are written before that.
std::string PendingEvalFolderOf(const std::string& out, std::uint64_t learner_epoch,
                                std::int64_t step);
std::string UnfinishedEvalFolder(const std::string& out);

// Returns the oldest first, by epoch and step. Empty if the folder cannot be read.
std::vector<PendingEval> ListPendingEvals(const std::string& out);

// Removes weights of steps after `step`, which a learner trains again, and unfinished ones.
Status RemovePendingEvalsAfter(const std::string& out, std::int64_t step);

}  // namespace buttress
