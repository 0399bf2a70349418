// pass@k and maj@k of a prompt, estimated without bias from n >= k completions. All
// functions are pure.
#pragma once

#include <cstdint>
#include <span>

namespace buttress {

// The completions of a prompt: `correct` of `scored`.
struct Successes {
  std::int64_t correct = 0;
  std::int64_t scored = 0;
};

// The probability that one of k completions drawn without replacement is correct (arXiv
// 2107.03374),
//   1 - C(n - c, k) / C(n, k),
// computed as a product that does not overflow. REQUIRES: 0 <= correct <= scored, 1 <= k <= scored.
double PassAtK(const Successes& successes, std::int64_t k);

struct ShareInterval {
  double low = 0;
  double high = 1;
};

// Wilson's score interval (JASA 22, 1927), 95 %, of a share in [0, 1] of `trials` trials, which
// need not be whole; [0, 1] of none. Pure.
ShareInterval WilsonInterval(double share, double trials);

// A mean m over n prompts with its 95 % interval: Wilson's of the rate m in as many trials as the
// variance between prompts amounts to, n m (1 - m) / variance, since the completions of one prompt
// are not independent. For values of 0 and 1 that is their number. The interval of 0 of 30 is
// [0, 0.114], and that of no prompts [0, 1].
struct Estimate {
  double mean = 0;
  double low = 0;
  double high = 1;
  std::int64_t prompts = 0;
};

// The estimate from values in [0, 1], one per prompt.
Estimate MeanOver(std::span<const double> of_prompts);

// Completions of a prompt that gave the same answer.
struct AnswerVotes {
  std::int64_t count = 0;
  bool correct = false;
};

inline constexpr std::int64_t kMaxVotes = 1000;

// The probability that the most frequent answer among k completions drawn without replacement is
// correct; one of several equally frequent answers is chosen at random. Completions without an
// answer (`blank`) can be drawn and have no vote; k of them are wrong. The result is exact: all
// draws are counted, in O(n k^2 log k), or in O(n) for k = n, where there is one draw. verl's maj@N
// is a bootstrap with replacement. REQUIRES: counts >= 0, n = their sum + blank <= kMaxVotes
// (beyond it the counts overflow a double), 1 <= k <= n.
double MajAtK(std::span<const AnswerVotes> answers, std::int64_t blank, std::int64_t k);

}  // namespace buttress
