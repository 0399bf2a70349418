// The results of an evaluation: its rates over the prompts, and the file that has what was judged
// prompt by prompt, so that an evaluation continues where it ended and two can be compared.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/os/fd.h"
#include "lib/base/report/status.h"
#include "lib/experience/types.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {

// What an episode (run.env) took.
struct EvalEpisode {
  std::string end;         // lib/experience/episode_ends.h
  std::int64_t turns = 0;  // answers of the policy
  std::int64_t tool_calls = 0;
  std::int64_t failed_tool_calls = 0;  // of them, and of the calls that did not parse

  bool operator==(const EvalEpisode&) const = default;
};

struct EvalCompletion {
  Outcome outcome = Outcome::kUnscorable;
  std::string answer;  // that the verifier found in it; empty: none
  double reward = 0;   // 0 if unscorable
  std::int64_t tokens = 0;
  bool truncated = false;  // cut at max_tokens; of an episode, its last answer
  std::optional<EvalEpisode> episode = std::nullopt;  // that it is

  bool operator==(const EvalCompletion&) const = default;
};

// All completions of a prompt, in the order of their seeds.
struct EvalPrompt {
  std::int64_t row = 0;  // of the prompt file, from 0
  std::vector<EvalCompletion> completions;

  bool operator==(const EvalPrompt&) const = default;
};

// The mean over the rows that are not NaN.
Estimate MeanOfRows(std::span<const double> rows);

// Scores of an evaluation over its prompts: pass@k, maj@k, avg@k. Not thread-safe.
class EvalScores {
 public:
  // Adds a completion of prompt `row`. Rates ignore those that are neither correct nor wrong.
  void Add(std::int64_t row, const EvalCompletion& completion);

  // Return pass@k by row, up to the last row; NaN for a row with fewer than k scored completions.
  // REQUIRES: 1 <= k <= kMaxVotes.
  std::vector<double> PassByRow(std::int64_t k) const;

  // The same of maj@k. Answers are equal if their texts are; if the verdicts of an answer differ,
  // the more frequent verdict counts. A completion without an answer has no vote.
  std::vector<double> MajByRow(std::int64_t k) const;

  // Returns the share of correct completions by row; NaN for a row without a scored one.
  std::vector<double> ByRow() const;

  // The means over the rows.
  Estimate PassAt(std::int64_t k) const { return MeanOfRows(PassByRow(k)); }

  Estimate MajAt(std::int64_t k) const { return MeanOfRows(MajByRow(k)); }

  Estimate Avg() const { return MeanOfRows(ByRow()); }

 private:
  struct Answer {
    std::int64_t correct = 0;
    std::int64_t wrong = 0;
  };

  struct PromptScores {
    Successes successes;
    std::int64_t blank = 0;  // completions without an answer
    std::map<std::string, Answer> answers;
  };

  // `value` of every prompt with at least `scored` scored completions.
  template <class Value>
  std::vector<double> Rows(std::int64_t scored, const Value& value) const;

  std::map<std::int64_t, PromptScores> prompts_;  // by row
};

// Returns 1, 2, 4, ... below n, and n.
std::vector<std::int64_t> PowersUpTo(std::int64_t n);

// "45.0 % [40.1, 50.0]", of equal width for all.
std::string PercentText(const Estimate& estimate);

// Sums over episodes.
struct EpisodeTotals {
  std::int64_t episodes = 0;
  std::int64_t turns = 0;
  std::int64_t tool_calls = 0;
  std::int64_t failed_tool_calls = 0;
  std::map<std::string, std::int64_t> ends;  // episodes by why they ended

  void Add(const EvalEpisode& episode);

  // Episodes that ended at a limit of run.env and have a verdict; those out of time have none.
  std::int64_t at_limit() const;

  // The mean of a sum. REQUIRES: there are episodes.
  double Mean(std::int64_t sum) const {
    return static_cast<double>(sum) / static_cast<double>(episodes);
  }
};

struct EvalResult {
  std::int64_t prompts = 0;
  std::int64_t completions = 0;
  // Completions.
  std::int64_t correct = 0;
  std::int64_t wrong = 0;
  std::int64_t unscorable = 0;  // not in the accuracy
  std::int64_t truncated = 0;   // cut at max_tokens
  std::int64_t tokens = 0;
  double raw_reward = 0;  // sum over the scorable completions
  double seconds = 0;     // generating and scoring
  EvalScores scores;
  EpisodeTotals episodes;  // none where completions are no episodes

  void Add(const EvalPrompt& prompt);

  // Returns the share of correct among scorable completions. REQUIRES: one is scorable.
  double accuracy() const {
    return static_cast<double>(correct) / static_cast<double>(correct + wrong);
  }
};

// The content of a file of results.
struct EvalRecord {
  // Whatever decides the completions and their verdicts, by name: weights, prompts, sampling.
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  std::vector<EvalPrompt> prompts;  // in the order in which they ended
  double seconds = 0;               // generating and scoring, over all starts

  EvalResult Totals() const;
};

// Reads a file of results, whose evaluation may be at work. kInvalidArgument for another file;
// kDataLoss names a line that is damaged.
Result<EvalRecord> ReadEvalRecord(const std::string& path);

// A file of results to which an evaluation appends each prompt that ended: a line with the
// settings, then a JSON object for each prompt. What a process that was killed left of its last
// line is cut off. Not thread-safe.
class EvalFile {
 public:
  // Opens or makes the file. kInvalidArgument if it is another file, or has results of other
  // settings, which the message names; kFailedPrecondition while another process writes to it.
  static Result<std::unique_ptr<EvalFile>> Open(const std::string& path,
                                                const nlohmann::ordered_json& settings);

  // What the file had when it was opened.
  const EvalRecord& found() const { return found_; }

  // `seconds` are those of EvalRecord, as of now.
  Status Append(const EvalPrompt& prompt, double seconds);

 private:
  EvalFile(std::string path, OwnedFd fd) : path_(std::move(path)), lock_(std::move(fd)) {}

  Status Write(const nlohmann::ordered_json& line);

  const std::string path_;
  const OwnedFd lock_;
  EvalRecord found_;
};

}  // namespace buttress
