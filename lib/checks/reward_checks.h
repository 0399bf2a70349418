// Tries run.reward on rows of the training prompts.
#pragma once

#include <string>
#include <vector>

#include "lib/checks/findings.h"
#include "lib/config/run_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/verify/verifier.h"

namespace buttress {

inline constexpr std::size_t kTriedRows = 3;

// A training row, and how its reference answer and a wrong one are judged as responses.
struct TriedRow {
  std::string id;
  std::string source;
  std::string prompt;  // as the model sees it
  std::string answer;
  Verdict gold;
  Verdict wrong;
};

// The response that counts as wrong in TriedRow::wrong.
inline constexpr const char* kWrongResponse = "I do not know.";

// Makes the verifiers and judges the first kTriedRows rows of each dataset. Starts Python where a
// reward does. kInvalidArgument for prompts or verifiers that cannot be used.
Result<std::vector<TriedRow>> TryRows(const RunSettings& run, const Tokenizer& tokenizer);

// The verifiers of run.reward can be made: what they name is there. Needs no prompts.
void CheckVerifiers(const RunSettings& run, Findings& findings);

// An error if none of these rows could be scored.
void CheckReward(const RunSettings& run, const Tokenizer& tokenizer, Findings& findings);

}  // namespace buttress
