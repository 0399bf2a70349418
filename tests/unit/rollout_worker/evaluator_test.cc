#include "rollout_worker/evaluation/evaluator.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/measure/best_model.h"
#include "lib/measure/eval_files.h"
#include "lib/policy/transformer.h"
#include "rollout_worker/evaluation/local_models.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

class EvaluatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    config_.local.out = out_.path();
    config_.run.data.held_out = JoinPath(out_.path(), "held_out.jsonl");
    config_.run.reward.verifier = "exact";
    config_.run.sampling.max_tokens = 4;
    config_.run.eval.every = 10;
    std::string text;
    for (const char* prompt : {"1+2=", "3+3=", "7=", "12+21="})
      text += nlohmann::json{{"prompt", prompt}, {"answer", "3"}}.dump() + "\n";
    ASSERT_TRUE(WriteFileAtomic(config_.run.data.held_out, text).ok());
  }

  // Leaves random weights, which differ by step, as the learner leaves those of a step.
  std::string Leave(std::uint64_t epoch, std::int64_t step) const {
    const std::string folder = PendingEvalFolderOf(out_.path(), epoch, step);
    NewModelOptions model;
    model.characters = "0123456789+=";
    model.layers = 1;
    model.hidden = 32;
    model.heads = 1;
    model.intermediate = 64;
    model.max_positions = 32;
    EXPECT_TRUE(WriteNewModel(model, folder).ok());
    const auto config = LoadModelConfig(folder);
    EXPECT_TRUE(config.ok()) << config.status().message();
    const auto random =
        Transformer::Random(*config, ModelDtype::kFloat32, {}, static_cast<std::uint64_t>(step));
    EXPECT_TRUE(SaveModelFolder(**random, folder, folder).ok());
    return folder;
  }

  std::vector<EvalRow> Rows() const { return *ReadEvals(out_.path()); }

  TempDir out_;
  RunConfig config_;
};

TEST_F(EvaluatorTest, WaitingWeightsAreEvaluatedOnceAndAsByTheCommand) {
  const std::string folder = Leave(2, 10);
  EvalOptions options = EvalOptionsOf(config_);
  options.model.path = folder;
  const auto expected = Evaluate(options, &kLocalModels);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  const Status done = EvaluatePending(config_);
  ASSERT_TRUE(done.ok()) << done.message();
  ASSERT_EQ(Rows().size(), 1U);
  EXPECT_EQ(Rows()[0].step, 10);
  EXPECT_EQ(Rows()[0].learner_epoch, 2U);
  EXPECT_EQ(Rows()[0].prompts, 4);
  EXPECT_EQ(Rows()[0].accuracy, expected->accuracy());
  EXPECT_EQ(Rows()[0].tokens, expected->tokens);
  EXPECT_EQ(Rows()[0].truncated, expected->truncated);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_FALSE(std::filesystem::exists(BestModelFolder(out_.path()))) << "keep_best is 0";
  ASSERT_TRUE(EvaluatePending(config_).ok());
  EXPECT_EQ(Rows().size(), 1U);
}

TEST_F(EvaluatorTest, PromptsAndSamplesAreBounded) {
  config_.run.eval.prompts = 3;
  config_.run.eval.samples = 5;
  config_.run.eval.temperature = 1;
  Leave(1, 10);
  ASSERT_TRUE(EvaluatePending(config_).ok());
  ASSERT_EQ(Rows().size(), 1U);
  EXPECT_EQ(Rows()[0].prompts, 3);
  EXPECT_EQ(Rows()[0].completions, 15);
  EXPECT_EQ(Rows()[0].temperature, 1);
}

// A process that was killed between the row and the removal of the weights.
TEST_F(EvaluatorTest, ARowThatIsThereIsNotMadeAgainAndItsWeightsBecomeTheBest) {
  config_.run.checkpoints.keep_best = 1;
  const std::string folder = Leave(1, 10);
  EvalRow row;
  row.step = 10;
  row.learner_epoch = 1;
  row.accuracy = 0.875;
  ASSERT_TRUE(AddEval(out_.path(), row).ok());
  ASSERT_TRUE(EvaluatePending(config_).ok());
  EXPECT_EQ(Rows().size(), 1U);
  EXPECT_EQ(Rows()[0].accuracy, 0.875);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(**ReadBest(out_.path()), (BestMark{10, "eval_accuracy", 0.875}));
  EXPECT_TRUE(std::filesystem::exists(JoinPath(BestModelFolder(out_.path()), "tokenizer.json")));
}

TEST_F(EvaluatorTest, WeightsThatCannotBeEvaluatedDoNotHoldUpOthers) {
  const std::string damaged = Leave(1, 10);
  std::filesystem::remove(JoinPath(damaged, "config.json"));
  Leave(1, 20);
  ASSERT_TRUE(EvaluatePending(config_).ok());
  ASSERT_EQ(Rows().size(), 1U);
  EXPECT_EQ(Rows()[0].step, 20);
  EXPECT_TRUE(ListPendingEvals(out_.path()).empty());
}

}  // namespace
}  // namespace buttress
