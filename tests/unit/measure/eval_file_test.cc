#include <gmock/gmock.h>

#include <cmath>

#include "lib/base/os/file.h"
#include "lib/measure/eval_files.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

EvalRow Evaluated(std::int64_t step, std::uint64_t epoch, double accuracy) {
  EvalRow row;
  row.step = step;
  row.learner_epoch = epoch;
  row.time_unix = 1000.5 + static_cast<double>(step);
  row.accuracy = accuracy;
  row.raw_reward_mean = accuracy / 2;
  row.prompts = 50;
  row.completions = 100;
  row.unscorable = 3;
  row.truncated = 20;
  row.tokens = 700;
  row.temperature = 0.7;
  row.seconds = 1.25;
  return row;
}

TEST(EvalFileTest, ARowIsReadBackAsItWasWritten) {
  const EvalRow row = Evaluated(40, 3, 0.1 + 0.2);
  EXPECT_DOUBLE_EQ(row.truncated_share(), 0.2);
  const auto read = ParseEval(EvalToJson(row));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, row);
  const auto without_verdict = ParseEval(EvalToJson(Evaluated(40, 3, EvalRow::kNotMeasured)));
  ASSERT_TRUE(without_verdict.ok());
  EXPECT_TRUE(std::isnan(without_verdict->accuracy));
  EvalRow of_episodes = row;
  of_episodes.episodes = {2.5, 1.5, 0.25, 0.125};
  const auto again = ParseEval(EvalToJson(of_episodes));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, of_episodes);
}

TEST(EvalFileTest, AStepThatIsTrainedAgainMakesLaterRowsVoid) {
  const TempDir out;
  EXPECT_TRUE(ReadEvals(out.path())->empty());
  for (const EvalRow& row :
       {Evaluated(10, 1, 0.1), Evaluated(20, 1, 0.2), Evaluated(30, 1, 0.3), Evaluated(20, 2, 0.5)})
    ASSERT_TRUE(AddEval(out.path(), row).ok());
  const auto rows = ReadEvals(out.path());
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_THAT(*rows, testing::ElementsAre(Evaluated(10, 1, 0.1), Evaluated(20, 2, 0.5)));
}

TEST(EvalFileTest, ADamagedLineIsNamed) {
  const TempDir out;
  ASSERT_TRUE(AddEval(out.path(), Evaluated(10, 1, 0.1)).ok());
  ASSERT_TRUE(AppendToFile(EvalsPath(out.path()), "{\"step\": \"x\"}\n").ok());
  const auto rows = ReadEvals(out.path());
  EXPECT_EQ(rows.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(rows.status().message(), testing::HasSubstr("eval.jsonl:2: field 'step'"));
}

TEST(EvalFileTest, AnAccuracyComesBackWithItsRows) {
  TempDir dir;
  const std::string path = JoinPath(dir.path(), "eval_before.json");
  ASSERT_TRUE(
      WriteFileAtomic(path, R"({"accuracy": 0.5, "prompts": 3, "by_row": [1, null, 0]})").ok());
  const auto read = ReadAccuracy(path);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->accuracy, 0.5);
  ASSERT_EQ(read->by_row.size(), 3);
  EXPECT_EQ(read->by_row[0], 1);
  EXPECT_TRUE(std::isnan(read->by_row[1]));
  ASSERT_TRUE(WriteFileAtomic(path, R"({"accuracy": 0.5, "prompts": 3})").ok());
  EXPECT_TRUE(ReadAccuracy(path)->by_row.empty());
  ASSERT_TRUE(WriteFileAtomic(path, R"({"prompts": 3})").ok());
  EXPECT_EQ(ReadAccuracy(path).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace buttress
