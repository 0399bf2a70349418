// Reads one row of a trainer's dump as the facts of a completion or of a whole group.
//
// dialect  written by                           fields of a row
// verl     trainer.rollout_data_dir             input, output, score, gts, step; optional: acc,
//          (<step>.jsonl)                       uid and others that the reward function returns
// trl      log_completions (Parquet)            step, prompt, completion, advantage, and a column
//                                               for each reward function
// plain    any program                          prompt or id, and reward; optional: the other
//                                               names of kPlain in dump_row.cc
// groups   the input of `buttress advantages`   rewards and step; a row is a whole group
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/explain/dump_fields.h"
#include "cli/explain/reward_fields.h"
#include "cli/explain/step_source.h"
#include "lib/base/report/status.h"
#include "lib/data/line_reader.h"
#include "lib/explain/facts.h"
#include "lib/verify/verifier.h"

namespace buttress {

// The field names of a dialect; "" for a field that the dialect lacks.
struct Dialect {
  std::string_view name, prompt;
  std::string_view text = {}, reward = {}, raw_reward = {}, outcome = {}, truth = {}, group = {};
  std::string_view source = {}, tokens = {}, finish_reason = {}, logprob = {}, version = {};
  std::string_view sampler = {};
};

// Recognises the dialect of a file by the first of its rows that has one, among the first 20, and
// begins it again. kInvalidArgument says what the first row is instead.
Result<const Dialect*> DialectOf(LineReader& file);

struct DumpRow {
  std::optional<std::int64_t> step;
  std::uint64_t group = 0;  // rows of a step with the same value form a group
  bool whole_group = false;
  GroupFacts facts;  // one completion or a whole group; the caller sets `step` and `where`
  std::vector<Gap> gaps;
};

// Reads rows of one dialect. Not thread-safe.
class RowReader {
 public:
  static Result<RowReader> Make(const Dialect& dialect, const StepSourceOptions& options,
                                RewardRule rule);

  // kInvalidArgument names the field, its value and what is expected.
  Result<DumpRow> Read(const nlohmann::json& row);

  const RewardRule& rule() const { return rule_; }

  const Dialect& dialect() const { return *dialect_; }

 private:
  RowReader(const Dialect& dialect, const StepSourceOptions& options, RewardRule rule,
            std::unique_ptr<Verifier> second);

  Status ReadColumns(const nlohmann::json& row, CompletionFacts& completion) const;
  Status ReadReward(const nlohmann::json& row, CompletionFacts& completion) const;
  Status Decide(const nlohmann::json& row, CompletionFacts& completion) const;
  Status ReadOutcome(const nlohmann::json& row, CompletionFacts& completion) const;
  Status ReadLengths(const nlohmann::json& row, CompletionFacts& completion) const;
  void ReadTruth(const std::string& text, const std::string& truth,
                 CompletionFacts& completion) const;
  Status ReadCompletion(const nlohmann::json& row, CompletionFacts& completion) const;
  Status ReadPrompt(const nlohmann::json& row, DumpRow& read) const;
  Result<DumpRow> ReadGroup(const nlohmann::json& row) const;
  std::vector<Gap> GapsOf(const nlohmann::json& row) const;

  const Dialect* dialect_;
  StepSourceOptions options_;
  RewardRule rule_;
  std::unique_ptr<Verifier> second_;  // the math verifier, next to the trainer's own verdict
};

// Whether numbers may be texts: in CSV every field is one, and verl writes the numbers and booleans
// of numpy as such.
bool HasTextsOfNumbers(const Dialect& dialect, std::string_view path);

// Makes numbers and booleans of the texts of such a row, and nulls of empty ones, of nan and inf;
// what `dialect` calls texts stays.
void ReadNumbers(const Dialect& dialect, nlohmann::json& row);

}  // namespace buttress
