#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "lib/data/line_reader.h"
#include "lib/explain/post_mortem.h"
#include "tests/unit/cli/explain/dump_steps_fixture.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

TEST_F(DumpStepsTest, VerlRowsOfOnePromptFormAGroupInAnyOrder) {
  Write("10.jsonl", "{\"input\":\"p\",\"output\":\"a\",\"gts\":\"4\",\"score\":1.0,\"step\":10}\n");
  Write("9.jsonl",
        "{\"input\":\"p\",\"output\":\"the answer is 4\",\"gts\":\"4\",\"score\":1.0,\"step\":9}\n"
        "{\"input\":\"q\",\"output\":\"c\",\"gts\":\"7\",\"score\":0.0,\"step\":9}\n"
        "{\"input\":\"p\",\"output\":\"b\",\"gts\":\"4\",\"score\":0.5,\"step\":9}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ(steps->size(), 2);
  ASSERT_EQ((*steps)[0].size(), 2);
  const GroupFacts& p = (*steps)[0][0];
  EXPECT_EQ(p.step, 9);
  EXPECT_EQ(p.where, "9.jsonl:1");
  ASSERT_EQ(p.completions.size(), 2);
  EXPECT_EQ(p.completions[1].deciding_reward, 0.5);
  EXPECT_EQ(p.completions[0].states_truth, true);
  EXPECT_EQ(p.completions[1].states_truth, false);
}

TEST_F(DumpStepsTest, VerlUidsSeparateGroupsOfOnePromptAndAccuracyDecides) {
  Write("1.jsonl",
        "{\"input\":\"p\",\"output\":\"a\",\"gts\":\"\",\"score\":0.4,\"acc\":true,\"step\":1,"
        "\"uid\":\"x_0_0\"}\n"
        "{\"input\":\"p\",\"output\":\"b\",\"gts\":\"\",\"score\":0.6,\"acc\":1.0,\"step\":1,"
        "\"uid\":\"x_1_0\"}\n"
        "{\"input\":\"p\",\"output\":\"c\",\"gts\":\"\",\"score\":0.4,\"acc\":0,\"step\":1,\"uid\":"
        "\"y_0_0\"}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ((*steps)[0].size(), 2);
  const GroupFacts& x = (*steps)[0][0];
  EXPECT_EQ(x.completions.size(), 2);
  EXPECT_EQ(x.completions[0].deciding_reward, 1.0);
  EXPECT_EQ(x.completions[0].raw_reward, 0.4);
  EXPECT_EQ(x.completions[0].outcome, Outcome::kCorrect);
}

TEST_F(DumpStepsTest, VerlWritesTheValuesOfNumpyAsTexts) {
  Write("1.jsonl",
        "{\"input\":\"1\",\"output\":\"2\",\"gts\":\"\",\"score\":\"0.5\",\"acc\":\"True\","
        "\"step\":\"1\"}\n"
        "{\"input\":\"1\",\"output\":\"3\",\"gts\":\"\",\"score\":\"nan\",\"acc\":\"False\","
        "\"step\":1}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  const GroupFacts& group = (*steps)[0][0];
  ASSERT_EQ(group.completions.size(), 2);
  EXPECT_EQ(group.completions[0].raw_reward, 0.5);
  EXPECT_EQ(group.completions[0].outcome, Outcome::kCorrect);
  EXPECT_EQ(group.completions[1].outcome, Outcome::kUnscorable);
}

TEST_F(DumpStepsTest, ManyGroupsWithoutAConstantOneMayBeWhatAFilterKept) {
  std::string text;
  for (int prompt = 0; prompt < 32; ++prompt) {
    for (int reward = 0; reward < 2; ++reward)
      text += fmt::format(R"({{"input":"p{}","output":"a{}","gts":"","score":{},"step":{}}})"
                          "\n",
                          prompt, reward, reward, prompt / 8);
  }
  Write("1.jsonl", text);
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr("none of 32 groups is constant")));
  Write("1.jsonl", text + R"({"input":"p","output":"a","gts":"","score":1,"step":4})"
                          "\n"
                          R"({"input":"p","output":"b","gts":"","score":1,"step":4})"
                          "\n");
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, ::testing::IsEmpty());
}

