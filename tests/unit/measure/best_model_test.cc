#include "lib/measure/best_model.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

class BestModelTest : public testing::Test {
 protected:
  // A folder that stands for the model of a step.
  std::string Model(std::int64_t step) const {
    const std::string folder = JoinPath(out_.path(), "model-" + std::to_string(step));
    EXPECT_TRUE(MakeFolders(folder).ok());
    EXPECT_TRUE(WriteFileAtomic(JoinPath(folder, "weights"), std::to_string(step)).ok());
    return folder;
  }

  void Offer(std::int64_t step, double value, const std::string& by = "eval_accuracy") {
    const std::string folder = Model(step);
    const Status offered = OfferBest(out_.path(), folder, {step, by, value});
    ASSERT_TRUE(offered.ok()) << offered.message();
    EXPECT_FALSE(std::filesystem::exists(folder));
  }

  std::string Best() const {
    const auto weights = ReadFile(JoinPath(BestModelFolder(out_.path()), "weights"));
    return weights.ok() ? *weights : "none";
  }

  TempDir out_;
};

TEST_F(BestModelTest, OnlyABetterModelTakesThePlace) {
  EXPECT_FALSE(ReadBest(out_.path())->has_value());
  Offer(10, std::nan(""));
  EXPECT_EQ(Best(), "none");
  Offer(20, 0.4);
  EXPECT_EQ(Best(), "20");
  Offer(30, 0.4);
  Offer(40, 0.3);
  Offer(45, std::nan(""));
  EXPECT_EQ(Best(), "20");
  Offer(50, 0.5);
  EXPECT_EQ(Best(), "50");
  EXPECT_EQ(**ReadBest(out_.path()), (BestMark{50, "eval_accuracy", 0.5}));
  Offer(60, 0.1, "raw_reward_mean");  // values of two measures do not compare
  EXPECT_EQ(Best(), "60");
}

TEST_F(BestModelTest, AReplacementThatACrashInterruptedIsEnded) {
  Offer(20, 0.4);
  const std::string best = BestModelFolder(out_.path());
  std::filesystem::rename(best, best + ".replaced");  // the crash came between the two renames
  Offer(30, 0.3);
  EXPECT_EQ(Best(), "20");
  std::filesystem::copy(best, best + ".replaced", std::filesystem::copy_options::recursive);
  Offer(40, 0.6);  // the crash came before the old one was removed
  EXPECT_EQ(Best(), "40");
  EXPECT_FALSE(std::filesystem::exists(best + ".replaced"));
}

TEST_F(BestModelTest, ADamagedMarkIsNamedAndNotReplaced) {
  Offer(20, 0.4);
  ASSERT_TRUE(WriteFileAtomic(JoinPath(BestModelFolder(out_.path()), "best.json"), "{}").ok());
  const Status offered = OfferBest(out_.path(), Model(30), {30, "eval_accuracy", 0.9});
  EXPECT_EQ(offered.code(), StatusCode::kDataLoss);
  EXPECT_THAT(offered.message(),
              testing::HasSubstr("best.json: expected 'step', 'by' and 'value'"));
  EXPECT_EQ(Best(), "20");
}

}  // namespace
}  // namespace buttress
