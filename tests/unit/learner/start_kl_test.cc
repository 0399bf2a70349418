#include "learner/step/start_kl.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/support/temp_dir.h"
#include "tests/support/test_group.h"
#include "tests/unit/learner/small_model.h"

namespace buttress {
namespace {

FetchedGroup TwoCompletions() {
  FetchedGroup fetched{NewGroup(1)};
  for (int i = 0; i < 3; ++i) {
    AppendCompletion(fetched.group, {3, 4, 5, 6}, i == 0 ? Outcome::kUnscorable : Outcome::kWrong,
                     0);
  }
  AddTrainedSpan(fetched.group, 2, {0, 3});
  return fetched;
}

TEST(StartKlTest, TakesTheFirstScorableCompletionsWithinTheBounds) {
  const std::vector<FetchedGroup> groups = {TwoCompletions(), TwoCompletions()};
  EXPECT_EQ(FirstCompletions(groups, 100, 100).trained_tokens(), 14);
  EXPECT_EQ(FirstCompletions(groups, 7, 100).trained_tokens(), 7);
  EXPECT_EQ(FirstCompletions(groups, 1, 100).trained_tokens(), 4);  // one at least
  EXPECT_EQ(FirstCompletions(groups, 100, 8).trained_tokens(), 4);
  EXPECT_TRUE(FirstCompletions({}, 100, 100).empty());
}

TEST(StartKlTest, IsZeroForTheStartModelAndTheMeanEstimateForAnother) {
  const TempDir folder;
  const auto start = SmallModel();
  const std::string path = Saved(*start, folder.path());
  const TokenBatch batch = FirstCompletions(std::vector{TwoCompletions()}, 100, 100);
  const auto same = MeasureStartKl(*start, {path, ModelDtype::kFloat32}, batch, {});
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  EXPECT_NEAR(*same, 0, 1e-9);

  const auto moved = SmallModel(ModelDtype::kFloat32, 8);
  const auto kl = MeasureStartKl(*moved, {path, ModelDtype::kFloat32}, batch, {});
  ASSERT_TRUE(kl.ok()) << kl.status().ToString();
  const at::NoGradGuard no_grad;
  const at::Tensor x_M =
      (batch.Run(*moved, {}).output().logprobs_M - batch.Run(*start, {}).output().logprobs_M)
          .to(at::kDouble);
  const double expected = (at::exp(-x_M) + x_M - 1).mean().item<double>();
  EXPECT_GT(expected, 0.001);
  EXPECT_NEAR(*kl, expected, 1e-5);
}

TEST(StartKlTest, AStartModelThatIsGoneIsAnError) {
  const auto model = SmallModel();
  const TokenBatch batch = FirstCompletions(std::vector{TwoCompletions()}, 100, 100);
  EXPECT_FALSE(MeasureStartKl(*model, {"/nowhere", ModelDtype::kFloat32}, batch, {}).ok());
}

}  // namespace
}  // namespace buttress
