// Dumps with missing, foreign and damaged rows: what is wrong is named with its file, line and
// field.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/unit/cli/explain/dump_steps_fixture.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BadDumpsTest : public DumpStepsTest {
 protected:
  const std::vector<CompletionFacts>& CompletionsOf(const Result<Steps>& steps) {
    EXPECT_TRUE(steps.ok()) << steps.status().ToString();
    static const std::vector<CompletionFacts> none(4);
    return steps.ok() ? (*steps)[0][0].completions : none;
  }
};

std::string Verl(const std::string& fields, int step = 1) {
  return fmt::format(R"({{"input":"p","output":"x","gts":"4","step":{},{}}})", step, fields) + "\n";
}

std::string Trl(const std::string& fields) {
  return fmt::format(R"({{"step":1,"prompt":"p","completion":"x",{}}})", fields) + "\n";
}

TEST_F(BadDumpsTest, AScoreOfVerlThatIsNoNumberIsNamedWithItsLine) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "null", "\"nan\"", "\"inf\""}) {
    Write("1.jsonl", Verl("\"score\":1") + Verl(fmt::format("\"score\":{}", value)));
    const Result<Steps> steps = ReadAll();
    EXPECT_TRUE(std::isnan(CompletionsOf(steps)[1].deciding_reward)) << value;
    EXPECT_THAT(
        remarks_,
        ElementsAre("score is absent, empty, null, NaN or infinite in 1 row, the first 1.jsonl:2: "
                    "such a completion has no verdict"))
        << value;
  }
}

TEST_F(BadDumpsTest, AColumnOfTrlWithoutANumberIsNamedWithItsLine) {
  Write("a.jsonl", Trl(R"("right":1,"advantage":0)") + Trl(R"("right":NaN,"advantage":NaN)") +
                       Trl(R"("advantage":0)"));
  Result<Steps> steps = ReadAll();
  EXPECT_TRUE(std::isnan(CompletionsOf(steps)[1].deciding_reward));
  EXPECT_TRUE(std::isnan(CompletionsOf(steps)[2].deciding_reward));
  EXPECT_THAT(remarks_,
              ElementsAre(HasSubstr("advantage is absent, empty, null, NaN or infinite in 1 row,"
                                    " the first a.jsonl:2: "),
                          HasSubstr("right is absent, empty, null, NaN or infinite in 2 rows, "
                                    "the first a.jsonl:2: such a completion")));
  Write("a.jsonl",
        Trl(R"("right":1,"form":1,"advantage":0)") + Trl(R"("right":NaN,"form":1,"advantage":0)"));
  steps = ReadAll();
  EXPECT_EQ(CompletionsOf(steps)[1].raw_reward, 1);
  EXPECT_THAT(remarks_,
              testing::Contains(HasSubstr("a.jsonl:2: the reward is the sum of the other")));
}

TEST_F(BadDumpsTest, WhereAnOutcomeIsMissingTheReportSaysWhatDecides) {
  Write("1.jsonl",
        Verl(R"("score":0.9,"acc":1)") + Verl(R"("score":0.4,"acc":NaN)") + Verl(R"("score":0.4)"));
  EXPECT_EQ(CompletionsOf(ReadAll())[1].deciding_reward, 0.4);
  EXPECT_THAT(remarks_,
              ElementsAre("acc is absent, empty, null, NaN or infinite in 2 rows, the first "
                          "1.jsonl:2: the reward decides there what is right"));
  Write("1.jsonl", Verl(R"("score":0.9,"acc":1)") + Verl(R"("score":0.4,"acc":[1])"));
  EXPECT_THAT(ErrorOf(), HasSubstr("1.jsonl:2: acc = [1]; expected"));
}

TEST_F(BadDumpsTest, ADumpOfTrlWithoutRewardsSaysSo) {
  Write("a.jsonl", Trl(R"("right":"yes","advantage":0)"));
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("no column has numbers besides step and advantage")));
}

TEST_F(BadDumpsTest, EmptyPromptsAndIdsOfGroupsAreNamed) {
  Write("1.jsonl", R"({"input":"","output":"x","score":1,"step":1,"uid":null})"
                   "\n");
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, ElementsAre(HasSubstr("input is absent, empty, null, NaN or infinite in 1 "
                                              "row, the first 1.jsonl:1: such rows have one"),
                                    HasSubstr("uid is absent, empty, null")));
}

TEST_F(BadDumpsTest, ANumberOfAnotherTypeIsAnError) {
  Write("a.jsonl", Trl(R"("right":1,"advantage":0)") + Trl(R"("right":"high","advantage":0)") +
                       Trl(R"("right":1,"advantage":"x")") + Trl(R"("right":1)"));
  const std::string error = ErrorOf();
  EXPECT_THAT(error, HasSubstr("a.jsonl:2: right = \"high\"; expected a number, true, false or "));
  EXPECT_THAT(error, HasSubstr("a.jsonl:3: advantage = \"x\"; expected a number"));
  EXPECT_THAT(error, HasSubstr("a.jsonl:4: no field 'advantage'"));
}

TEST_F(BadDumpsTest, ATextOfAnotherFormIsAnError) {
  for (const char* prompt : {R"({"messages":[1]})", R"(["a"])", "[1]"}) {
    Write("a.jsonl", fmt::format(R"({{"prompt":{},"completion":"x","reward":1}})", prompt) + "\n");
    EXPECT_THAT(ErrorOf(), HasSubstr("a.jsonl:1: prompt = ")) << prompt;
    EXPECT_THAT(ErrorOf(), HasSubstr("expected a text, or a list of messages")) << prompt;
  }
  Write("a.jsonl", R"({"group":["a"],"completion":"x","reward":1})"
                   "\n");
  EXPECT_THAT(ErrorOf(), HasSubstr("a.jsonl:1: group = [\"a\"]; expected a text"));
}

