#include "lib/rl/collapse/draw_control.h"

#include <algorithm>
#include <cmath>

namespace buttress {

double NextDrawFactor(const DrawControlConfig& control, const DrawControl& last, std::int64_t cap) {
  const double moved = last.factor * std::exp(control.gain * (control.mixed - last.mixed));
  return std::clamp(moved, 1.0, 1.0 + static_cast<double>(cap));
}

std::int64_t ReplaceableGroups(double factor, std::int64_t prompts) {
  return std::llround((factor - 1.0) * static_cast<double>(prompts));
}

// P - E[min(P, M)] is the sum of (P - k) P(M = k) over k < P.
double ExpectedMixed(double rate, std::int64_t prompts, std::int64_t replaced) {
  if (rate <= 0) return 0;
  if (rate >= 1) return 1;
  const auto wanted = static_cast<double>(prompts);
  const auto drawn = static_cast<double>(prompts + replaced);
  double missing = 0;
  for (double k = 0; k < wanted; ++k) {
    const double log_probability = std::lgamma(drawn + 1) - std::lgamma(k + 1) -
                                   std::lgamma(drawn - k + 1) + k * std::log(rate) +
                                   (drawn - k) * std::log1p(-rate);
    missing += (wanted - k) * std::exp(log_probability);
  }
  return std::clamp(1 - missing / wanted, 0.0, 1.0);
}

}  // namespace buttress
