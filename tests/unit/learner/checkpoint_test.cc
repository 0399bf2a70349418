#include "learner/output/checkpoint.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/weights/checkpoint_folder.h"
#include "tests/support/runs/power_cut.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/learner/local_checkpoints.h"

namespace buttress {
namespace {

const std::string sync_log = LogSyncs("checkpoint_test");

class CheckpointTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    folder = (std::filesystem::path(testing::TempDir()) / "checkpoint_test").string();
    std::filesystem::remove_all(folder);
  }

  using Units = std::vector<ParameterUnit>;

  Units Model(double value) const {
    torch::manual_seed(static_cast<std::uint64_t>(value * 10));
    const auto options = at::TensorOptions().dtype(GetParam());
    const auto random = [&](std::vector<std::int64_t> shape) { return at::randn(shape, options); };
    return {PackUnit("block 0", {{"a.weight", random({3, 5})}, {"a.bias", random({5})}}),
            PackUnit("head", {{"b.weight", random({70})}})};
  }

  // An optimizer that has made two updates.
  static AdamW Worn(const Units& units) {
    AdamW optimizer(units, OptimConfig(), 1);
    for (int i = 0; i < 2; ++i) Train(units, optimizer);
    return optimizer;
  }

  static void Train(const Units& units, AdamW& optimizer) {
    optimizer.BeginStep();
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      const at::Tensor gradient = at::randn_like(units[unit].flat, at::kFloat);
      optimizer.Update(unit, gradient.mul(units[unit].flat != 0), 0.1);  // none of the padding
    }
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

  static void ExpectSame(const Units& a, const Units& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t unit = 0; unit < a.size(); ++unit)
      ExpectSame(a[unit].parameters, b[unit].parameters);
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
  const Units saved = Model(1);
  const AdamW saved_optimizer = Worn(saved);
  LocalCheckpoints store(folder);
  const auto written = store.Save(State(7), saved, saved_optimizer);
  ASSERT_TRUE(written.ok()) << written.status().ToString();

  const Units loaded = Model(2);
  AdamW loaded_optimizer(loaded, OptimConfig(), 1);
  const auto state = store.Load(loaded, loaded_optimizer);
  ASSERT_TRUE(state.has_value());
  EXPECT_TRUE(*state == *written);
  EXPECT_EQ(written->digest.size(), 32u);
  EXPECT_EQ(loaded_optimizer.steps(), 2);
  ExpectSame(loaded, saved);
  ExpectSame(loaded_optimizer.state(), saved_optimizer.state());
}

TEST_P(CheckpointTest, LoadSkipsATruncatedCheckpoint) {
  const Units saved = Model(1);
  const AdamW optimizer = Worn(saved);
  LocalCheckpoints store(folder);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  ASSERT_TRUE(store.Save(State(10), Model(3), optimizer).ok());
  std::filesystem::resize_file(Path(10, "rank-0.safetensors"),
                               std::filesystem::file_size(Path(10, "rank-0.safetensors")) - 1);
  const Units loaded = Model(2);
  AdamW loaded_optimizer(loaded, OptimConfig(), 1);
  const auto state = store.Load(loaded, loaded_optimizer);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->step, 5);
  ExpectSame(loaded, saved);
}