TEST_F(DumpStepsTest, NaNIsACompletionWithoutAVerdict) {
  Write("1.jsonl",
        "{\"input\":\"NaN \\\" NaN\",\"output\":\"a\",\"gts\":null,\"score\":NaN,\"step\":1}\n"
        "{\"input\":\"NaN \\\" "
        "NaN\",\"output\":\"b\",\"gts\":null,\"score\":-Infinity,\"step\":1}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ((*steps)[0][0].completions.size(), 2);
  EXPECT_TRUE(std::isnan((*steps)[0][0].completions[0].deciding_reward));
  EXPECT_TRUE(std::isnan((*steps)[0][0].completions[1].deciding_reward));
  EXPECT_THAT((*steps)[0][0].prompt_id, HasSubstr("NaN \" NaN"));
}

TEST_F(DumpStepsTest, TrlRewardsAreSumsOfColumnsAndChatsBecomeText) {
  const std::string chat = R"("prompt":[{"role":"user","content":"2+2?"}],)"
                           R"("completion":[{"role":"assistant","content":"4"}])";
  Write("completions/completions_00001.jsonl",
        "{\"step\":1," + chat +
            ",\"accuracy\":1.0,\"format\":0.5,\"advantage\":0.1}\n"
            "{\"step\":1," +
            chat + ",\"accuracy\":null,\"format\":null,\"advantage\":0.0}\n");
  Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  const GroupFacts& group = (*steps)[0][0];
  ASSERT_EQ(group.completions.size(), 2);
  EXPECT_EQ(group.completions[0].deciding_reward, 1.5);
  EXPECT_TRUE(std::isnan(group.completions[1].deciding_reward));
  EXPECT_EQ(group.completions[0].text.words, 1);
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr("accuracy is absent, empty, null"),
                                               HasSubstr("format is absent, empty, null"),
                                               HasSubstr("accuracy + format")));
  options_.rewards = {"accuracy"};
  steps = ReadAll();
  EXPECT_EQ((*steps)[0][0].completions[0].deciding_reward, 1.0);
}

TEST_F(DumpStepsTest, ACompletionWithoutAVerdictLeavesItsGroupToTheOthers) {
  const auto row = [](const char* prompt, const char* reward) {
    return fmt::format(R"({{"step":1,"prompt":"{}","completion":"{}","right":{},"advantage":0}})"
                       "\n",
                       prompt, reward, reward);
  };
  Write("a.jsonl", row("p", "1") + row("p", "NaN") + row("p", "1") + row("q", "0") + row("q", "0") +
                       row("q", "null"));
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ((*steps)[0][0].collapse(), CollapseClass::kAllCorrect);
  EXPECT_EQ((*steps)[0][1].collapse(), CollapseClass::kAllWrong);
}

TEST_F(DumpStepsTest, TrlAdvantagesGiveTheWeightsOfTheColumns) {
  const auto row = [](const char* text, double accuracy, double format, int letters, double mean) {
    return fmt::format(
        R"({{"step":1,"prompt":"p","completion":"{}","accuracy":{},"format":{},"letters":{},)"
        R"("advantage":{}}})"
        "\n",
        text, accuracy, format, letters, accuracy + 0.5 * format - mean);
  };
  Write("a.jsonl", row("a", 1, 0.5, 7, 0.6875) + row("b", 0, 1, 3, 0.6875) +
                       row("c", 0, 0, 4, 0.6875) + row("d", 1, 0, 9, 0.6875));
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  const GroupFacts& group = (*steps)[0][0];
  EXPECT_EQ(group.completions[0].raw_reward, 1.25);
  EXPECT_EQ(group.completions[1].raw_reward, 0.5);
  EXPECT_EQ(group.completions[1].outcome, Outcome::kWrong);
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr(
                            "the raw reward is accuracy + 0.5 format: these weights give the "
                            "advantages, so letters is no reward; ")));
}

TEST_F(DumpStepsTest, ABatchThatTrlLogsTwiceCountsOnce) {
  const auto row = [](int step, const char* text) {
    return "{\"step\":" + std::to_string(step) + ",\"prompt\":\"p\",\"completion\":\"" + text +
           "\",\"r\":1.0,\"advantage\":0}\n";
  };
  Write("completions_00001.jsonl", row(1, "a") + row(1, "b"));
  Write("completions_00002.jsonl", row(2, "a") + row(2, "b"));
  Write("completions_00003.jsonl", row(3, "a") + row(3, "c"));
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ(steps->size(), 2);
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr("1 steps were left out")));
}

