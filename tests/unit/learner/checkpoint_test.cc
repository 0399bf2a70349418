#include "learner/output/checkpoint.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "tests/support/runs/power_cut.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

const std::string sync_log = LogSyncs("checkpoint_test");

class CheckpointTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    folder = (std::filesystem::path(testing::TempDir()) / "checkpoint_test").string();
    std::filesystem::remove_all(folder);
  }

  NamedTensors Parameters(double value) const {
    torch::manual_seed(static_cast<std::uint64_t>(value * 10));
    const auto options = at::TensorOptions().dtype(GetParam());
    return {{"a.weight", at::randn({3, 5}, options).requires_grad_(true)},
            {"a.bias", at::randn({5}, options).requires_grad_(true)}};
  }

  // An optimizer that has made two updates.
  static AdamW Worn(const NamedTensors& parameters) {
    AdamW optimizer({PackUnit("unit", parameters)}, OptimConfig(), 1);
    for (int i = 0; i < 2; ++i) {
      optimizer.BeginStep();
      optimizer.Update(0, at::randn_like(optimizer.state().front().second, at::kFloat), 0.1);
    }
    return optimizer;
  }

  CheckpointState State(std::int64_t step) const {
    CheckpointState state;
    state.step = step;
    state.run_id = "0123456789abcdef0123456789abcdef";
    state.learner_epoch = 3;
    state.learner_sha256 = std::string(31, 'l') + '\xff';
    state.seed = 18446744073709551615u;
    state.trainer.skipped_in_a_row = 1;
    state.trainer.entropy = {0.1 + 0.02, 0.3};
    state.trainer.gate.sources["math"] = {0.1 + 0.7, 0.3};
    state.trainer.gate.sources["code"] = {};
    state.trainer.gate.threshold = 0.1 + 0.2;
    state.trainer.gate.reward_mean = 0.7;  // what decimal digits must give back bit for bit
    state.config_sha256 = "abc";
    return state;
  }

  static void ExpectSame(const NamedTensors& a, const NamedTensors& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }

  std::string Path(std::int64_t step, const char* file) const {
    return JoinPath(JoinPath(folder, "step-" + std::to_string(step)), file);
  }

  std::string folder;
};

TEST_P(CheckpointTest, LoadRestoresTheSameBits) {
  const NamedTensors saved = Parameters(1);
  const AdamW saved_optimizer = Worn(saved);
  CheckpointStore store(folder);
  const auto written = store.Save(State(7), saved, saved_optimizer);
  ASSERT_TRUE(written.ok()) << written.status().ToString();

  const NamedTensors loaded = Parameters(2);
  AdamW loaded_optimizer({PackUnit("unit", loaded)}, OptimConfig(), 1);
  const auto state = store.Load(loaded, loaded_optimizer);
  ASSERT_TRUE(state.has_value());
  EXPECT_TRUE(*state == *written);
  EXPECT_EQ(written->digest.size(), 32u);
  EXPECT_EQ(loaded_optimizer.steps(), 2);
  ExpectSame(loaded, saved);
  ExpectSame(loaded_optimizer.state(), saved_optimizer.state());
}

TEST_P(CheckpointTest, LoadSkipsATruncatedCheckpoint) {
  const NamedTensors saved = Parameters(1);
  const AdamW optimizer = Worn(saved);
  CheckpointStore store(folder);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  ASSERT_TRUE(store.Save(State(10), Parameters(3), optimizer).ok());
  std::filesystem::resize_file(Path(10, "optimizer.safetensors"),
                               std::filesystem::file_size(Path(10, "optimizer.safetensors")) - 1);
  const NamedTensors loaded = Parameters(2);
  AdamW loaded_optimizer({PackUnit("unit", loaded)}, OptimConfig(), 1);
  const auto state = store.Load(loaded, loaded_optimizer);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->step, 5);
  ExpectSame(loaded, saved);
}

TEST_P(CheckpointTest, LoadSkipsACheckpointWithAFlippedBit) {
  CheckpointStore store(folder);
  const NamedTensors saved = Parameters(1);
  AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  ASSERT_TRUE(store.Save(State(6), saved, optimizer).ok());
  std::fstream file(Path(6, "model.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  const auto state = store.Load(saved, optimizer);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->step, 5);
}

TEST_P(CheckpointTest, WithoutACompleteCheckpointNothingIsLoaded) {
  CheckpointStore store(folder);
  const NamedTensors saved = Parameters(1);
  AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  ASSERT_TRUE(WriteFileAtomic(Path(5, "checkpoint.json"), "{\"format\": 1}").ok());
  EXPECT_FALSE(store.Load(saved, optimizer).has_value());
}

TEST_P(CheckpointTest, CheckpointsThatALearnerGoesBackBehindAreKeptUnderAnotherName) {
  CheckpointStore store(folder);
  const NamedTensors saved = Parameters(1);
  AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.PutAsideAfter(0).ok());
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(store.Save(State(6), saved, optimizer).ok());
    ASSERT_TRUE(store.PutAsideAfter(6).ok());
    EXPECT_EQ(store.Load(saved, optimizer)->step, 6);
    ASSERT_TRUE(store.PutAsideAfter(5).ok());
    EXPECT_EQ(store.Load(saved, optimizer)->step, 5);
    EXPECT_TRUE(std::filesystem::exists(JoinPath(folder, "damaged-step-6/checkpoint.json")));
  }
}

