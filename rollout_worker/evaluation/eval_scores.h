// Scores of an evaluation over its prompts: pass@k, maj@k, avg@k. Torch-free.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/rl/eval/pass_at_k.h"
#include "lib/verify/verifier.h"

namespace buttress {

// Not thread-safe.
class EvalScores {
 public:
  // Adds the verdict of a completion of prompt `row`. Rates ignore unscorable completions.
  void Add(std::int64_t row, const Verdict& verdict);

  // Returns pass@k over the prompts with at least k scored completions. REQUIRES: 1 <= k <=
  // kMaxVotes.
  Estimate PassAt(std::int64_t k) const;

  // Returns maj@k over the prompts with at least k scored completions. Answers are equal if their
  // texts are; if the verdicts of an answer differ, the more frequent verdict counts. A completion
  // without an extracted answer has no vote. REQUIRES: 1 <= k <= kMaxVotes.
  Estimate MajAt(std::int64_t k) const;

  // Returns the share of correct completions of a prompt, averaged over the prompts with a scored
  // completion.
  Estimate Avg() const;

 private:
  struct Answer {
    std::int64_t correct = 0;
    std::int64_t wrong = 0;
  };

  struct PromptScores {
    Successes successes;
    std::int64_t blank = 0;  // completions without an extracted answer
    std::map<std::string, Answer> answers;
  };

  std::map<std::int64_t, PromptScores> prompts_;  // by row
};

// Returns 1, 2, 4, ... below n, and n.
std::vector<std::int64_t> PowersUpTo(std::int64_t n);

}  // namespace buttress
