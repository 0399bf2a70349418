#include "lib/config/reward_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/config/load.h"
#include "lib/config/reward_text.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RewardTextTest, ReadsWeightsAndSigns) {
  const auto terms = ParseSum("math + 0.2 * format - 0.5*python:dir/my-rewards.py:f - overlong");
  ASSERT_TRUE(terms.ok()) << terms.status().ToString();
  std::vector<std::string> names;
  std::vector<double> weights;
  for (const SumTerm& term : *terms) {
    names.push_back(term.name);
    weights.push_back(term.weight);
  }
  EXPECT_THAT(names, ElementsAre("math", "format", "python:dir/my-rewards.py:f", "overlong"));
  EXPECT_THAT(weights, ElementsAre(1, 0.2, -0.5, -1));
}

TEST(RewardTextTest, TheFileOfAFunctionMayHaveSpacesAndSigns) {
  const auto terms = ParseSum(
      "0.5 * python:/a b/my - rew*ards + 1.py:f + math - 2*python:/\u00e4 c/r.py:g_2 + "
      "python:/x:y/r.py:h");
  ASSERT_TRUE(terms.ok()) << terms.status().ToString();
  std::vector<std::string> names;
  for (const SumTerm& term : *terms) names.push_back(term.name);
  EXPECT_THAT(names, ElementsAre("python:/a b/my - rew*ards + 1.py:f", "math",
                                 "python:/\u00e4 c/r.py:g_2", "python:/x:y/r.py:h"));
  EXPECT_EQ(terms->front().weight, 0.5);
  EXPECT_EQ((*terms)[2].weight, -2);
  EXPECT_EQ(PythonNameBytes("python:a b.py:f - math"), 15U);
  EXPECT_EQ(PythonNameBytes("python:a b.py"), 0U);
  EXPECT_EQ(PythonNameBytes("math"), 0U);
  RewardConfig config;
  config.verifier = "python:a b.py:f + python:c.py:f";
  config.by_source = {{"s", "math - python:a b.py:g"}};
  config.second.verifier = "python:d.py:f";
  EXPECT_THAT(PythonFilesOf(config), ElementsAre("a b.py", "c.py", "d.py"));
}

TEST(RewardTextTest, RefusesTextThatIsNotASum) {
  for (const char* text : {"", "math + ", "two * math", "0 * math", "nan * math", "math + math",
                           "* math", "inf*math", "a b", "python:a b.py", "python:a.py:f g"}) {
    EXPECT_FALSE(ParseSum(text).ok()) << text;
  }
}

TEST(RewardTextTest, UnknownVerifiersAreRefusedWithTheKnownNames) {
  const std::string error = ParseReward({"run.reward.verifier=nmber + 0.2 * format",
                                         "run.reward.by_source={gsm8k: 'pythn:f.py:g'}",
                                         "run.reward.second.verifier=exakt"})
                                .status()
                                .message();
  EXPECT_THAT(error,
              HasSubstr("run.reward.verifier = nmber + 0.2 * format: verifier "
                        "'nmber' is unknown; did you mean 'number'? Choose one of: exact, "));
  EXPECT_THAT(error,
              HasSubstr("run.reward.by_source.gsm8k = pythn:f.py:g: verifier 'pythn' is unknown"));
  EXPECT_THAT(error, HasSubstr("run.reward.second.verifier = exakt: verifier 'exakt' is unknown"));
  EXPECT_THAT(ParseReward({"run.reward.verifier=math + x * format"}).status().message(),
              HasSubstr("'x' is not a weight"));
  EXPECT_THAT(ParseReward({"run.reward.verifier=math + 1e308 * format"}).status().message(),
              HasSubstr("'1e308' is not a weight"));
  EXPECT_TRUE(ParseReward({"run.reward.verifier=python:f.py:g - 0.5 * overlong"}).ok());
}

TEST(RewardTextTest, AnswersHaveTheFormOfTheStrictestVerifier) {
  EXPECT_EQ(AnswerFormOf("math"), AnswerForm::kText);
  EXPECT_EQ(AnswerFormOf("normalized + 0.1 * format"), AnswerForm::kTextOrList);
  EXPECT_EQ(AnswerFormOf("python:f.py:g"), AnswerForm::kAny);
  EXPECT_EQ(AnswerFormOf("python:f.py:g + 0.2 * number"), AnswerForm::kText);
  RewardConfig config;
  config.verifier = "code";
  config.by_source = {{"gsm8k", "number"}};
  EXPECT_EQ(AnswerFormsOf(config).For("gsm8k"), AnswerForm::kText);
  EXPECT_EQ(AnswerFormsOf(config).For("other"), AnswerForm::kAny);
  config.second = {"exact", 0.5};
  EXPECT_EQ(AnswerFormsOf(config).For("other"), AnswerForm::kText);
}

TEST(RewardTextTest, TimeLimitsOfCodeThatContradictEachOtherAreRefused) {
  const std::string code = "run.reward.verifier=code + 0.1 * format";
  EXPECT_THAT(ParseReward({code, "run.reward.code.wall_ms=6000"}).status().message(),
              HasSubstr("run.reward.code.wall_ms = 6000: at most timeout_ms, which is 5000"));
  EXPECT_THAT(ParseReward({code, "run.reward.code.cpu_seconds=5"}).status().message(),
              HasSubstr("run.reward.code.cpu_seconds = 5: at most code.wall_ms, which is 4000"));
  EXPECT_TRUE(ParseReward({code}).ok());
  EXPECT_TRUE(ParseReward({"run.reward.timeout_ms=1000"}).ok()) << "no program is run";
}

}  // namespace
}  // namespace buttress
