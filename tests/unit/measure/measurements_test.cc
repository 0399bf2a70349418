#include "lib/measure/measurements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

namespace buttress {
namespace {

TEST(MeasurementsTest, EveryNameStandsOnceInBothVocabularies) {
  std::set<std::string> names, prometheus;
  for (const Measurement& row : MeasurementTable()) {
    EXPECT_TRUE(names.emplace(row.name).second) << row.name;
    EXPECT_TRUE(prometheus.insert(PrometheusName(row)).second) << PrometheusName(row);
    EXPECT_EQ(row.help.back(), '.') << row.name;
  }
}

TEST(MeasurementsTest, EveryFieldIsInTheTable) {
  const std::size_t numbers =
      (sizeof(StepMeasurements) - sizeof(StepMeasurements::alarms) -
       sizeof(StepMeasurements::sources) - sizeof(StepMeasurements::components)) /
      sizeof(double);
  EXPECT_EQ(MeasurementTable().size(), numbers);
}

TEST(MeasurementsTest, SpeedsAreOfTheWallClockOfTheBusyPartAndWeightedByAge) {
  StepMeasurements step;
  step.accepted_tokens = 600;
  step.freshness = 0.5;
  step.seconds_step = 10;
  step.seconds_wait = 3;
  step.seconds_fetch = 1;
  step.seconds_wait_weights = 0.5;
  step.seconds_wait_peers = 0.5;
  MeasureSpeed(step);
  EXPECT_DOUBLE_EQ(step.seconds_busy, 5);
  EXPECT_DOUBLE_EQ(step.speed_wall, 60);
  EXPECT_DOUBLE_EQ(step.speed_busy, 120);
  EXPECT_DOUBLE_EQ(step.speed_fresh, 30);
  step.accepted_tokens = 0;
  step.freshness = StepMeasurements::kNotMeasured;
  MeasureSpeed(step);
  EXPECT_EQ(step.speed_fresh, 0);
  step.seconds_step = 0;
  MeasureSpeed(step);
  EXPECT_TRUE(std::isnan(step.speed_wall));
}

TEST(MeasurementsTest, PrometheusNamesEndInTheirUnitAndCountersInTotal) {
  std::map<std::string, std::string> names;
  for (const Measurement& row : MeasurementTable())
    names[std::string(row.name)] = PrometheusName(row);
  EXPECT_EQ(names["kl"], "buttress_learner_kl_nats");
  EXPECT_EQ(names["clip_low"], "buttress_learner_clip_low_ratio");
  EXPECT_EQ(names["distinct_share"], "buttress_learner_distinct_ratio");
  EXPECT_EQ(names["collapsed_gradient.kl"], "buttress_learner_collapsed_gradient_kl_ratio");
  EXPECT_EQ(names["groups_masked"], "buttress_learner_masked_groups_total");
  EXPECT_EQ(names["trained_tokens"], "buttress_learner_trained_tokens_total");
  EXPECT_EQ(names["seconds.wait"], "buttress_learner_wait_seconds_total");
  EXPECT_EQ(names["age_mean"], "buttress_learner_age_mean_steps");
  EXPECT_EQ(names["speed.fresh"], "buttress_learner_speed_fresh_tokens_per_second");
  EXPECT_EQ(names["token_age.p99"], "buttress_learner_token_age_p99_steps");
  EXPECT_EQ(names["lr"], "buttress_learner_lr");
  EXPECT_EQ(names["gate.open"], "buttress_learner_gate_open");
}

}  // namespace
}  // namespace buttress
