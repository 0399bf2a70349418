// The verifiers normalized, format, length and overlong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/verify/extract.h"
#include "lib/verify/verifier.h"

namespace buttress::text_verifiers_test {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Verifier> Make(std::string_view name, const RewardConfig& config = {}) {
  Result<std::unique_ptr<Verifier>> verifier = MakeVerifier(name, config);
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  return *std::move(verifier);
}

TEST(Normalized, ComparesWordsOnly) {
  const auto verifier = Make("normalized");
  const auto judge = [&](std::string_view response, std::string_view answer) {
    return verifier->Verify({{}, response, answer, {}, false}).outcome;
  };
  EXPECT_EQ(judge("The answer is: The Great Wall, of China!", "great wall of china"),
            Outcome::kCorrect);
  EXPECT_EQ(judge("STRASSE", "straße"), Outcome::kCorrect);
  EXPECT_EQ(judge("ﬁne", "fine"), Outcome::kCorrect);
  EXPECT_EQ(judge("cafe\xCC\x81", "caf\xC3\xA9"), Outcome::kCorrect);
  EXPECT_EQ(judge("<answer>Bonn</answer>", R"(["Berlin", "Bonn"])"), Outcome::kCorrect);
  EXPECT_EQ(judge("Berlin or Bonn", R"(["Berlin", "Bonn"])"), Outcome::kWrong);
  EXPECT_EQ(judge("", "Berlin"), Outcome::kWrong);
  EXPECT_EQ(judge("!!!", "Berlin"), Outcome::kWrong);
  EXPECT_EQ(judge("\xff\xfe", "Berlin"), Outcome::kWrong);
  EXPECT_EQ(judge(std::string(100000, 'x'), "Berlin"), Outcome::kWrong);
  EXPECT_EQ(judge("!!!", "!!!"), Outcome::kUnscorable);
  EXPECT_EQ(judge("Berlin", "[1, 2]"), Outcome::kUnscorable);
}

TEST(Format, RequiresEachTagOnceInOrderAndNothingElse) {
  const auto verifier = Make("format");
  const auto judge = [&](std::string_view response) {
    return verifier->Verify({{}, response, {}, {}, false});
  };
  EXPECT_EQ(judge("<think>a</think><answer>b</answer>").outcome, Outcome::kCorrect);
  EXPECT_EQ(judge("\n<think>\na\n</think>\n\n<answer>b</answer>\n").outcome, Outcome::kCorrect);
  for (const std::string_view response :
       {"", "<think>a</think>", "<answer>b</answer><think>a</think>",
        "<think>a</think><answer>b</answer> more", "so <think>a</think><answer>b</answer>",
        "<think>a<answer>b</answer></think>", "<think>a</think>x<answer>b</answer>",
        "<think><think>a</think></think><answer>b</answer>",
        "<think>a</think><answer>b</answer><answer>c</answer>"}) {
    const Verdict verdict = judge(response);
    EXPECT_EQ(verdict.outcome, Outcome::kWrong) << response;
    EXPECT_FALSE(verdict.given.empty()) << response;
  }
  EXPECT_EQ(verifier->Verify({{}, "<think>a</think><answer>b</answer>", {}, {}, true}).outcome,
            Outcome::kWrong);
}

TEST(Format, ThePromptMayOpenTheFirstTag) {
  const auto verifier = Make("format");
  EXPECT_EQ(
      verifier
          ->Verify({"user: hi\nassistant: <think>\n", "a</think><answer>b</answer>", {}, {}, false})
          .outcome,
      Outcome::kCorrect);
  EXPECT_EQ(verifier
                ->Verify({"user: hi\nassistant: <think>\n",
                          "<think>a</think><answer>b</answer>",
                          {},
                          {},
                          false})
                .outcome,
            Outcome::kWrong);
}

TEST(Format, WithAFreeEndAnyTextMayFollow) {
  RewardConfig config;
  config.format.tags = {"think"};
  config.format.free_end = true;
  const auto verifier = Make("format", config);
  EXPECT_EQ(verifier->Verify({{}, "<think>a</think> So it is 4.", {}, {}, false}).outcome,
            Outcome::kCorrect);
  EXPECT_EQ(verifier->Verify({{}, "So <think>a</think> it is 4.", {}, {}, false}).outcome,
            Outcome::kWrong);
}

TEST(Length, CountsWordsCharactersOrTokens) {
  RewardConfig config;
  config.length.min = 2;
  config.length.max = 3;
  const auto judge = [&](const std::string& unit, std::string_view response, std::int64_t tokens) {
    config.length.unit = *FindChoice<LengthUnit>(unit);
    VerifyRequest request{{}, response, {}, {}, false};
    request.tokens = tokens;
    return Make("length", config)->Verify(request).outcome;
  };
  EXPECT_EQ(judge("words", "one", -1), Outcome::kWrong);
  EXPECT_EQ(judge("words", " one  two\nthree ", -1), Outcome::kCorrect);
  EXPECT_EQ(judge("words", "one two three four", -1), Outcome::kWrong);
  EXPECT_EQ(judge("characters", "äöü", -1), Outcome::kCorrect);
  EXPECT_EQ(judge("characters", "abcd", -1), Outcome::kWrong);
  EXPECT_EQ(judge("tokens", "abcdefgh", 2), Outcome::kCorrect);
  EXPECT_EQ(judge("tokens", "ab", 4), Outcome::kWrong);
  EXPECT_EQ(judge("tokens", "ab", -1), Outcome::kUnscorable);
}

TEST(Overlong, IsTheSoftPunishmentOfDapo) {
  RewardConfig config;
  config.length.overlong_tokens = 20;
  config.length.overlong_buffer = 4;
  const auto verifier = Make("overlong", config);
  const auto judge = [&](std::int64_t tokens) {
    VerifyRequest request{{}, "a", {}, {}, false};
    request.tokens = tokens;
    return verifier->Verify(request);
  };
  EXPECT_EQ(judge(16).raw_reward, 0);
  EXPECT_EQ(judge(16).outcome, Outcome::kCorrect);
  EXPECT_EQ(judge(17).raw_reward, -0.25);
  EXPECT_EQ(judge(17).outcome, Outcome::kWrong);
  EXPECT_EQ(judge(20).raw_reward, -1);
  EXPECT_EQ(judge(21).raw_reward, -1);
}

TEST(Overlong, RequiresItsLimit) {
  const auto verifier = MakeVerifier("overlong", RewardConfig{});
  ASSERT_FALSE(verifier.ok());
  EXPECT_THAT(verifier.status().message(), HasSubstr("overlong_tokens = 0"));
}

TEST(InLastFence, ReturnsTheLastOfTheLanguageElseThePlainOne) {
  EXPECT_EQ(InLastFence("```python\na\n```\n```json\nb\n```", "python py"), "a\n");
  EXPECT_EQ(InLastFence("```py\na\n```\n```Python\nb\n```", "python py"), "b\n");
  EXPECT_EQ(InLastFence("```\na\n```\n```json\nb\n```", "python py"), "a\n");
  EXPECT_EQ(InLastFence("```python\na\n", "python"), std::nullopt);
  EXPECT_EQ(InLastFence("no fence", "python"), std::nullopt);
}

}  // namespace
}  // namespace buttress::text_verifiers_test