TEST_F(DumpStepsTest, PlainRowsMayHoldEveryFact) {
  Write("a.jsonl",
        "{\"id\":7,\"reward\":0,\"outcome\":\"wrong\",\"tokens\":512,\"finish_reason\":\"length\","
        "\"version\":3,\"logprob\":-12.5,\"worker\":\"w1\","
        "\"source\":\"s\",\"step\":9}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  const GroupFacts& group = (*steps)[0][0];
  EXPECT_EQ(group.prompt_id, "7");
  EXPECT_EQ(group.source, "s");
  EXPECT_EQ(group.sampler, "w1");
  EXPECT_EQ(group.version_step, 3);
  EXPECT_EQ(group.completions[0].truncated, true);
  EXPECT_EQ(group.completions[0].logprob, -12.5);
  EXPECT_FALSE(group.completions[0].text.known());
}

TEST_F(DumpStepsTest, GroupRowsHaveTheFormatOfTheAdvantagesCommand) {
  Write(
      "a.jsonl",
      "{\"id\":\"q\",\"step\":2,\"rewards\":[1,0,null],\"history\":{\"correct\":1,\"scored\":4}}\n"
      "{\"id\":\"q\",\"step\":2,\"rewards\":[1,1]}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ((*steps)[0].size(), 2);
  EXPECT_EQ((*steps)[0][0].completions.size(), 3);
  EXPECT_EQ((*steps)[0][0].history, (PromptHistory{1, 4}));
}

TEST_F(DumpStepsTest, AdjacentRowsWithoutAStepFormGroups) {
  std::string text;
  for (int visit = 0; visit < 2; ++visit) {
    for (int prompt = 0; prompt < 100; ++prompt) {
      for (int i = 0; i < 2; ++i)
        text +=
            "{\"prompt\":\"p" + std::to_string(prompt) + "\",\"completion\":\"x\",\"reward\":1}\n";
    }
  }
  Write("a.jsonl", text);
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ(steps->size(), 2);
  EXPECT_EQ((*steps)[0].size(), 128);
  EXPECT_EQ((*steps)[1].size(), 72);
  for (const auto& step : *steps) {
    for (const GroupFacts& group : step) EXPECT_EQ(group.completions.size(), 2);
  }
}

TEST_F(DumpStepsTest, BadRowsAreReportedByFileAndLineOrSkippedAndCounted) {
  Write("1.jsonl",
        "{\"prompt\":\"p\",\"completion\":\"x\",\"reward\":1,\"step\":5}\n"
        "\n"
        "{\"prompt\":\"p\",\"completion\":\"x\",\"reward\":\"high\",\"step\":5}\n"
        "{\"completion\":\"x\",\"reward\":1,\"step\":5}\n"
        "{\"prompt\":\"p\",\"completion\":\"x\",\"reward\":1,\"step\":4}\n"
        "{\"prompt\":\"p\",\"completion\":\"x\",\"rew");
  const std::string error = ErrorOf();
  EXPECT_THAT(error, HasSubstr("4 bad rows"));
  EXPECT_THAT(error,
              HasSubstr("1.jsonl:3: reward = \"high\"; expected a number, true, false or null"));
  EXPECT_THAT(error, HasSubstr("1.jsonl:4: no field 'prompt'"));
  EXPECT_THAT(error, HasSubstr("1.jsonl:5: step 4 after step 5"));
  EXPECT_THAT(error, HasSubstr("1.jsonl:6: not a JSON object: the file ends inside this line"));
  options_.skip_bad = true;
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ((*steps)[0][0].completions.size(), 1);
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr("4 bad rows were left out, the first: ")));
}

