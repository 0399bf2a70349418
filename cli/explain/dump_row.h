// One row of a trainer's dump as facts of a completion, or of a whole group.
//
// dialect  who writes it                                        a row is a completion with
// verl     trainer.rollout_data_dir, <step>.jsonl               input, output, score, gts, step;
// acc, uid and others where the reward gives them trl      log_completions, after parquet was made
// JSONL        step, prompt, completion, advantage, a column for each reward function plain anyone
// see kPlain in dump_row.cc; only prompt (or id) and reward must be there groups   the input of
// `buttress advantages`, with "step"      "rewards": a row is a whole group
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/explain/step_source.h"
#include "lib/base/status.h"
#include "lib/explain/facts.h"
#include "lib/verify/verifier.h"

namespace buttress {

// The names of a dialect's fields; empty where it has none.
struct Dialect {
  std::string_view name;
  std::string_view prompt, text, reward, raw_reward, outcome, truth, group, source;
  std::string_view tokens, finish_reason, logprob, version, sampler;
};

// By the fields of the first row. kInvalidArgument says what it looked for.
Result<const Dialect*> FindDialect(const nlohmann::json& row);

struct DumpRow {
  std::optional<std::int64_t> step;
  std::uint64_t group = 0;  // rows of a step with the same one are a group
  bool whole_group = false;
  GroupFacts facts;  // one completion, or all of a whole group; step and where are the caller's
};

// Reads rows of one dialect. Not thread-safe.
class RowReader {
 public:
  static Result<RowReader> Make(const Dialect& dialect, const StepSourceOptions& options);

  // kInvalidArgument: "score = \"high\"; expected a number or null".
  Result<DumpRow> Read(const nlohmann::json& row);

  // The columns that make TRL's reward, as far as rows have shown them.
  const std::vector<std::string>& reward_columns() const { return reward_columns_; }

  const Dialect& dialect() const { return *dialect_; }

 private:
  RowReader(const Dialect& dialect, const StepSourceOptions& options,
            std::unique_ptr<Verifier> second);

  Status ReadColumns(const nlohmann::json& row, CompletionFacts& completion);
  Status ReadReward(const nlohmann::json& row, CompletionFacts& completion);
  Status ReadOutcome(const nlohmann::json& row, CompletionFacts& completion) const;
  Status ReadLengths(const nlohmann::json& row, CompletionFacts& completion) const;
  void ReadTruth(const std::string& text, const std::string& truth,
                 CompletionFacts& completion) const;
  Result<DumpRow> ReadGroup(const nlohmann::json& row) const;

  const Dialect* dialect_;
  StepSourceOptions options_;
  std::unique_ptr<Verifier> second_;  // lib/verify's mathematics, beside the trainer's own
  std::vector<std::string> reward_columns_;
};

// JSON, also with the NaN and Infinity that Python writes, as null. Discarded if it is none.
nlohmann::json ParseLine(std::string_view line);

}  // namespace buttress
