// Dumps with several rewards: a sum of them never says what is right.
#include "cli/explain/reward_fields.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/explain/report.h"
#include "cli/explain/step_source.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What `buttress explain` says of a dump.
struct Explained {
  Report report;
  std::string text;
};

class RewardFieldsTest : public ::testing::Test {
 public:
  // Writes a row of TRL's log_completions, of prompt `prompt`.
  void AddTrl(int prompt, int i, const std::string& rewards) {
    rows_ += fmt::format(
        R"({{"step":{},"prompt":"p{}","completion":"answer {} of {}",{},"advantage":0.0}})"
        "\n",
        1 + prompt / 12, prompt, i, prompt, rewards);
  }

  void AddVerl(int prompt, int i, const std::string& fields) {
    rows_ += fmt::format(R"({{"step":{},"input":"p{}","output":"answer {} of {}","gts":"",{}}})"
                         "\n",
                         1 + prompt / 12, prompt, i, prompt, fields);
  }

  // 84 groups of 8 in the format of verl or TRL: 45 all right, 39 all wrong, by `fields(right)`.
  template <class Add, class Fields>
  void AddGroups(Add add, Fields fields) {
    for (int prompt = 0; prompt < 84; ++prompt) {
      for (int i = 0; i < 8; ++i) (this->*add)(prompt, i, fields(prompt % 28 < 15, i));
    }
  }

  Explained Explain() {
    const std::string path = folder_.path() + "/dump.jsonl";
    std::ofstream(path) << rows_;
    const auto source = OpenSteps(path, options_);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    PostMortem post_mortem(CauseRules{}, nullptr);
    while (true) {
      const auto groups = (*source)->Next();
      EXPECT_TRUE(groups.ok()) << groups.status().ToString();
      if (!groups.ok() || groups->empty()) break;
      EXPECT_TRUE(post_mortem.Add(*groups).ok());
    }
    Explained explained{post_mortem.Finish(), ""};
    explained.text = ReportText({path, "dump", (*source)->remarks()}, explained.report);
    return explained;
  }

  static std::int64_t CountOf(const Report& report, Cause cause) {
    return report.all.causes[static_cast<std::size_t>(cause)];
  }

  // Nothing is called right or wrong, and nothing easy or hard.
  static void ExpectNoVerdict(const Explained& explained) {
    EXPECT_EQ(explained.report.counts.all_correct, 0);
    EXPECT_EQ(explained.report.counts.all_wrong, 0);
    EXPECT_EQ(explained.report.counts.other_constant, 84);
    EXPECT_EQ(CountOf(explained.report, Cause::kEqualRewards), 84);
    EXPECT_THAT(explained.text, HasSubstr("ACR 1.000 = 84 of 84 groups (equal rewards 84)"));
    EXPECT_THAT(explained.text, HasSubstr("--reward NAME names the one that decides"));
    EXPECT_THAT(explained.text, HasSubstr("all 8 have reward "));
    EXPECT_THAT(explained.text,
                AllOf(Not(HasSubstr("easy")), Not(HasSubstr("hard")), Not(HasSubstr("correct 8")),
                      Not(HasSubstr("larger group gives")), Not(HasSubstr("was ever right"))));
  }

  static void ExpectVerdict(const Explained& explained) {
    EXPECT_EQ(explained.report.counts.all_correct, 45);
    EXPECT_EQ(explained.report.counts.all_wrong, 39);
    EXPECT_EQ(explained.report.counts.other_constant, 0);
    EXPECT_EQ(CountOf(explained.report, Cause::kEasySource), 45);
    EXPECT_EQ(CountOf(explained.report, Cause::kHardSource), 39);
  }

  TempDir folder_;
  StepSourceOptions options_;
  std::string rows_;
};

std::string AccuracyAndFormat(bool right, int) {
  return fmt::format(R"("accuracy_reward":{:.1f},"format_reward":1.0)", right ? 1.0 : 0.0);
}

TEST_F(RewardFieldsTest, TheOneColumnWithTwoValuesDecidesWhereFormatIsAlwaysRight) {
  AddGroups(&RewardFieldsTest::AddTrl, AccuracyAndFormat);
  const Explained explained = Explain();
  ExpectVerdict(explained);
  EXPECT_THAT(explained.text,
              HasSubstr("the raw reward is accuracy_reward + format_reward, each with weight 1; "
                        "accuracy_reward decides what is right, because no other column has two "
                        "values (0 and 1); --reward NAME names another"));
  EXPECT_NEAR(explained.report.steps[0].raw_reward_mean.value_or(0), 2.0,
              1e-12);  // the sum, of 12 right groups
  EXPECT_EQ(explained.report.steps[0].accuracy, 1.0);
}

