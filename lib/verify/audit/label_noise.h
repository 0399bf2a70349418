// How often a verifier contradicts labels, and what that does to the Advantage Collapse Rate that
// is measured with it.
#pragma once

#include <cstdint>
#include <vector>

namespace buttress {

// `errors` of `trials`, with the 95 % interval of Wilson (1927), "Probable inference, the law of
// succession, and statistical inference", JASA 22: it holds its level near 0, where verifiers are.
// No trials: the interval is [0, 1] and the rate 0.
struct ErrorRate {
  std::int64_t errors = 0;
  std::int64_t trials = 0;

  double rate() const {
    return trials == 0 ? 0 : static_cast<double>(errors) / static_cast<double>(trials);
  }

  double low() const;
  double high() const;
};

// A group of completions by what they truly are.
struct LabelledGroup {
  int correct = 0;
  int wrong = 0;
};

// The share of groups whose verdicts are expected to be all equal, when a wrong completion is
// judged correct with probability `false_positive` and a correct one wrong with `false_negative`,
// each for itself:
//   (1 - fn)^c fp^w + fn^c (1 - fp)^w, averaged over the groups.
// At 0, 0 this is the true ACR. 0 for no groups.
double ExpectedAcr(const std::vector<LabelledGroup>& groups, double false_positive,
                   double false_negative);

struct AcrRange {
  double low = 0;
  double high = 0;
};

// Of ExpectedAcr over both intervals, on a grid.
AcrRange ExpectedAcrRange(const std::vector<LabelledGroup>& groups, const ErrorRate& false_positive,
                          const ErrorRate& false_negative);

}  // namespace buttress
