// pass@k, maj@k and avg@k: what k completions of a prompt are worth, estimated from n >= k of them
// without bias. All pure.
#pragma once

#include <cstdint>
#include <span>

namespace buttress {

// A prompt's completions: how many of `scored` were correct.
struct Successes {
  std::int64_t correct = 0;
  std::int64_t scored = 0;
};

// Probability that one of k completions drawn without replacement is correct (arXiv 2107.03374): 1
// - C(n - c, k) / C(n, k), as a product that does not overflow. REQUIRES: 0 <= correct <= scored, 1
// <= k <= scored.
double PassAtK(const Successes& successes, std::int64_t k);

// Mean over prompts; 0 without any. REQUIRES as above for each.
double MeanPassAtK(std::span<const Successes> prompts, std::int64_t k);

// avg@k: the expected share of correct ones among k completions is correct / scored, whatever k.
// Mean over prompts; 0 without any. REQUIRES: scored >= 1 for each.
double MeanAvgAtK(std::span<const Successes> prompts);

// A mean over prompts and its 95 % interval: normal, from the spread between prompts, since
// completions of one prompt are not independent trials. Clipped to [0, 1]; without a spread to
// measure (fewer than two prompts) it is [0, 1].
struct Estimate {
  double mean = 0;
  double low = 0;
  double high = 1;
  std::int64_t prompts = 0;
};

// Of values in [0, 1], one a prompt.
Estimate MeanOver(std::span<const double> of_prompts);

// Completions of a prompt that gave the same answer.
struct AnswerVotes {
  std::int64_t count = 0;
  bool correct = false;
};

inline constexpr std::int64_t kMaxVotes = 1000;

// Probability that the answer given most often among k completions drawn without replacement is
// correct; of answers that tie, one is drawn fairly. Completions without an answer (`blank`) take
// places and have no vote; k of them are wrong. Exact: all draws are counted, in O(n k^2 log k); k
// = n, where there is one draw, in O(n). verl's maj@N is a bootstrap with replacement instead.
// REQUIRES: counts >= 0, n = their sum + blank <= kMaxVotes (beyond it the counts overflow a
// double), 1 <= k <= n.
double MajAtK(std::span<const AnswerVotes> answers, std::int64_t blank, std::int64_t k);

}  // namespace buttress
