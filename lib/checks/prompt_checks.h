// Checks of the datasets of run.data: those that are trained on, and run.data.held_out.
#pragma once

#include <cstddef>
#include <string>

#include "lib/checks/findings.h"
#include "lib/checks/model_checks.h"
#include "lib/config/sources.h"

namespace buttress {

// Checks the first `rows` rows of each file: fields, prompts that are too long or that the model
// has no positions for, answers that are empty. If one of them is bad, checks all rows and writes
// the bad ones to files in the run folder `out` (row_faults.h), unless it is empty.
void CheckPrompts(const RunSettings& run, const ModelFacts& model, std::size_t rows,
                  const std::string& out, Findings& findings);

// Returns "; the rows have the fields a, b; did you mean 'a'? ..." if the first row of the JSONL
// file lacks the prompt_field or the answer_field; empty if it does not, or is no object.
std::string FieldAdvice(const PromptDataset& dataset);

}  // namespace buttress
