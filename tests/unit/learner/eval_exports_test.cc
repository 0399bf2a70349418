#include "learner/output/eval_exports.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/measure/eval_files.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/learner/small_model.h"

namespace buttress {
namespace {

class EvalExportsTest : public testing::Test {
 protected:
  EvalExportsTest() {
    config_.local.out = out_.path();
    config_.run.model.path = Saved(*model_, out_.path());
    config_.run.eval.every = 5;
  }

  std::vector<std::int64_t> Pending() const {
    std::vector<std::int64_t> steps;
    for (const PendingEval& pending : ListPendingEvals(out_.path())) steps.push_back(pending.step);
    return steps;
  }

  void Evaluated(std::int64_t step, std::uint64_t epoch, double accuracy) const {
    EvalRow row;
    row.step = step;
    row.learner_epoch = epoch;
    row.accuracy = accuracy;
    row.completions = 4;
    row.truncated = 1;
    ASSERT_TRUE(AddEval(out_.path(), row).ok());
  }

  void OfferTo(EvalExports& exports, const PolicyVersion& version) const {
    if (exports.IsDue(version)) exports.Leave(version, *model_);
  }

  TempDir out_;
  const std::unique_ptr<Transformer> model_ = SmallModel();
  RunConfig config_;
};

TEST_F(EvalExportsTest, WeightsOfEveryDueStepAreLeftAsAModelUntilTheEvaluatorIsBehind) {
  EvalExports exports(config_);
  for (std::uint64_t step = 1; step <= 20; ++step) OfferTo(exports, {3, step, ""});
  EXPECT_THAT(Pending(), testing::ElementsAre(5, 10));
  const auto left =
      Transformer::Load(PendingEvalFolderOf(out_.path(), 3, 5), ModelDtype::kFloat32, {});
  ASSERT_TRUE(left.ok()) << left.status().message();
  for (std::size_t i = 0; i < model_->parameters().size(); ++i)
    EXPECT_TRUE(at::equal((*left)->parameters()[i].second, model_->parameters()[i].second));
  std::filesystem::remove_all(PendingEvalFolderOf(out_.path(), 3, 5));
  OfferTo(exports, {3, 25, ""});
  EXPECT_THAT(Pending(), testing::ElementsAre(10, 25));
  config_.run.eval.every = 0;
  std::filesystem::remove_all(PendingEvalsFolder(out_.path()));
  OfferTo(exports, {3, 30, ""});
  EXPECT_THAT(Pending(), testing::IsEmpty());
}

TEST_F(EvalExportsTest, ADeterministicRunLeavesOutNoStep) {
  config_.run.deterministic = true;
  EvalExports exports(config_);
  for (std::uint64_t step = 1; step <= 20; ++step) OfferTo(exports, {3, step, ""});
  EXPECT_THAT(Pending(), testing::ElementsAre(5, 10, 15, 20));
}

TEST_F(EvalExportsTest, EachResultIsInOneStepAndThoseOfAnotherLineageInNone) {
  StepMeasurements held;
  held.eval_step = 5;
  EvalExports exports(config_);
  exports.Start({2, 12, ""}, std::vector<StepMeasurements>{held});
  for (const auto& [step, epoch] : {std::pair{5, 1}, {10, 1}, {15, 1}})
    Evaluated(step, static_cast<std::uint64_t>(epoch), 0.25);
  StepMeasurements next;
  exports.TakeResult(next);
  EXPECT_EQ(next.eval_step, 10);
  EXPECT_EQ(next.eval_accuracy, 0.25);
  EXPECT_EQ(next.eval_completions, 4);
  EXPECT_EQ(next.eval_truncated_share, 0.25);
  StepMeasurements none;
  exports.TakeResult(none);
  EXPECT_TRUE(std::isnan(none.eval_step));  // step 15 of learner 1 is trained again
  Evaluated(15, 2, 0.5);
  Evaluated(20, 2, 0.75);
  for (const double step : {15, 20}) {
    StepMeasurements taken;
    exports.TakeResult(taken);
    EXPECT_EQ(taken.eval_step, step);
  }
}

TEST_F(EvalExportsTest, AStartRemovesWeightsThatAreTrainedAgain) {
  for (const std::int64_t step : {10, 15})
    ASSERT_TRUE(MakeFolders(PendingEvalFolderOf(out_.path(), 1, step)).ok());
  EvalExports(config_).Start({2, 12, ""}, {});
  EXPECT_THAT(Pending(), testing::ElementsAre(10));
}

}  // namespace
}  // namespace buttress
