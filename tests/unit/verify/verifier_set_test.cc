#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/config/reward_text.h"
#include "lib/verify/verifier.h"

namespace buttress::verifier_set_test {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class AlwaysCorrect : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& /*request*/) const override { return Correct("", ""); }
};

RewardConfig Config(const std::string& verifier,
                    const std::map<std::string, std::string>& by_source) {
  RewardConfig config;
  config.verifier = verifier;
  config.by_source = by_source;
  return config;
}

TEST(VerifierSet, SelectsTheVerifierByDataSource) {
  const auto set = VerifierSet::Make(Config("number", {{"puzzle", "countdown"}}));
  ASSERT_TRUE(set.ok()) << set.status().ToString();
  EXPECT_EQ((*set)->NameFor("puzzle"), "countdown");
  EXPECT_EQ((*set)->NameFor("anything"), "number");
  const auto judge = [&](std::string_view source, std::string_view response,
                         std::string_view answer) {
    return (*set)->For(source).Verify({{}, response, answer, {}, false}).outcome;
  };
  EXPECT_EQ(judge("puzzle", "7+1", "7 1 > 8"), Outcome::kCorrect);
  EXPECT_EQ(judge("anything", "so 8", "8"), Outcome::kCorrect);
}

TEST(VerifierSet, TheErrorOfAnUnknownNameGivesItsKeyAndTheKnownNames) {
  const auto set = VerifierSet::Make(Config("exact", {{"gsm8k", "nmber"}}));
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      set.status().message(),
      HasSubstr("run.reward.by_source.gsm8k: verifier 'nmber' is unknown; did you mean 'number'?"));
}

TEST(VerifierSet, ASumScoresUnderItsFirstPartsNameAndListsAllParts) {
  const auto set =
      VerifierSet::Make(Config("number + 0.2 * format", {{"puzzle", "countdown - 0.1 * format"}}));
  ASSERT_TRUE(set.ok()) << set.status().ToString();
  EXPECT_EQ((*set)->NameFor("puzzle"), "countdown");
  EXPECT_EQ((*set)->NameFor("anything"), "number");
  EXPECT_THAT((*set)->names(), UnorderedElementsAre("number", "format", "countdown"));
}

TEST(VerifierSet, AVerifierWithoutAnArgumentRefusesOne) {
  EXPECT_THAT(MakeVerifier("math:strict", RewardConfig{}).status().message(),
              HasSubstr("'strict': this verifier takes nothing"));
}

// Outcomes of these verifiers depend on settings, processes or servers, so they have no known
// answers and tests of their own.
bool KnowsItselfOnlyByItsSettings(std::string_view name) {
  constexpr std::string_view kNames[] = {"format", "length", "overlong", "code", "python", "http"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

TEST(VerifierTable, EveryVerifierHasACorrectAndAWrongKnownAnswer) {
  for (const VerifierEntry& entry : VerifierTable()) {
    EXPECT_FALSE(entry.meaning.empty()) << entry.name;
    if (KnowsItselfOnlyByItsSettings(entry.name)) continue;
    for (const Outcome outcome : {Outcome::kCorrect, Outcome::kWrong}) {
      const auto has = [&](const KnownAnswer& known) { return known.outcome == outcome; };
      EXPECT_TRUE(std::any_of(entry.known_answers.begin(), entry.known_answers.end(), has))
          << entry.name;
    }
    for (const bool use_all : {false, true}) {
      RewardConfig config;
      config.use_all = use_all;
      EXPECT_TRUE(MakeVerifier(entry.name, config).ok()) << entry.name;
    }
  }
}

TEST(VerifierTable, TheConfigurationKnowsItsNames) {
  for (const VerifierEntry& entry : VerifierTable()) {
    EXPECT_TRUE(CheckVerifierName(entry.name).ok()) << entry.name;
  }
}

TEST(VerifierTable, AVerifierThatFailsAKnownAnswerIsRefused) {
  const KnownAnswer known[] = {{"7", "7", Outcome::kCorrect}, {"6", "7", Outcome::kWrong}};
  const Status status = CheckKnownAnswers("generous", AlwaysCorrect(), known);
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("verifier 'generous' fails its self-test: response '6'"));
}

}  // namespace
}  // namespace buttress::verifier_set_test
