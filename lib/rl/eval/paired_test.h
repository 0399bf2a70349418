// Tests of two models on the same prompts. All functions are pure.
#pragma once

#include <span>

namespace buttress {

// The probability that chance alone makes the sum of the differences at least as far from 0 as it
// is, two-sided: with a random sign for each (Fisher's randomization test; The Design of
// Experiments, 1935, section 21). 1 without a difference. Where the differences that are not 0
// have one size, as those of right and wrong do, this is McNemar's exact test (Psychometrika 12,
// 1947), and computed as such; else it is the share of 100,000 draws, which counts the observed one
// and is the same in every call. REQUIRES: the differences are finite.
double PairedPValue(std::span<const double> differences);

}  // namespace buttress