TEST_P(CheckpointTest, LoadSkipsACheckpointWithAFlippedBit) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  ASSERT_TRUE(store.Save(State(6), saved, optimizer).ok());
  std::fstream file(Path(6, "rank-0.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  const auto state = store.Load(saved, optimizer);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->step, 5);
}

TEST_P(CheckpointTest, AMissingOrForeignShardIsNamedAndTheCheckpointBeforeIsTaken) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  Train(saved, optimizer);
  ASSERT_TRUE(store.Save(State(6), saved, optimizer).ok());
  const auto load = [&] {
    testing::internal::CaptureStderr();
    const auto state = store.Load(saved, optimizer);
    return std::pair(state ? state->step : -1, testing::internal::GetCapturedStderr());
  };
  const std::string shard = Path(6, "rank-0.safetensors");
  std::filesystem::copy_file(Path(5, "rank-0.safetensors"), shard,
                             std::filesystem::copy_options::overwrite_existing);
  const auto [of_foreign, foreign] = load();
  EXPECT_EQ(of_foreign, 5);
  EXPECT_NE(foreign.find(shard + " has SHA-256"), std::string::npos) << foreign;
  std::filesystem::remove(shard);
  const auto [of_missing, missing] = load();
  EXPECT_EQ(of_missing, 5);
  EXPECT_NE(missing.find(shard + ": no such file"), std::string::npos) << missing;
}

TEST_P(CheckpointTest, ACheckpointOfAnotherModelIsRefusedByItsFirstTensor) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  const Units other = {PackUnit("head", {{"b.weight", at::zeros({71}, GetParam())}})};
  AdamW others(other, OptimConfig(), 1);
  const auto found = store.store().Find();
  ASSERT_TRUE(found.ok() && *found);
  const Status read = store.store().Read(**found, other, others);
  EXPECT_EQ(read.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(read.message().find("its tensor 'b.weight' has the shape [70], that of the model [71]"),
            std::string::npos)
      << read.message();
  EXPECT_EQ(others.steps(), 0);
  EXPECT_TRUE(std::filesystem::exists(Path(5, "checkpoint.json")));
}

TEST_P(CheckpointTest, AFormatThatThisBuildDoesNotReadIsAnError) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  ASSERT_TRUE(store.Save(State(5), saved, Worn(saved)).ok());
  std::string json = *ReadFile(Path(5, "checkpoint.json"));
  json.replace(json.find("\"format\": 2"), 11, "\"format\": 1");
  ASSERT_TRUE(WriteFileAtomic(Path(5, "checkpoint.json"), json).ok());
  const Status status = store.store().Find().status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("has format 1; this build reads format 2"), std::string::npos)
      << status.message();
}

TEST_P(CheckpointTest, WhatATrainerChangesWhileACheckpointIsWrittenDoesNotEnterIt) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  std::vector<at::Tensor> before;
  for (const ParameterUnit& unit : saved) before.push_back(unit.flat.detach().clone());
  ASSERT_TRUE(store.store().Begin(State(5), saved, optimizer).ok());
  store.store().BeforeUpdate();
  Train(saved, optimizer);
  std::optional<SavedCheckpoint> written;
  while (!written) {
    auto finished = store.store().Finish(/*wait=*/false);
    ASSERT_TRUE(finished.ok()) << finished.status().ToString();
    written = *std::move(finished);
  }
  EXPECT_GT(written->seconds, 0);
  EXPECT_FALSE(store.store().writing());
  const Units loaded = Model(2);
  AdamW loaded_optimizer(loaded, OptimConfig(), 1);
  ASSERT_TRUE(store.Load(loaded, loaded_optimizer));
  EXPECT_EQ(loaded_optimizer.steps(), 2);
  for (std::size_t unit = 0; unit < loaded.size(); ++unit)
    EXPECT_TRUE(at::equal(loaded[unit].flat, before[unit]));
}

TEST_P(CheckpointTest, WithoutACompleteCheckpointNothingIsLoaded) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  ASSERT_TRUE(WriteFileAtomic(Path(5, "checkpoint.json"), "{\"format\": 1}").ok());
  EXPECT_FALSE(store.Load(saved, optimizer).has_value());
}

TEST_P(CheckpointTest, CheckpointsThatALearnerGoesBackBehindAreKeptUnderAnotherName) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.store().StartFrom(0, 4).ok());
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(store.Save(State(6), saved, optimizer).ok());
    ASSERT_TRUE(store.store().StartFrom(6, 4).ok());
    EXPECT_EQ(store.Load(saved, optimizer)->step, 6);
    ASSERT_TRUE(store.store().StartFrom(5, 4).ok());
    EXPECT_EQ(store.Load(saved, optimizer)->step, 5);
    EXPECT_TRUE(std::filesystem::exists(JoinPath(folder, "aside-step-6/checkpoint.json")));
  }
}