TEST_P(CheckpointTest, LoadIgnoresTheRestOfAnInterruptedSave) {
  ASSERT_TRUE(MakeFolders(JoinPath(folder, "part")).ok());
  CheckpointStore store(folder);
  const NamedTensors parameters = Parameters(1);
  AdamW optimizer({PackUnit("unit", parameters)}, OptimConfig(), 1);
  EXPECT_FALSE(store.Load(parameters, optimizer).has_value());
}

TEST_P(CheckpointTest, ASavedCheckpointSurvivesAPowerFailure) {
  TempDir parent;
  std::filesystem::resize_file(sync_log, 0);
  folder = JoinPath(parent.path(), "run/checkpoint");
  CheckpointStore store(folder);
  const NamedTensors saved = Parameters(1);
  AdamW optimizer = Worn(saved);
  for (const std::int64_t step : {5, 6, 7}) {
    ASSERT_TRUE(store.Save(State(step), saved, optimizer).ok());
    PowerCut(sync_log).Apply(parent.path());
    const auto state = store.Load(saved, optimizer);
    ASSERT_TRUE(state.has_value());
    EXPECT_EQ(state->step, step);
  }
}

TEST_P(CheckpointTest, APowerFailureDuringASaveLeavesAWholeCheckpoint) {
  for (const std::string point : {"checkpoint_weights", "before_checkpoint", "checkpoint_rename",
                                  "checkpoint_sync", "checkpoint_delete"}) {
    TempDir parent;
    std::filesystem::resize_file(sync_log, 0);
    folder = JoinPath(parent.path(), "checkpoint");
    CheckpointStore store(folder);
    const NamedTensors saved = Parameters(1);
    AdamW optimizer = Worn(saved);
    for (const std::int64_t step : {4, 5})
      ASSERT_TRUE(store.Save(State(step), saved, optimizer).ok());
    EXPECT_EXIT(
        {
          ::setenv("BUTTRESS_FAILPOINTS", (point + ":crash:1").c_str(), 1);
          const bool armed = ArmFailpoints().ok();
          store.Save(State(6), saved, optimizer).status().IgnoreError();
          std::exit(armed ? 1 : 2);
        },
        testing::KilledBySignal(SIGKILL), "failpoint reached");
    PowerCut(sync_log).Apply(parent.path());
    const auto state = store.Load(saved, optimizer);
    ASSERT_TRUE(state.has_value()) << point;
    EXPECT_EQ(state->step, point == "checkpoint_delete" ? 6 : 5) << point;
  }
}

TEST_P(CheckpointTest, SaveKeepsTheNewestTwo) {
  CheckpointStore store(folder);
  const NamedTensors parameters = Parameters(1);
  const AdamW optimizer = Worn(parameters);
  for (const std::int64_t step : {8, 9, 10, 10})
    ASSERT_TRUE(store.Save(State(step), parameters, optimizer).ok());
  EXPECT_FALSE(std::filesystem::exists(Path(8, "")));
  EXPECT_TRUE(std::filesystem::exists(Path(9, "checkpoint.json")));
  EXPECT_TRUE(std::filesystem::exists(Path(10, "checkpoint.json")));
}

TEST_P(CheckpointTest, SaveKeepsAsManyAsItIsToldAndThoseThatAreNamed) {
  CheckpointStore store(folder, 3);
  const NamedTensors parameters = Parameters(1);
  const AdamW optimizer = Worn(parameters);
  std::vector<std::int64_t> asked;
  for (std::int64_t step = 1; step <= 6; ++step) {
    const auto saved = store.Save(State(step), parameters, optimizer,
                                  [&asked](std::span<const std::int64_t> steps) {
                                    asked.assign(steps.begin(), steps.end());
                                    return std::set<std::int64_t>{2};
                                  });
    ASSERT_TRUE(saved.ok());
  }
  EXPECT_EQ(asked, (std::vector<std::int64_t>{6, 5, 4, 3, 2}));
  for (std::int64_t step = 1; step <= 6; ++step)
    EXPECT_EQ(std::filesystem::exists(Path(step, "checkpoint.json")), step == 2 || step >= 4);
}

INSTANTIATE_TEST_SUITE_P(DTypes, CheckpointTest, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& test) {
                           return test.param == at::kFloat ? "Float32" : "BFloat16";
                         });

}  // namespace
}  // namespace buttress
