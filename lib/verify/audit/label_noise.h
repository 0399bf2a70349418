// Rates at which a verifier contradicts labels, and how that changes the Advantage Collapse Rate
// that is measured with it.
#pragma once

#include <cstdint>
#include <vector>

namespace buttress {

// An error rate with its WilsonInterval, which keeps its level at rates near 0. Without trials the
// rate is 0 and the interval [0, 1].
struct ErrorRate {
  std::int64_t errors = 0;
  std::int64_t trials = 0;

  double rate() const {
    return trials == 0 ? 0 : static_cast<double>(errors) / static_cast<double>(trials);
  }

  double low() const;
  double high() const;
};

// The true outcomes of a group of completions.
struct LabelledGroup {
  int correct = 0;
  int wrong = 0;
};

// Returns the expected share of groups whose verdicts are all equal, if a wrong completion is
// judged correct with probability fp = `false_positive` and a correct one wrong with probability
// fn = `false_negative`, independently. For a group of c correct and w wrong completions this is
//
//   (1 - fn)^c fp^w + fn^c (1 - fp)^w
//
// averaged over the groups. At fp = fn = 0 it is the true ACR. Returns 0 for no groups.
double ExpectedAcr(const std::vector<LabelledGroup>& groups, double false_positive,
                   double false_negative);

struct AcrRange {
  double low = 0;
  double high = 0;
};

// Returns the range of ExpectedAcr over both intervals, evaluated on a grid.
AcrRange ExpectedAcrRange(const std::vector<LabelledGroup>& groups, const ErrorRate& false_positive,
                          const ErrorRate& false_negative);

}  // namespace buttress
