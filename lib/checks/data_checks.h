// Checks of the datasets of run.data, and of run.reward on their rows.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lib/checks/findings.h"
#include "lib/checks/model_checks.h"
#include "lib/config/sources.h"
#include "lib/verify/verifier.h"

namespace buttress {

// Checks the first `rows` rows of each file that is trained on and of run.data.held_out: fields,
// prompts that are too long or that the model has no positions for, answers that are empty. If one
// of them is bad, checks all rows and writes the bad ones to files in the run folder `out`
// (row_faults.h), unless it is empty. Of all rows, warns of repeated and of few prompts, and of
// held-out prompts that are trained on (prompt_repeats.h).
void CheckPrompts(const RunSettings& run, const ModelFacts& model, std::size_t rows,
                  const std::string& out, Findings& findings);

// Returns "; the rows have the fields a, b; did you mean 'a'? ..." if the first row of the JSONL
// file lacks the prompt_field or the answer_field; empty if it does not, or is no object.
std::string FieldAdvice(const PromptDataset& dataset);

inline constexpr std::size_t kTriedRows = 3;

// A training row, and how its reference answer and a wrong one are judged as responses.
struct TriedRow {
  std::string id;
  std::string source;
  std::string prompt;  // as the model sees it
  std::string answer;
  Verdict gold;
  Verdict wrong;
  std::vector<std::string> responses = {};  // of the row, where they are read
  std::vector<Verdict> given = {};          // one for each of them
};

// Returns the responses that a row has, which is JSON with the prompt as its field "prompt".
using ResponseReader = std::function<Result<std::vector<std::string>>(const std::string& row)>;

// The response that counts as wrong in TriedRow::wrong.
inline constexpr const char* kWrongResponse = "I do not know.";

// Makes the verifiers and judges the first kTriedRows rows of each dataset, and what `read` returns
// of them, unless it is null, as one group. Starts Python where a reward does. kInvalidArgument for
// prompts or verifiers that cannot be used; errors of `read`.
Result<std::vector<TriedRow>> TryRows(const RunSettings& run, const Tokenizer& tokenizer,
                                      const ResponseReader& read = nullptr);

// The verifiers of run.reward can be made: what they name is there, and functions in Python can be
// imported. Needs no prompts.
void CheckVerifiers(const RunSettings& run, Findings& findings);

// An error if none of these rows could be scored.
void CheckReward(const RunSettings& run, const Tokenizer& tokenizer, Findings& findings);

}  // namespace buttress
