#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "learner/step_reports.h"

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

TEST(LearnerMetricsTest, TheNewestEvaluationStaysUntilTheNext) {
  Metrics metrics("learner");
  LearnerMetrics learner(metrics, 0, 1, 0);
  StepMeasurements step;
  learner.AddStep(step);
  EXPECT_THAT(metrics.Expose(), Not(HasSubstr("buttress_learner_eval_")));
  step.eval_step = 40;
  step.eval_accuracy = 0.25;
  learner.AddStep(step);
  learner.AddStep(StepMeasurements());
  EXPECT_THAT(metrics.Expose(), HasSubstr("buttress_learner_eval_accuracy_ratio 0.25"));
}

TEST(LearnerMetricsTest, SourcesHaveALabel) {
  Metrics metrics("learner");
  LearnerMetrics learner(metrics, 0, 1, 0);
  StepMeasurements step;
  SourceMeasurements& source = step.sources.emplace_back();
  source.source = "math";
  source.collapse = {.groups = 4, .all_wrong = 1, .mixed = 3};
  source.scorable = source.judged = 8;
  source.raw_reward = source.correct = 2;
  learner.AddStep(step);
  learner.AddStep(step);
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("buttress_learner_source_groups_total{source=\"math\"} 8"));
  EXPECT_THAT(text, HasSubstr("buttress_learner_source_acr_ratio{source=\"math\"} 0.25"));
  EXPECT_THAT(text, HasSubstr("buttress_learner_source_raw_reward_mean{source=\"math\"} 0.25"));
  EXPECT_THAT(text, Not(HasSubstr("source_gate_open")));
  step.sources[0].gate_open = 1;
  learner.AddStep(step);
  EXPECT_THAT(metrics.Expose(), HasSubstr("buttress_learner_source_gate_open{source=\"math\"} 1"));
}

TEST(LearnerMetricsTest, ComponentsHaveALabel) {
  Metrics metrics("learner");
  LearnerMetrics learner(metrics, 0, 1, 0);
  StepMeasurements step;
  step.components = {{"rewards.py:format", 6, 8}};
  learner.AddStep(step);
  EXPECT_THAT(
      metrics.Expose(),
      HasSubstr("buttress_learner_component_reward_mean{component=\"rewards.py:format\"} 0.75"));
}

}  // namespace
}  // namespace buttress
