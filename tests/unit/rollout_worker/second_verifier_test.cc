#include "rollout_worker/scoring/second_verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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
  EXPECT_EQ(second.Check(Id(3), {}, Wrong("2", "1")), Outcome::kCorrect);
  second.Check(Id(4), {}, Unscorable("no reference"));
  const std::string text = metrics.Expose();
  EXPECT_THAT(
      text,
      HasSubstr("buttress_worker_second_verdicts_total{result=\"agree\",second=\"always\"} 3"));
  EXPECT_THAT(
      text,
      HasSubstr("buttress_worker_second_verdicts_total{result=\"disagree\",second=\"always\"} 1"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "buttress_worker_second_verdicts_total{result=\"unscorable\",second=\"always\"} 1"));
  EXPECT_THAT(text,
              HasSubstr("buttress_worker_verifier_disagreement_rate{second=\"always\"} 0.25"));
}

TEST(SecondVerifier, ChecksItsShareAndTheSameCompletionsAgain) {
  std::vector<double> seen;
  for (int run = 0; run < 2; ++run) {
    Metrics metrics("worker");
    SecondVerifier second(std::make_unique<Always>(Correct("1", "1")), "always", 0.1, metrics);
    double before = 0;
    for (int i = 0; i < 10000; ++i) {
      second.Check(Id(i), {}, Correct("1", "1"));
      const double after = metrics
                               .Counter("buttress_worker_second_verdicts_total", "",
                                        {{"second", "always"}, {"result", "agree"}})
                               .Value();
      if (after > before) seen.push_back(i);
      before = after;
    }
  }
  Metrics metrics("worker");
  SecondVerifier none(std::make_unique<Always>(Correct("1", "1")), "always", 0.0, metrics);
  EXPECT_EQ(none.Check(Id(0), {}, Correct("1", "1")), Outcome::kUnspecified);
  ASSERT_EQ(seen.size() % 2, 0U);
  const auto half = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
  EXPECT_TRUE(std::equal(seen.begin(), half, half, seen.end()));
  EXPECT_GT(half - seen.begin(), 900);
  EXPECT_LT(half - seen.begin(), 1100);
}

TEST(SecondVerifier, IsMadeFromItsSettings) {
  Metrics metrics("worker");
  RewardConfig config;
  EXPECT_EQ(*SecondVerifier::Make(config, metrics), nullptr);
  config.second = {.verifier = "number", .share = 0.5};
  EXPECT_NE(*SecondVerifier::Make(config, metrics), nullptr);
  config.second.verifier = "nubmer";
  EXPECT_THAT(SecondVerifier::Make(config, metrics).status().message(),
              HasSubstr("run.reward.second.verifier: verifier 'nubmer' is unknown"));
}

}  // namespace
}  // namespace buttress
