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

// Checks one completion that the first verifier judged so.
Outcome Check(SecondVerifier& second, std::int32_t index, const Verdict& first) {
  EngineResult sample;
  sample.id = {.group_id = 3, .lease_epoch = 1, .index = index};
  const VerifyRequest request{};
  return second.Check({&sample, 1}, {&request, 1}, {&first, 1}).front();
}

TEST(SecondVerifier, CountsAgreementAndExportsTheRateOfDisagreement) {
  Metrics metrics("worker");
  SecondVerifier second(std::make_unique<Always>(Correct("1", "1")), "always", 1.0, metrics);
  for (int i = 0; i < 3; ++i) Check(second, i, Correct("1", "1"));
  EXPECT_EQ(Check(second, 3, Wrong("2", "1")), Outcome::kCorrect);
  Check(second, 4, Unscorable("no reference"));
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
      Check(second, i, Correct("1", "1"));
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
  EXPECT_EQ(Check(none, 0, Correct("1", "1")), Outcome::kUnspecified);
  ASSERT_EQ(seen.size() % 2, 0U);
  const auto half = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
  EXPECT_TRUE(std::equal(seen.begin(), half, half, seen.end()));
  EXPECT_GT(half - seen.begin(), 900);
  EXPECT_LT(half - seen.begin(), 1100);
}

// Correct if there are three requests.
class OfThree : public Verifier {
 public:
  bool whole_groups() const override { return true; }

  Verdict Verify(const VerifyRequest& request) const override {
    return VerifyGroup({&request, 1}).front();
  }

  std::vector<Verdict> VerifyGroup(std::span<const VerifyRequest> requests) const override {
    return std::vector<Verdict>(requests.size(),
                                requests.size() == 3 ? Correct("", "") : Wrong("", ""));
  }
};

TEST(SecondVerifier, SeesAllOfAGroupOrNothingWhereItsVerdictsDependOnOneAnother) {
  Metrics metrics("worker");
  SecondVerifier second(std::make_unique<OfThree>(), "ranks", 0.5, metrics);
  std::vector<VerifyRequest> requests(3);
  const std::vector<Verdict> first(3, Correct("", ""));
  int checked = 0;
  for (std::uint64_t group = 0; group < 100; ++group) {
    std::vector<EngineResult> samples(3);
    for (std::int32_t i = 0; i < 3; ++i)
      samples[static_cast<std::size_t>(i)].id = {.group_id = group, .lease_epoch = 1, .index = i};
    const std::vector<Outcome> outcomes = second.Check(samples, requests, first);
    const Outcome expected = outcomes[0] == Outcome::kUnspecified ? outcomes[0] : Outcome::kCorrect;
    EXPECT_EQ(outcomes, std::vector<Outcome>(3, expected));
    checked += expected == Outcome::kCorrect ? 1 : 0;
  }
  EXPECT_GT(checked, 30);
  EXPECT_LT(checked, 70);
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
