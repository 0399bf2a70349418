#include "learner/step/phase_timer.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "lib/base/os/clock.h"
#include "tests/unit/learner/gpu.h"

namespace buttress {
namespace {

void WaitSeconds(double seconds) {
  const double until = MonotonicSeconds() + seconds;
  while (MonotonicSeconds() < until) {
  }
}

TEST(PhaseTimerTest, OnTheCpuAPhaseIsTheTimeOfItsSpan) {
  constexpr double kPhase = 0.002;
  PhaseTimer timer(at::kCPU);
  double forward = 0, backward = 0;
  const double started = MonotonicSeconds();
  for (int i = 0; i < 2; ++i) {
    const PhaseTimer::Span span(timer, forward);
    WaitSeconds(kPhase);
  }
  {
    const PhaseTimer::Span span(timer, backward);
    WaitSeconds(kPhase);
  }
  timer.Settle();
  const double all = MonotonicSeconds() - started;
  EXPECT_GE(forward, 2 * kPhase);
  EXPECT_GE(backward, kPhase);
  EXPECT_LE(forward + backward, all);
}

class PhaseTimerGpuTest : public GpuTest {};

TEST_F(PhaseTimerGpuTest, APhaseIsTheTimeOfItsWorkAndNotOfItsLaunch) {
  const at::Tensor matrix = at::ones({4096, 4096}, Gpu());
  PhaseTimer timer(Gpu());
  double seconds = 0, dropped = 0;
  { const PhaseTimer::Span span(timer, dropped); }
  timer.Reset();
  const double started = MonotonicSeconds();
  {
    const PhaseTimer::Span span(timer, seconds);
    for (int i = 0; i < 50; ++i) at::matmul(matrix, matrix);
  }
  EXPECT_EQ(seconds, 0);
  timer.Settle();
  const double all = MonotonicSeconds() - started;
  EXPECT_EQ(dropped, 0);
  EXPECT_GT(seconds, 0.5 * all);
  EXPECT_LE(seconds, all);
}

}  // namespace
}  // namespace buttress
