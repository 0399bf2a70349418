#include "lib/verify/remote/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(EncodeBatch, ContainsEveryFieldAndIsAlwaysJson) {
  VerifyRequest request{"p", "r\xff", "a", R"({"level": 3})", true};
  request.source = "gsm8k";
  const json batch = json::parse(EncodeBatch({&request, 1}));
  EXPECT_EQ(
      batch,
      json::parse(
          R"({"items": [{"prompt": "p", "response": "r\ufffd", "answer": "a", "source": "gsm8k",
                                  "row": {"level": 3}, "truncated": true}]})"));
  request.extra_json = "no json";
  EXPECT_EQ(json::parse(EncodeBatch({&request, 1}))["items"][0]["row"], json::object());
}

TEST(EncodeBatch, ContainsIdsAndTheNewestStepWhereTheyAreAskedForAndKnown) {
  const std::vector<std::int32_t> ids = {4, 2};
  std::vector<VerifyRequest> requests(2);
  requests[0].token_ids = ids;
  for (std::int64_t i = 0; i < 2; ++i) {
    requests[static_cast<std::size_t>(i)].step = 7 - i;
    requests[static_cast<std::size_t>(i)].steps = 20;
  }
  const json batch = json::parse(EncodeBatch(requests, {.token_ids = true, .state = true}));
  EXPECT_EQ(batch["items"][0]["token_ids"], json(ids));
  EXPECT_FALSE(batch["items"][1].contains("token_ids"));
  EXPECT_EQ(batch["state"], json({{"global_step", 7}, {"max_steps", 20}}));
  EXPECT_FALSE(json::parse(EncodeBatch(requests))["items"][0].contains("token_ids"));
  requests[0].steps = -1;
  EXPECT_FALSE(json::parse(EncodeBatch(requests, {.state = true})).contains("state"));
}

TEST(DecodeResults, WhatDoesNotApplyIsNoFailure) {
  const auto verdicts = DecodeResults(R"({"results": [{"not_applicable": true}]})", 1, 1);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kUnscorable);
  EXPECT_TRUE(verdicts[0].not_applicable);
}

TEST(DecodeResults, AScoreAtTheThresholdIsCorrectUnlessTheReplySaysOtherwise) {
  const auto verdicts = DecodeResults(
      R"({"results": [{"score": 1}, {"score": 0.5}, {"score": 0.5, "correct": true}, )"
      R"({"score": 2, "correct": false}, {"score": -1.5}]})",
      5, 1);
  ASSERT_EQ(verdicts.size(), 5U);
  const Outcome outcomes[] = {Outcome::kCorrect, Outcome::kWrong, Outcome::kCorrect,
                              Outcome::kWrong, Outcome::kWrong};
  const double rewards[] = {1, 0.5, 0.5, 2, -1.5};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(verdicts[i].outcome, outcomes[i]) << i;
    EXPECT_EQ(verdicts[i].raw_reward, rewards[i]) << i;
  }
}

TEST(DecodeResults, AResultWithoutAValidScoreIsUnscorableWithItsReason) {
  const char* results[] = {"null",
                           "0",
                           "[]",
                           "{}",
                           R"({"score": null})",
                           R"({"score": "1"})",
                           R"({"score": true})",
                           R"({"score": 1e999})",
                           R"({"score": 1e308})",
                           R"({"score": -1e308, "correct": true})",
                           R"({"error": "it broke"})",
                           R"({"error": null})",
                           R"({"score": 1, "correct": 1})"};
  for (const char* result : results) {
    const auto verdicts =
        DecodeResults(R"({"results": [)" + std::string(result) + R"(, {"score": 1}]})", 2, 1);
    ASSERT_EQ(verdicts.size(), 2U) << result;
    EXPECT_EQ(verdicts[0].outcome, Outcome::kUnscorable) << result;
    EXPECT_FALSE(verdicts[0].unscorable_reason.empty()) << result;
  }
  EXPECT_EQ(DecodeResults(R"({"results": [{"error": "it broke"}]})", 1, 1)[0].unscorable_reason,
            "it broke");
  EXPECT_EQ(DecodeResults(R"({"results": [{"score": 1e308}]})", 1, 1)[0].unscorable_reason,
            "the score is 1e+308; expected a number in [-1000000, 1000000]");
}

TEST(DecodeResults, AMalformedReplyMakesAllUnscorable) {
  for (const std::string& reply :
       {std::string(), std::string("x"), std::string("[]"), std::string("{}"),
        std::string(R"({"results": 1})"), std::string(R"({"results": [{"score": 1}]})"),
        std::string(200000, '[')}) {
    const auto verdicts = DecodeResults(reply, 2, 1);
    ASSERT_EQ(verdicts.size(), 2U);
    for (const Verdict& verdict : verdicts)
      EXPECT_EQ(verdict.outcome, Outcome::kUnscorable) << reply.substr(0, 40);
  }
  EXPECT_THAT(DecodeResults(R"({"results": [{"score": 1}]})", 2, 1)[0].unscorable_reason,
              HasSubstr("1 results for 2 completions"));
}

}  // namespace
}  // namespace buttress
