#include "learner/learner_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LearnerMetricsTest, AGaugeExistsOnceAStepHasMeasuredIt) {
  Metrics metrics("learner");
  LearnerMetrics learner(metrics, 0, 1, 0);
  StepMeasurements step;
  step.kl = 0.25;
  learner.AddStep(step);
  EXPECT_THAT(metrics.Expose(), HasSubstr("buttress_learner_kl_nats 0.25"));
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("buttress_learner_gate_")));
  step.gate_rate = 0.5;
  step.kl = StepMeasurements::kNotMeasured;
  learner.AddStep(step);
  EXPECT_THAT(metrics.Expose(), HasSubstr("buttress_learner_gate_rate_ratio 0.5"));
  EXPECT_THAT(metrics.Expose(), HasSubstr("buttress_learner_kl_nats Nan"));
}

}  // namespace
}  // namespace buttress
