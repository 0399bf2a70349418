#include "cli/explain/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace buttress {
namespace {

using ::testing::HasSubstr;

const nlohmann::ordered_json& Summary() {
  static const auto summary = nlohmann::ordered_json::parse(
      R"({"path": "run", "acr": 0.5, "expected_acr": null,
          "causes": {"never right": 12}, "sources": {"gsm8k.v1": {"recent": {"share": 0.25}}}})");
  return summary;
}

bool HoldsFor(const std::string& text) {
  const auto condition = ParseCondition(text);
  EXPECT_TRUE(condition.ok()) << condition.status().ToString();
  const auto holds = Holds(*condition, Summary());
  EXPECT_TRUE(holds.ok()) << holds.status().ToString();
  return holds.ok() && *holds;
}

TEST(ConditionTest, ComparesNumbersOfTheSummaryByTheirPaths) {
  EXPECT_TRUE(HoldsFor("acr > 0.4"));
  EXPECT_TRUE(HoldsFor("acr>=.5"));
  EXPECT_FALSE(HoldsFor("acr > 0.5"));
  EXPECT_TRUE(HoldsFor(" acr <= 0.5 "));
  EXPECT_FALSE(HoldsFor("acr < 5e-1"));
  EXPECT_TRUE(HoldsFor("causes.never right > 11"));
  EXPECT_TRUE(HoldsFor("sources.gsm8k.v1.recent.share < 0.3"));
}

TEST(ConditionTest, AnUnknownNumberHoldsNothing) {
  EXPECT_FALSE(HoldsFor("expected_acr > 0"));
  EXPECT_FALSE(HoldsFor("expected_acr <= 0"));
}

TEST(ConditionTest, ANameThatTheReportDoesNotHaveIsRefusedWithThoseThatItHas) {
  const auto holds = Holds(*ParseCondition("accuracy > 1"), Summary());
  EXPECT_EQ(holds.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(holds.status().message(),
              HasSubstr("no number accuracy; it has acr, causes.never right, "
                        "sources.gsm8k.v1.recent.share"));
  EXPECT_FALSE(Holds(*ParseCondition("path > 1"), Summary()).ok());
}

TEST(ConditionTest, OtherTextsAreRefused) {
  for (const auto& [text, why] : {std::pair("acr", "no comparison"),
                                  {"> 1", "no name"},
                                  {"acr > much", "'much' is no number"},
                                  {"acr > 1 2", "'1 2'"},
                                  {"acr > nan", "'nan' is no number"},
                                  {"acr < inf", "'inf' is no number"},
                                  {"acr == 1", "no comparison"},
                                  {"acr >", "'' is no number"}}) {
    const auto condition = ParseCondition(text);
    EXPECT_EQ(condition.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(condition.status().message(), HasSubstr(why));
  }
}

}  // namespace
}  // namespace buttress