TEST_P(CheckpointTest, TheNewestCheckpointBeforeAStepIsFound) {
  LocalCheckpoints store(folder, /*keep_last=*/3);
  const Units saved = Model(1);
  const AdamW optimizer = Worn(saved);
  for (const int step : {4, 6, 9}) ASSERT_TRUE(store.Save(State(step), saved, optimizer).ok());
  EXPECT_EQ((*store.store().Find(9))->state.step, 6);
  EXPECT_EQ((*store.store().Find(6))->state.step, 4);
  EXPECT_FALSE(store.store().Find(4)->has_value());
}

TEST_P(CheckpointTest, ALearnerThatWasReplacedDoesNotReplaceTheCheckpointOfItsSuccessor) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  const AdamW optimizer = Worn(saved);
  CheckpointState successor = State(5);
  ++successor.learner_epoch;
  ASSERT_TRUE(store.Save(successor, saved, optimizer).ok());
  const Status status = store.Save(State(5), saved, optimizer).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("is of learner epoch 4, which has replaced epoch 3"),
            std::string::npos)
      << status.message();
  EXPECT_EQ((*store.store().Find())->state.learner_epoch, 4);
}

// The learner stands still between its look at the folder and the rename, and its successor writes
// the step meanwhile.
TEST_P(CheckpointTest, ALearnerThatIsReplacedInItsCommitDoesNotReplaceTheCheckpointEither) {
  const Units saved = Model(1);
  const AdamW optimizer = Worn(saved);
  CheckpointState successor = State(5);
  ++successor.learner_epoch;
  const std::string elsewhere = JoinPath(folder, "elsewhere");
  ASSERT_TRUE(LocalCheckpoints(elsewhere).Save(successor, saved, optimizer).ok());
  const auto commits = [this] {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().filename().string().starts_with("part-") &&
          std::filesystem::exists(entry.path() / "checkpoint.json"))
        return true;
    }
    return false;
  };
  EXPECT_EXIT(
      {
        ::setenv("BUTTRESS_FAILPOINTS", "before_checkpoint:sleep:2000", 1);
        const bool armed = ArmFailpoints().ok();
        std::thread other([&] {
          while (!commits()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          std::filesystem::rename(JoinPath(elsewhere, "step-5"), JoinPath(folder, "step-5"));
        });
        const Status status =
            LocalCheckpoints(folder).SaveLate(State(5), saved, optimizer).status();
        other.join();
        std::exit(armed && status.code() == StatusCode::kFailedPrecondition ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  LocalCheckpoints store(folder);
  EXPECT_EQ((*store.store().Find())->state.learner_epoch, 4);
  EXPECT_TRUE(std::filesystem::exists(Path(5, "accepted")));
}

TEST_P(CheckpointTest, TheRestOfAnInterruptedSaveIsIgnoredAndRemoved) {
  const std::string rest = JoinPath(folder, "part-2-4");
  ASSERT_TRUE(MakeFolders(rest).ok());
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  EXPECT_FALSE(store.Load(saved, optimizer).has_value());
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  EXPECT_FALSE(std::filesystem::exists(rest));
}

TEST_P(CheckpointTest, ASavedCheckpointSurvivesAPowerFailure) {
  TempDir parent;
  std::filesystem::resize_file(sync_log, 0);
  folder = JoinPath(parent.path(), "run/checkpoint");
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  for (const std::int64_t step : {5, 6, 7}) {
    ASSERT_TRUE(store.Save(State(step), saved, optimizer).ok());
    PowerCut(sync_log).Apply(parent.path());
    const auto state = store.Load(saved, optimizer);
    ASSERT_TRUE(state.has_value());
    EXPECT_EQ(state->step, step);
  }
}

// The run has gone back and trained the step again.
TEST_P(CheckpointTest, ALearnerThatIsKilledBetweenItsRenamesLeavesTheCheckpointThatItMoved) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  for (const std::int64_t step : {4, 5})
    ASSERT_TRUE(store.Save(State(step), saved, optimizer).ok());
  CheckpointState again = State(5);
  ++again.learner_epoch;
  EXPECT_EXIT(
      {
        ::setenv("BUTTRESS_FAILPOINTS", "checkpoint_rename:crash:1", 1);
        const bool armed = ArmFailpoints().ok();
        store.Save(again, saved, optimizer).status().IgnoreError();
        std::exit(armed ? 1 : 2);
      },
      testing::KilledBySignal(SIGKILL), "failpoint reached");
  EXPECT_FALSE(std::filesystem::exists(Path(5, "")));
  const auto found = store.store().Find();
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->state.step, 5);
  EXPECT_EQ((*found)->state.learner_epoch, State(5).learner_epoch);
  ASSERT_TRUE(store.Save(again, saved, optimizer).ok());
  EXPECT_EQ((*store.store().Find())->state.learner_epoch, again.learner_epoch);
}

TEST_P(CheckpointTest, APowerFailureDuringASaveLeavesAWholeCheckpoint) {
  for (const std::string point : {"checkpoint_weights", "before_checkpoint", "checkpoint_rename",
                                  "checkpoint_sync", "checkpoint_delete"}) {
    TempDir parent;
    std::filesystem::resize_file(sync_log, 0);
    folder = JoinPath(parent.path(), "checkpoint");
    LocalCheckpoints store(folder);
    const Units saved = Model(1);
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
  LocalCheckpoints store(folder);
  const Units parameters = Model(1);
  const AdamW optimizer = Worn(parameters);
  for (const std::int64_t step : {8, 9, 10, 10})
    ASSERT_TRUE(store.Save(State(step), parameters, optimizer).ok());
  EXPECT_FALSE(std::filesystem::exists(Path(8, "")));
  EXPECT_TRUE(std::filesystem::exists(Path(9, "checkpoint.json")));
  EXPECT_TRUE(std::filesystem::exists(Path(10, "checkpoint.json")));
}

TEST_P(CheckpointTest, SaveKeepsAsManyAsItIsToldAndThoseThatAreNamed) {
  LocalCheckpoints store(folder, 3);
  const Units parameters = Model(1);
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

TEST_P(CheckpointTest, WhatABuildWithoutMarksHasKeptStays) {
  const Units parameters = Model(1);
  const AdamW optimizer = Worn(parameters);
  LocalCheckpoints older(folder), store(folder);
  for (const std::int64_t step : {2, 5, 6})
    ASSERT_TRUE(older.SaveLate(State(step), parameters, optimizer).ok());
  ASSERT_TRUE(store.store().StartFrom(6, 4).ok());
  std::vector<std::int64_t> asked;
  for (const std::int64_t step : {7, 8}) {
    const auto saved = store.Save(State(step), parameters, optimizer,
                                  [&asked](std::span<const std::int64_t> steps) {
                                    asked.assign(steps.begin(), steps.end());
                                    return std::set<std::int64_t>{2};
                                  });
    ASSERT_TRUE(saved.ok());
  }
  EXPECT_EQ(asked, (std::vector<std::int64_t>{8, 7, 6, 2}));
  EXPECT_EQ(CheckpointSteps(folder), (std::vector<std::int64_t>{8, 7, 2}));
}

// A learner that hung in its checkpoint completes it after another one has trained on.
TEST_P(CheckpointTest, WhatAReplacedLearnerWritesTakesThePlaceOfNoCheckpointThatIsKept) {
  LocalCheckpoints replaced(folder), present(folder);
  const Units saved = Model(1);
  AdamW optimizer = Worn(saved);
  CheckpointState own = State(15);
  own.learner_epoch = 4;
  ASSERT_TRUE(replaced.Save(State(10), saved, optimizer).ok());
  ASSERT_TRUE(present.store().StartFrom(10, 4).ok());
  ASSERT_TRUE(replaced.SaveLate(State(12), saved, optimizer).ok());
  ASSERT_TRUE(present.Save(own, saved, optimizer).ok());
  EXPECT_EQ(CheckpointSteps(folder), (std::vector<std::int64_t>{15, 12, 10}));

  // The newest one is damaged, and the one before it is refused.
  std::filesystem::resize_file(Path(15, "rank-0.safetensors"), 8);
  LocalCheckpoints next(folder);
  EXPECT_EQ((*next.store().Find())->state.step, 12);
  EXPECT_EQ((*next.store().Find(12))->state.step, 10);
  ASSERT_TRUE(next.store().StartFrom(10, 5).ok());
  EXPECT_EQ(CheckpointSteps(folder), (std::vector<std::int64_t>{10}));
  for (const std::int64_t step : {15, 20}) {
    own.step = step;
    own.learner_epoch = 5;
    ASSERT_TRUE(next.Save(own, saved, optimizer).ok());
  }
  EXPECT_EQ(CheckpointSteps(folder), (std::vector<std::int64_t>{20, 15}));
}

TEST_P(CheckpointTest, OneDamagedAndOneAbandonedCheckpointAreLeftAside) {
  LocalCheckpoints store(folder, /*keep_last=*/9);
  const Units saved = Model(1);
  const AdamW optimizer = Worn(saved);
  const auto aside = [this] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("aside-")) names.insert(name);
    }
    return names;
  };
  for (const int step : {2, 4, 6, 8, 10})
    ASSERT_TRUE(store.Save(State(step), saved, optimizer).ok());
  for (const int step : {6, 10}) std::filesystem::remove(Path(step, "rank-0.safetensors"));
  for (const int before : {11, 8, 5}) ASSERT_TRUE(store.store().Find(before)->has_value());
  testing::internal::CaptureStderr();
  ASSERT_TRUE(store.store().StartFrom(2, 4).ok());
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(aside(), (std::set<std::string>{"aside-step-10", "aside-step-8"}));
  EXPECT_NE(log.find("a checkpoint is deleted"), std::string::npos) << log;
  EXPECT_NE(log.find("aside-step-6"), std::string::npos) << log;
  ASSERT_TRUE(store.store().StartFrom(2, 5).ok());
  EXPECT_EQ(aside().size(), 2u);
  ASSERT_TRUE(store.Save(State(3), saved, optimizer).ok());
  ASSERT_TRUE(store.store().StartFrom(2, 6).ok());
  EXPECT_EQ(aside(), (std::set<std::string>{"aside-step-3"}));
}

TEST_P(CheckpointTest, ALearnerThatWasReplacedWhileItStartedPutsNothingAside) {
  LocalCheckpoints store(folder);
  const Units saved = Model(1);
  const AdamW optimizer = Worn(saved);
  ASSERT_TRUE(store.Save(State(5), saved, optimizer).ok());
  CheckpointState later = State(6);
  later.learner_epoch = 5;
  ASSERT_TRUE(store.Save(later, saved, optimizer).ok());
  const Status status = store.store().StartFrom(5, 4);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("is of learner epoch 5, which has replaced epoch 4"),
            std::string::npos)
      << status.message();
  EXPECT_EQ((*store.store().Find())->state.step, 6);
}

INSTANTIATE_TEST_SUITE_P(DTypes, CheckpointTest, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& test) {
                           return test.param == at::kFloat ? "Float32" : "BFloat16";
                         });

}  // namespace
}  // namespace buttress