TEST_F(RewardFieldsTest, ANamedColumnDecides) {
  AddGroups(&RewardFieldsTest::AddTrl, AccuracyAndFormat);
  options_.rewards = {"accuracy_reward"};
  ExpectVerdict(Explain());
  options_.rewards = {"accuracy_reward", "format_reward"};
  const Explained explained = Explain();
  ExpectVerdict(explained);
  EXPECT_THAT(explained.text, HasSubstr("accuracy_reward decides what is right, where it applies"));
}

TEST_F(RewardFieldsTest, OfTwoColumnsWithTwoValuesNoneIsGuessed) {
  AddGroups(&RewardFieldsTest::AddTrl, [](bool right, int) {
    return fmt::format(R"("accuracy_reward":{},"format_reward":{})", right ? 1 : 0, right ? 0 : 1);
  });
  ExpectNoVerdict(Explain());
}

TEST_F(RewardFieldsTest, AnOutcomeThatIsNeverRightDoesNotMakeTheFormatTheOutcome) {
  AddGroups(&RewardFieldsTest::AddTrl, [](bool right, int) {
    return fmt::format(R"("accuracy_reward":0.0,"format_reward":{:.1f})", right ? 1.0 : 0.0);
  });
  ExpectNoVerdict(Explain());
}

TEST_F(RewardFieldsTest, AColumnThatDoesNotApplyToAGroupLeavesItWithoutAVerdict) {
  AddGroups(&RewardFieldsTest::AddTrl, AccuracyAndFormat);
  for (int i = 0; i < 8; ++i) AddTrl(84, i, R"("accuracy_reward":null,"format_reward":1.0)");
  const Explained explained = Explain();
  EXPECT_EQ(explained.report.counts.all_correct, 45);
  EXPECT_EQ(explained.report.counts.all_wrong, 39);
  EXPECT_EQ(explained.report.counts.other_constant, 1);
  EXPECT_EQ(CountOf(explained.report, Cause::kEqualRewards), 1);
}

TEST_F(RewardFieldsTest, AScoreOfVerlThatIsASumHasNoVerdictWithoutAcc) {
  const auto sum = [](bool right, int) {
    return fmt::format(R"("score":{},"right":{})", right ? 2 : 1, right);
  };
  AddGroups(&RewardFieldsTest::AddVerl, sum);
  ExpectNoVerdict(Explain());
  options_.rewards = {"right"};
  ExpectVerdict(Explain());
}

TEST_F(RewardFieldsTest, AccOfVerlDecidesAndTheScoreIsTheRawReward) {
  AddGroups(&RewardFieldsTest::AddVerl, [](bool right, int) {
    return fmt::format(R"("score":{},"acc":{})", right ? 2 : 1, right ? 1 : 0);
  });
  const Explained explained = Explain();
  ExpectVerdict(explained);
  EXPECT_NEAR(explained.report.steps[0].raw_reward_mean.value_or(0), 2.0, 1e-12);
  EXPECT_EQ(explained.report.steps[0].accuracy, 1.0);
}

TEST_F(RewardFieldsTest, AScoreOfVerlWithTwoValuesIsAnOutcome) {
  AddGroups(&RewardFieldsTest::AddVerl,
            [](bool right, int) { return fmt::format(R"("score":{})", right ? 1 : -1); });
  ExpectVerdict(Explain());
}

TEST_F(RewardFieldsTest, ANameThatNoRowHasIsRefusedWithThoseThatThereAre) {
  AddGroups(&RewardFieldsTest::AddTrl, AccuracyAndFormat);
  options_.rewards = {"acuracy"};
  const std::string path = folder_.path() + "/dump.jsonl";
  std::ofstream(path) << rows_;
  const auto source = OpenSteps(path, options_);
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->Next().status().message(),
            "--reward acuracy: no row has a number there; rows have numbers in accuracy_reward, "
            "advantage, format_reward, step");
}

TEST_F(RewardFieldsTest, AGroupWithoutAVerdictIsOfTheClassEqualRewards) {
  CollapsedGroup group;
  group.collapse = CollapseClass::kOtherConstant;
  group.judged = false;
  EXPECT_THAT(CollapsedGroupJson(group), HasSubstr(R"("collapse":"equal_rewards")"));
}

}  // namespace
}  // namespace buttress
