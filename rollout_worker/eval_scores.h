// What the completions of an evaluation come to: accuracy, pass@k, maj@k, avg@k
// (lib/rl/eval/pass_at_k.h). Torch-free.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/experience/types.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {

// Not thread-safe.
class EvalScores {
 public:
  // A scored completion of prompt `row`. An unscorable one is in no rate.
  void Add(std::int64_t row, const Completion& completion);

  // Over prompts with at least k scored completions; the others cannot say. REQUIRES: 1 <= k <=
  // kMaxVotes.
  Estimate PassAt(std::int64_t k) const;

  // Of an answer that the verifier judged both ways, the judgement given more often counts. Same
  // text, same answer; a completion from which none could be extracted has no vote.
  Estimate MajAt(std::int64_t k) const;

  // The same for every k: the share of correct completions of a prompt, over prompts with a scored
  // completion.
  Estimate Avg() const;

 private:
  struct Answer {
    std::int64_t correct = 0;
    std::int64_t wrong = 0;
  };

  struct PromptScores {
    Successes successes;
    std::int64_t blank = 0;
    std::map<std::string, Answer> answers;
  };

  std::map<std::int64_t, PromptScores> prompts_;  // by row
};

// k = 1, 2, 4, ... and n itself.
std::vector<std::int64_t> PowersUpTo(std::int64_t n);

}  // namespace buttress
