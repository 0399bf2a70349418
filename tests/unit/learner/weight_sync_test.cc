#include "learner/output/weight_sync.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/weights/safetensors.h"
#include "tests/support/live_bytes.h"

namespace buttress {
namespace {

class WeightSyncTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder =
        (std::filesystem::path(testing::TempDir()) / "weight_sync_test").string();
    std::filesystem::remove_all(folder);
    WeightStoreOptions options;
    options.folder = folder;
    auto made = WeightPublisher::Create(options);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    publisher = *std::move(made);
    parameters = {{"a", torch::tensor({1.0F, 2.0F}).requires_grad_(true)}};
  }

  std::unique_ptr<WeightPublisher> publisher;
  NamedTensors parameters;
  const std::vector<Canary> canaries = {{{1, 2}, {3}, {-0.5F}}};
  std::vector<WeightManifest> announced;  // by the sync's thread; read after Drain
};

TEST_F(WeightSyncTest, AnnouncesVersionsInOrderWithTheWeightsAtTheirPublication) {
  WeightSync sync(*publisher, [this](const WeightManifest& manifest) {
    announced.push_back(manifest);
    return OkStatus();
  });
  for (std::uint64_t step = 1; step <= 3; ++step) {
    ASSERT_TRUE(sync.Publish({1, step, ""}, parameters, canaries).ok());
    // The next step changes the weights once this version is written.
    ASSERT_TRUE(sync.BeforeUpdate().ok());
    const at::NoGradGuard no_grad;
    at::Tensor(parameters[0].second).mul_(2);
  }
  ASSERT_TRUE(sync.Drain().ok());
  ASSERT_EQ(announced.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(announced[i].version.step, i + 1);
    EXPECT_EQ(announced[i].canaries, canaries);
    const auto file = SafetensorsFile::Open(JoinPath(announced[i].folder, "model.safetensors"));
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    const TensorView* view = (*file)->Find("a");
    ASSERT_NE(view, nullptr);
    float values[2];
    ASSERT_EQ(view->data.size(), sizeof values);
    std::memcpy(values, view->data.data(), sizeof values);
    EXPECT_EQ(values[1], 2.0F * static_cast<float>(1 << i));
  }
}

// A worker that reads weights of the CPU while they change would get a mixture of two versions.
TEST_F(WeightSyncTest, TheParametersChangeOnlyOnceTheyAreWritten) {
  parameters = {{"a", torch::ones({1 << 24})}};  // 64 MiB, which take a while
  WeightSync sync(*publisher, [this](const WeightManifest& manifest) {
    announced.push_back(manifest);
    return OkStatus();
  });
  const LiveBytes bytes;
  ASSERT_TRUE(sync.Publish({1, 1, ""}, parameters, canaries).ok());
  EXPECT_EQ(bytes.peak(), 0);  // no copy
  ASSERT_TRUE(sync.BeforeUpdate().ok());
  at::Tensor(parameters[0].second).zero_();
  ASSERT_TRUE(sync.Drain().ok());
  const auto file = SafetensorsFile::Open(JoinPath(announced[0].folder, "model.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const std::string_view data = (*file)->Find("a")->data;
  EXPECT_EQ(data.find(std::string_view("\0\0\0\0", 4)), std::string_view::npos);
}

TEST_F(WeightSyncTest, AFailedAnnouncementFailsTheNextCall) {
  WeightSync sync(*publisher,
                  [](const WeightManifest&) { return FailedPrecondition("an old learner epoch"); });
  ASSERT_TRUE(sync.Publish({1, 1, ""}, parameters, canaries).ok());
  EXPECT_EQ(sync.Publish({1, 2, ""}, parameters, canaries).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(sync.Drain().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace buttress