TEST_F(DumpStepsTest, ALineThatIsNoObjectIsShownWhereItGoesWrong) {
  const std::string row = R"({"prompt":"p","completion":"x","reward":1,"step":1})";
  const std::string half = R"({"prompt":"p","completion":"x)";
  Write("1.jsonl", row + "\n" + half + "\n[1]\n" + R"({"step":1}\x1b)" + "\n{\"a\":\"\xff\"}\n" +
                       row.substr(0, row.size() - 1) + ",\x1b}\n" + std::string(99, '[') + "\n");
  const std::string error = ErrorOf();
  EXPECT_THAT(error, HasSubstr("1.jsonl:2: not a JSON object: it breaks off after: "
                               "{\"prompt\":\"p\",\"completion\":\"x"));
  EXPECT_THAT(error, HasSubstr("1.jsonl:3: not a JSON object: it is of the type array: [1]"));
  EXPECT_THAT(error, HasSubstr("1.jsonl:5: not a JSON object: byte 7 is not UTF-8: {\"a\":\""));
  EXPECT_THAT(error, HasSubstr("1.jsonl:7: not a JSON object: it is nested deeper than 64 levels"));
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

// Steps are numbers of a sequence: -1 and 1.5 are none.
TEST_F(DumpStepsTest, AStepIsAWholeNumberThatIsNotNegative) {
  for (const char* step : {"-1", "1.5", "1e300", "\"x\""}) {
    Write("1.jsonl",
          fmt::format(R"({{"prompt":"p","completion":"x","reward":1,"step":{}}})", step) + "\n");
    EXPECT_THAT(ErrorOf(), HasSubstr("expected a whole number, not negative")) << step;
  }
}

TEST_F(DumpStepsTest, ARewardOfTrueIsOneAndATextOfNanIsNone) {
  Write("1.jsonl",
        "{\"input\":\"p\",\"output\":\"a\",\"score\":true,\"step\":1}\n"
        "{\"input\":\"p\",\"output\":\"b\",\"score\":false,\"step\":1}\n"
        "{\"input\":\"p\",\"output\":\"c\",\"score\":\"nan\",\"step\":1}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  const GroupFacts& group = (*steps)[0][0];
  EXPECT_EQ(group.completions[0].deciding_reward, 1);
  EXPECT_EQ(group.completions[1].deciding_reward, 0);
  EXPECT_EQ(group.completions[2].outcome, Outcome::kUnscorable);
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr("in 1 row, the first 1.jsonl:3")));
}

TEST_F(DumpStepsTest, ALineThatIsBeingWrittenIsLeftOutOfADumpThatGrows) {
  const std::string row = R"({"prompt":"p","completion":"x","reward":1,"step":1})";
  Write("1.jsonl", row + "\n" + row + "\n" + row.substr(0, 20));
  options_.growing = true;
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ((*steps)[0][0].completions.size(), 2);
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr("1.jsonl:3 is not finished")));
  Write("2.jsonl", row + "\n");  // a file that others follow is whole
  EXPECT_THAT(ErrorOf(), HasSubstr("1.jsonl:3: not a JSON object"));
}

TEST_F(DumpStepsTest, FilesOfAnotherFormatAreNamed) {
  Write("1.jsonl", R"({"prompt":"p","completion":"x","reward":1,"step":1})"
                   "\n");
  Write("rows.csv", "prompt,completion,reward\np,x,1\n");
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, ::testing::ElementsAre(
                            HasSubstr("left out 1 file of another format in " + folder_.path() +
                                      ", the first: rows.csv; a folder is read in one format")));
}

// What is not comparable says nothing of what a trainer filters out.
TEST_F(DumpStepsTest, GroupsWithoutAVerdictAreNotTakenForFilteredOnes) {
  std::string text;
  for (int k = 0; k < 40; ++k)
    text += fmt::format(R"({{"step":1,"rewards":[null,null],"id":"{}"}})", k) + "\n";
  Write("1.jsonl", text + R"({"step":1,"rewards":[1,0,1,0],"id":"m"})" + "\n");
  ASSERT_TRUE(ReadAll().ok());
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr("rewards is absent, empty, null")));
}

