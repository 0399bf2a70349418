#include "rollout_worker/second_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::HasSubstr;

class Always : public Verifier {
 public:
  explicit Always(Verdict verdict) : verdict_(std::move(verdict)) {}

  Verdict Verify(const VerifyRequest& /*request*/) const override { return verdict_; }

 private:
  Verdict verdict_;
};

SampleId Id(std::int32_t index) { return {.group_id = 3, .lease_epoch = 1, .index = index}; }

TEST(SecondVerifier, CountsAgreementAndExportsTheRateOfDisagreement) {
  Metrics metrics("worker");
  SecondVerifier second(std::make_unique<Always>(Correct("1", "1")), "always", 1.0, metrics);
  for (int i = 0; i < 3; ++i) second.Check(Id(i), {}, Correct("1", "1"));
  second.Check(Id(3), {}, Wrong("2", "1"));
  second.Check(Id(4), {}, Unscorable("no reference"));
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("buttress_worker_second_verdicts_total{result=\"agree\",second=\"always\"} 3"));
  EXPECT_THAT(text, HasSubstr("buttress_worker_second_verdicts_total{result=\"disagree\",second=\"always\"} 1"));
  EXPECT_THAT(text, HasSubstr("buttress_worker_second_verdicts_total{result=\"unscorable\",second=\"always\"} 1"));
  EXPECT_THAT(text, HasSubstr("buttress_worker_verifier_disagreement_rate{second=\"always\"} 0.25"));
}

TEST(SecondVerifier, SeesItsShareAndTheSameCompletionsAgain) {
  Metrics first_run("worker");
  Metrics second_run("worker");
  for (Metrics* metrics : {&first_run, &second_run}) {
    SecondVerifier second(std::make_unique<Always>(Correct("1", "1")), "always", 0.1, *metrics);
    for (int i = 0; i < 10000; ++i) second.Check(Id(i), {}, Correct("1", "1"));
    const double seen = metrics->Counter("buttress_worker_second_verdicts_total", "", {{"second", "always"}, {"result", "agree"}}).Value();
    EXPECT_GT(seen, 900);
    EXPECT_LT(seen, 1100);
  }
  EXPECT_EQ(first_run.Expose().substr(first_run.Expose().find("second_verdicts")),
            second_run.Expose().substr(second_run.Expose().find("second_verdicts")));
}

TEST(SecondVerifier, IsMadeByItsSettings) {
  Metrics metrics("worker");
  RewardConfig config;
  EXPECT_EQ(*SecondVerifier::Make(config, metrics), nullptr);
  config.second = {.verifier = "number", .share = 0.5};
  EXPECT_NE(*SecondVerifier::Make(config, metrics), nullptr);
  config.second.verifier = "nubmer";
  EXPECT_THAT(SecondVerifier::Make(config, metrics).status().message(), HasSubstr("run.reward.second.verifier: unknown verifier 'nubmer'"));
}

}  // namespace
}  // namespace buttress
