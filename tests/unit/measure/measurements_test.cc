#include "lib/measure/measurements.h"

#include <gtest/gtest.h>

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
      (sizeof(StepMeasurements) - sizeof(std::vector<Alarm>)) / sizeof(double);
  EXPECT_EQ(MeasurementTable().size(), numbers);
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
  EXPECT_EQ(names["lr"], "buttress_learner_lr");
  EXPECT_EQ(names["gate.open"], "buttress_learner_gate_open");
}

}  // namespace
}  // namespace buttress