TEST_F(DumpStepsTest, AHugeRewardIsUnscorableNamedAndCounted) {
  Write("1.jsonl",
        "{\"prompt\":\"p\",\"completion\":\"x\",\"reward\":1,\"step\":5}\n"
        "{\"prompt\":\"p\",\"completion\":\"x\",\"reward\":1e308,\"step\":5}\n"
        "{\"prompt\":\"p\",\"completion\":\"x\",\"reward\":0,\"step\":5}\n"
        "{\"prompt\":\"q\",\"completion\":\"x\",\"reward\":-1e308,\"step\":5}\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ((*steps)[0][0].completions[0].deciding_reward, 1);
  EXPECT_EQ((*steps)[0][0].completions[1].outcome, Outcome::kUnscorable);
  EXPECT_THAT(remarks_, ::testing::ElementsAre(HasSubstr(
                            "2 completions count as unscorable, because their rewards are not in "
                            "[-1000000, 1000000], the first: 1.jsonl:2: reward = 1e+308")));
  PostMortem post_mortem(CauseRules{}, {});
  const Status added = post_mortem.Add((*steps)[0]);
  EXPECT_TRUE(added.ok()) << added.ToString();
  EXPECT_EQ(post_mortem.Finish().all.groups, 2);
}

TEST_F(DumpStepsTest, AnUnknownDialectIsRefusedWithItsFields) {
  Write("1.jsonl", "{\"loss\":1,\"lr\":2}\n");
  EXPECT_THAT(ErrorOf(), HasSubstr("the fields loss, lr belong to no known dump"));
}

TEST_F(DumpStepsTest, FieldsOfCsvAreNumbersWhereTheDialectHasNumbers) {
  Write("a.csv", "prompt,completion,reward,step,outcome\n7,x,1,3,correct\n7,\"4\",0.5,3,wrong\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  const GroupFacts& group = (*steps)[0][0];
  EXPECT_EQ(group.step, 3);
  ASSERT_EQ(group.completions.size(), 2);
  EXPECT_EQ(group.completions[1].deciding_reward, 0.5);
  EXPECT_EQ(group.completions[1].outcome, Outcome::kWrong);
  Write("a.csv", "prompt,completion,reward\np,x,high\n");
  EXPECT_THAT(ErrorOf(), HasSubstr("a.csv:1: reward = \"high\"; expected a number"));
}

// Written by tests/golden/make_columns.py in the form of TRL's log_completions.
TEST_F(DumpStepsTest, ParquetOfTrlIsReadInTheOrderOfItsSteps) {
  if (!BUTTRESS_HAS_ARROW) GTEST_SKIP() << "built without Arrow";
  for (const char* name : {"completions_00009.parquet", "completions_00010.parquet"}) {
    std::filesystem::create_directories(folder_.path() + "/completions");
    std::filesystem::copy_file(std::string(BUTTRESS_GOLDEN_DIR "/columns/trl/") + name,
                               folder_.path() + "/completions/" + name);
  }
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  ASSERT_EQ(steps->size(), 2);
  ASSERT_EQ((*steps)[0].size(), 2);
  EXPECT_EQ((*steps)[0][0].step, 9);
  EXPECT_EQ((*steps)[0][0].completions[0].raw_reward, 1.5);
  EXPECT_EQ((*steps)[0][0].completions[0].outcome, Outcome::kCorrect);  // by accuracy alone
  EXPECT_EQ((*steps)[0][1].completions[1].deciding_reward, 0.0);
  EXPECT_EQ((*steps)[1][0].step, 10);
}

// The rows of a group of two, as TRL writes them.
std::string TrlRows(std::int64_t step, const std::string& prompt) {
  std::string rows;
  for (const int right : {0, 1}) {
    rows += fmt::format(
        R"({{"step":{0},"prompt":"{1}","completion":"{0}{2}","right":{2},"advantage":{3}}})", step,
        prompt, right, right == 1 ? 0.7 : -0.7);
    rows += "\n";
  }
  return rows;
}

TEST_F(DumpStepsTest, StepsOfTrlThatAnEvaluationWroteOverAreLeftOut) {
  std::string rows;
  for (std::int64_t step = 1; step <= 12; ++step)
    rows += TrlRows(step, step % 4 == 0 ? "evaluation" : "training");
  Write("completions/a.jsonl", rows);
  EXPECT_EQ(ReadAll()->size(), 12);
  // The evaluation of step 12 is newer than the state.
  Write("checkpoint-9/trainer_state.json",
        R"({"global_step": 9, "eval_steps": 4, "log_history": [{"step": 4, "loss": 1},
            {"step": 4, "eval_reward": 0.5}, {"step": 8, "eval_reward": 0.5}, 3]})");
  Write("checkpoint-5/trainer_state.json", R"({"global_step": 5, "log_history": []})");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ(steps->size(), 9);
  for (const std::vector<GroupFacts>& groups : *steps)
    EXPECT_EQ(groups[0].prompt_id, (*steps)[0][0].prompt_id);
  EXPECT_THAT(remarks_,
              testing::Contains(HasSubstr("3 steps were left out because TRL evaluated")));
  Write("trainer_state.json", "{");  // half written
  EXPECT_EQ(ReadAll()->size(), 12);
}