TEST_F(BadDumpsTest, RowsWithAGroupAloneAreOfDifferentPrompts) {
  Write("a.jsonl",
        "{\"group\":\"a\",\"completion\":\"x\",\"reward\":1}\n"
        "{\"group\":\"b\",\"completion\":\"x\",\"reward\":1}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ((*steps)[0][0].prompt_id, "a");
  EXPECT_EQ((*steps)[0][1].prompt_id, "b");
}

TEST_F(BadDumpsTest, RowsOfTwoTrainersInOneFileAreErrors) {
  const std::string trl = Trl(R"("right":1,"advantage":0)");
  const std::string plain = "{\"prompt\":\"p\",\"completion\":\"x\",\"reward\":1,\"step\":1}\n";
  Write("1.jsonl", Verl("\"score\":1") + trl);
  EXPECT_THAT(ErrorOf(), HasSubstr("1.jsonl:2: no field 'score'"));
  Write("1.jsonl", trl + Verl("\"score\":1") + plain);
  EXPECT_THAT(ErrorOf(), HasSubstr("1.jsonl:2: no field 'advantage'"));
  EXPECT_THAT(ErrorOf(), HasSubstr("1.jsonl:3: no field 'advantage'"));
  Write("1.jsonl", plain + trl);
  EXPECT_THAT(ErrorOf(), HasSubstr("1.jsonl:2: no field 'reward'"));
}

TEST_F(BadDumpsTest, FilesNextToTheFolderOfTrlAreNamed) {
  Write("completions/a.jsonl", Trl(R"("right":1,"advantage":0)"));
  Write("1.jsonl", Verl("\"score\":1"));
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, ElementsAre("read " + folder_.path() +
                                    "/completions, and left out 1 file next to it, the first: "
                                    "1.jsonl"));
}

TEST_F(BadDumpsTest, EmptyGroupsAndGroupsWithoutARewardAreNamed) {
  Write("a.jsonl", "{\"rewards\":[1,NaN]}\n{\"rewards\":[1,0]}\n");
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, testing::Contains(HasSubstr(
                            "rewards is absent, empty, null, NaN or infinite in 1 row, the first "
                            "a.jsonl:1: ")));
  options_.rewards = {"right"};
  EXPECT_THAT(ErrorOf(), HasSubstr("--reward right: rows of whole groups have one reward"));
  options_.rewards.clear();
  Write("a.jsonl", "{\"rewards\":[1,0]}\n{\"rewards\":[]}\n{\"rewards\":3}\n");
  EXPECT_THAT(ErrorOf(), HasSubstr("a.jsonl:2: expected a list 'rewards'"));
  EXPECT_THAT(ErrorOf(), HasSubstr("a.jsonl:3: expected a list 'rewards'"));
}

TEST_F(BadDumpsTest, ATokenLimitWithoutTokensHasNoEffectAndSaysSo) {
  options_.max_tokens = 8;
  Write("1.jsonl", Verl("\"score\":1"));
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, ElementsAre("--max-tokens has no effect: the rows have no number of tokens "
                                    "(response_length)"));
  Write("1.jsonl", Verl("\"score\":1,\"response_length\":8"));
  EXPECT_EQ(CompletionsOf(ReadAll())[0].truncated, true);
  EXPECT_THAT(remarks_, IsEmpty());
}

TEST_F(BadDumpsTest, AFileThatCannotBeOpenedIsAnErrorUnlessBadRowsAreSkipped) {
  const std::filesystem::path golden = BUTTRESS_GOLDEN_DIR "/columns/trl/completions_00009.parquet";
  if (!BUTTRESS_HAS_ARROW) GTEST_SKIP() << "built without Arrow";
  std::filesystem::copy_file(golden, folder_.path() + "/completions_00009.parquet");
  Write("completions_00010.parquet", "PAR1 half of a file");
  EXPECT_THAT(ErrorOf(), HasSubstr("completions_00010.parquet"));
  EXPECT_THAT(ErrorOf(), HasSubstr("--skip-bad leaves the file out"));
  options_.skip_bad = true;
  EXPECT_EQ(ReadAll()->size(), 1);
  EXPECT_THAT(remarks_, testing::Contains(HasSubstr("1 of 2 files are no such dumps")));
  options_.skip_bad = false;
  options_.growing = true;
  EXPECT_EQ(ReadAll()->size(), 1);
  EXPECT_THAT(remarks_, testing::Contains(HasSubstr("completions_00010.parquet is not finished")));
}

TEST_F(BadDumpsTest, AFileThatBeginsToGrowHasNoGroupYet) {
  options_.growing = true;
  for (const char* begin : {"", "{\"input\":\"p"}) {
    Write("1.jsonl", begin);
    const Result<Steps> steps = ReadAll();
    ASSERT_TRUE(steps.ok()) << steps.status().ToString();
    EXPECT_THAT(*steps, IsEmpty());
    EXPECT_THAT(remarks_, ElementsAre(HasSubstr("1.jsonl is not finished")));
  }
  Write("1.jsonl", "not a dump\n");
  EXPECT_THAT(ErrorOf(), HasSubstr("its rows are no objects of JSON"));
}

}  // namespace
}  // namespace buttress
