#include "lib/checks/setting_pairs.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

std::vector<std::string> Warned(const RunSettings& run) {
  Findings findings;
  CheckSettingPairs(run, findings);
  std::vector<std::string> keys;
  for (const Finding& finding : findings.list()) {
    EXPECT_EQ(finding.severity, Severity::kWarning);
    keys.push_back(finding.check);
  }
  return keys;
}

using Keys = std::vector<std::string>;

TEST(SettingPairsTest, WarnsOfRightAnswersThatArePushedAndHeld) {
  RunSettings run;
  run.algorithm.clip_high = 0.28;
  EXPECT_EQ(Warned(run), Keys{});
  run.algorithm.advantage = Estimator::kAGrae;
  EXPECT_EQ(Warned(run), Keys{"run.algorithm.clip_high"});
  run.algorithm.clip_high = run.algorithm.clip_low;
  EXPECT_EQ(Warned(run), Keys{});
}

TEST(SettingPairsTest, WarnsOfAPenaltyOnAPolicyThatStays) {
  RunSettings run;
  run.algorithm.kl_coef = 0.1;
  EXPECT_EQ(Warned(run), Keys{});
  run.optim.lr = 0;
  EXPECT_EQ(Warned(run), Keys{"run.algorithm.kl_coef"});
  run.algorithm.kl_coef = 0;
  EXPECT_EQ(Warned(run), Keys{});
}

}  // namespace
}  // namespace buttress