TEST_F(DumpStepsTest, StepsThatAreNotLoggedAreTold) {
  std::string rows = TrlRows(1, "p");  // logging_first_step
  for (const std::int64_t step : {10, 20, 30, 40}) rows += TrlRows(step, "p");
  Write("a.jsonl", rows);
  EXPECT_EQ(ReadAll()->size(), 5);
  EXPECT_THAT(remarks_, testing::Contains(HasSubstr("the dump has one of every 10 steps, so the "
                                                    "numbers are of a sample: TRL logs")));
  Write("a.jsonl", rows + TrlRows(41, "p"));
  EXPECT_EQ(ReadAll()->size(), 6);
  EXPECT_THAT(remarks_, testing::Not(testing::Contains(HasSubstr("of a sample"))));
}

TEST_F(DumpStepsTest, FilesThatAreNoDumpsAreLeftOutAndNamed) {
  Write("1.jsonl", "{\"prompt\":\"p\",\"completion\":\"x\",\"reward\":1,\"step\":5}\n");
  Write("2.jsonl", "{\"input\":\"p\",\"output\":\"x\",\"score\":1,\"step\":6}\n");
  Write("metrics.jsonl", "{\"loss\":1,\"lr\":2}\n{\"loss\":1,\"lr\":2}\n");
  Write("notes.jsonl", "remember to\n");
  const Result<Steps> steps = ReadAll();
  ASSERT_TRUE(steps.ok()) << steps.status().ToString();
  EXPECT_EQ(steps->size(), 1);
  ASSERT_EQ(remarks_.size(), 1);
  EXPECT_THAT(remarks_[0], HasSubstr("3 of 4 files are no such dumps and were left out: "));
  EXPECT_THAT(remarks_[0], HasSubstr("2.jsonl: it is of verl, the files before it are of plain"));
  EXPECT_THAT(remarks_[0], HasSubstr("metrics.jsonl: the fields loss, lr belong to no known dump"));
  EXPECT_THAT(remarks_[0], HasSubstr("notes.jsonl: its rows are no objects of JSON, the first: "
                                     "byte 1 is no JSON: rem"));
}

TEST_F(DumpStepsTest, OnlyWhatIsNoDumpMayBeALogOfMetrics) {
  Write("1.jsonl", "{\"loss\":1}\n");
  EXPECT_EQ(ReadAll().status().code(), StatusCode::kNotFound);
  Write("1.jsonl", "{\"prompt\":\"p\",\"reward\":1}\n{\"pro");
  EXPECT_EQ(ReadAll().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(DumpStepsTest, AnEmptyFolderIsRefusedWithTheExpectedFiles) {
  EXPECT_THAT(ErrorOf(), HasSubstr("neither ledger.db nor *.jsonl, *.parquet"));
}

TEST_F(DumpStepsTest, LinesLongerThanTheBufferAreReadWhole) {
  const std::string longer(3 << 20, 'x');
  Write("a", longer + "\nshort\n" + longer);
  const auto reader = LineReader::Open(folder_.path() + "/a");
  ASSERT_TRUE(reader.ok());
  std::string_view line;
  EXPECT_TRUE(*(*reader)->Next(line));
  EXPECT_EQ(line, longer);
  EXPECT_TRUE(*(*reader)->Next(line));
  EXPECT_EQ(line, "short");
  EXPECT_TRUE((*reader)->ended());
  EXPECT_TRUE(*(*reader)->Next(line));
  EXPECT_EQ(line, longer);
  EXPECT_FALSE((*reader)->ended());
  EXPECT_FALSE(*(*reader)->Next(line));
}

}  // namespace
}  // namespace buttress
