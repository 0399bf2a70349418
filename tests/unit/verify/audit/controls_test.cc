#include "lib/verify/audit/controls.h"

#include <gtest/gtest.h>

#include "lib/verify/verifier.h"

namespace buttress::controls_test {
namespace {

const RewardConfig kConfig;

Outcome Judge(std::string_view verifier, const std::string& response, const std::string& answer) {
  const auto made = MakeVerifier(verifier, kConfig);
  return (*made)
      ->Verify({.prompt = "", .response = response, .answer = answer, .extra_json = "{}"})
      .outcome;
}

TEST(ControlsTest, VerifiersAcceptGoldAndRejectSpoiledAnswers) {
  struct Row {
    std::string_view verifier;
    std::string answer;
  };

  for (const Row& row : {Row{"math", "Half of one is $\\boxed{\\frac{1}{2}}$."},
                         {"math", "(1, 20]"},
                         {"math", "0"},
                         {"number", "3 * 4 = <<3*4=12>>12\n#### 1,012"},
                         {"number", "0.50"},
                         {"arithmetic", " -42\n"},
                         {"exact", "Paris"},
                         {"normalized", "The Eiffel-Tower!"},
                         {"choice", "(C)"},
                         {"choice", "J"},
                         {"countdown", "7 7 1 5 > 8"}}) {
    const auto gold = GoldResponse(row.verifier, row.answer, kConfig);
    ASSERT_TRUE(gold) << row.verifier << ' ' << row.answer;
    EXPECT_EQ(Judge(row.verifier, *gold, row.answer), Outcome::kCorrect) << *gold;
    for (std::uint64_t turn = 0; turn < 20; ++turn) {
      const auto spoiled = SpoiledResponse(row.verifier, row.answer, kConfig, turn);
      ASSERT_TRUE(spoiled) << row.verifier << ' ' << row.answer;
      EXPECT_EQ(Judge(row.verifier, *spoiled, row.answer), Outcome::kWrong) << *spoiled;
    }
  }
}

TEST(ControlsTest, OthersHaveNone) {
  for (const std::string_view verifier : {"python:rewards.py:score", "http", "code", "format",
                                          "length", "overlong", "json_schema", "instructions"}) {
    EXPECT_FALSE(GoldResponse(verifier, "12", kConfig)) << verifier;
    EXPECT_FALSE(SpoiledResponse(verifier, "12", kConfig, 0)) << verifier;
  }
  EXPECT_FALSE(GoldResponse("math", "", kConfig));
  EXPECT_FALSE(GoldResponse("countdown", "2 3 > 7", kConfig));
  EXPECT_FALSE(SpoiledResponse("countdown", "2 3 > 7", kConfig, 0));
  EXPECT_FALSE(GoldResponse("countdown", "12", kConfig));
  RewardConfig without_boxes;
  without_boxes.math.anchors = {"answer:"};
  EXPECT_FALSE(GoldResponse("math", "12", without_boxes));
  EXPECT_FALSE(GoldResponse("normalized", R"(["London", "Paris"])", kConfig));
}

}  // namespace
}  // namespace buttress::controls_test
