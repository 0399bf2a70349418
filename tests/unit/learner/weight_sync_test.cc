#include "learner/output/weight_sync.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/types.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/policy/transformer.h"
#include "lib/weights/safetensors.h"
#include "lib/weights/version_folder.h"
#include "tests/support/live_bytes.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

class WeightSyncTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = WeightPublisher::Create({.folder = dir.path()});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    publisher = *std::move(made);
    parameters = {{"a", torch::tensor({1.0F, 2.0F}).requires_grad_(true)}};
    announce = [this](const WeightManifest& manifest) {
      announced.push_back(manifest);
      return OkStatus();
    };
  }

  // All tensors in one file of rank 0, or in one file each, of ranks 0 and 1 in turn.
  FilesByRank Files(int ranks = 1, int rank = 0) const {
    FilesByRank files{
        DivideWeights(DeclaredTensors(parameters), ranks == 1 ? 1 << 30 : 1), {}, rank};
    for (std::size_t i = 0; i < files.files.size(); ++i)
      files.writers.push_back(static_cast<int>(i) % ranks);
    return files;
  }

  std::unique_ptr<WeightSync> Sync() {
    return std::make_unique<WeightSync>(dir.path(), Files(), publisher.get(), announce);
  }

  Status Publish(WeightSync& sync, std::uint64_t step) {
    BUTTRESS_RETURN_IF_ERROR(sync.Drain());
    BUTTRESS_RETURN_IF_ERROR(publisher->Begin({1, step, ""}, Files().files));
    return sync.Publish({1, step, ""}, ParameterCopy::Start(parameters), canaries);
  }

  // Begins a version of two ranks.
  void BeginOfTwo(std::uint64_t step) {
    const FilesByRank files = Files(2);
    ASSERT_TRUE(publisher->Begin({1, step, ""}, files.files).ok());
    for (std::size_t i = 1; i < files.files.size(); i += 2)
      ASSERT_TRUE(ExpectWritten(publisher->folder(), files.files[i].name).ok());
  }

  // The copy of what a rank of two writes.
  ParameterCopy CopyOf(int rank) const {
    NamedTensors own;
    for (std::size_t i = static_cast<std::size_t>(rank); i < parameters.size(); i += 2)
      own.push_back(parameters[i]);
    return ParameterCopy::Start(own);
  }

  TempDir dir;
  std::unique_ptr<WeightPublisher> publisher;
  WeightSync::Announce announce;
  NamedTensors parameters;
  const std::vector<Canary> canaries = {{{1, 2}, {3}, {-0.5F}}};
  std::vector<WeightManifest> announced;  // by the sync's thread; read after Drain
};

TEST_F(WeightSyncTest, AnnouncesVersionsInOrderWithTheWeightsAtTheirPublication) {
  const auto sync = Sync();
  for (std::uint64_t step = 1; step <= 3; ++step) {
    ASSERT_TRUE(Publish(*sync, step).ok());
    // The next step changes the weights once this version is written.
    ASSERT_TRUE(sync->BeforeUpdate().ok());
    const at::NoGradGuard no_grad;
    at::Tensor(parameters[0].second).mul_(2);
  }
  ASSERT_TRUE(sync->Drain().ok());
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
  const auto sync = Sync();
  const LiveBytes bytes;
  ASSERT_TRUE(Publish(*sync, 1).ok());
  EXPECT_EQ(bytes.peak(), 0);  // no copy
  ASSERT_TRUE(sync->BeforeUpdate().ok());
  at::Tensor(parameters[0].second).zero_();
  ASSERT_TRUE(sync->Drain().ok());
  const auto file = SafetensorsFile::Open(JoinPath(announced[0].folder, "model.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const std::string_view data = (*file)->Find("a")->data;
  EXPECT_EQ(data.find(std::string_view("\0\0\0\0", 4)), std::string_view::npos);
}

TEST_F(WeightSyncTest, AnUpdateDoesNotWaitForCopiesToBeWritten) {
  const auto sync = Sync();
  ASSERT_TRUE(publisher->Begin({1, 1, ""}, Files().files).ok());
  // A file that can only be opened together with a reader.
  const std::string part = JoinPath(publisher->folder(), "model.safetensors.part");
  ASSERT_EQ(::mkfifo(part.c_str(), 0600), 0);
  ASSERT_TRUE(sync->Publish({1, 1, ""}, ParameterCopy::Of(parameters), canaries).ok());
  ASSERT_TRUE(sync->BeforeUpdate().ok());
  EXPECT_TRUE(announced.empty());
  std::ifstream reader(part);
  const std::string bytes{std::istreambuf_iterator<char>(reader), {}};
  ASSERT_TRUE(sync->Drain().ok());
  EXPECT_EQ(announced.at(0).files.at(0).bytes, bytes.size());
}

TEST_F(WeightSyncTest, AFailedAnnouncementFailsTheNextCall) {
  announce = [](const WeightManifest&) { return FailedPrecondition("an old learner epoch"); };
  const auto sync = Sync();
  ASSERT_TRUE(Publish(*sync, 1).ok());
  EXPECT_EQ(Publish(*sync, 2).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(sync->Drain().code(), StatusCode::kFailedPrecondition);
}

TEST_F(WeightSyncTest, RanksWriteTheirFilesAndTheFirstAnnouncesThemTogether) {
  for (const char* name : {"b", "c"}) parameters.emplace_back(name, torch::rand({1 << 12}));
  WeightSync first(dir.path(), Files(2, 0), publisher.get(), announce);
  WeightSync second(dir.path(), Files(2, 1));
  BeginOfTwo(1);
  ASSERT_TRUE(first.Publish({1, 1, ""}, CopyOf(0), canaries).ok());
  // The update of a rank waits for its own files only.
  ASSERT_TRUE(first.BeforeUpdate().ok());
  EXPECT_FALSE(ReadManifest(publisher->folder()).ok());
  ASSERT_TRUE(second.Publish({1, 1, ""}, CopyOf(1), {}).ok());
  ASSERT_TRUE(second.Drain().ok());
  ASSERT_TRUE(first.Drain().ok());
  ASSERT_EQ(announced.size(), 1u);
  const WeightManifest& manifest = announced[0];
  EXPECT_EQ(manifest.files.size(), 4u);  // with the index
  ASSERT_TRUE(VerifyFiles(manifest.folder, manifest).ok());
  const auto folder = SafetensorsFolder::Open(manifest.folder);
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  const BytesOfTensor bytes_of = BytesByName(parameters);
  for (const auto& [name, tensor] : parameters)
    EXPECT_TRUE((*folder)->Find(name)->data == bytes_of(name)) << name;
  // The notes of rank 1 are gone.
  const auto entries = std::filesystem::directory_iterator(manifest.folder);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 5);
}

TEST_F(WeightSyncTest, AVersionWithoutTheFilesOfADeadRankIsNotAnnounced) {
  parameters.emplace_back("b", torch::zeros({8}));
  {
    WeightSync first(dir.path(), Files(2, 0), publisher.get(), announce);
    BeginOfTwo(1);
    ASSERT_TRUE(first.Publish({1, 1, ""}, CopyOf(0), canaries).ok());
    ASSERT_TRUE(first.BeforeUpdate().ok());
  }
  EXPECT_TRUE(announced.empty());
  EXPECT_TRUE(ListVersions(dir.path()).empty());
}

TEST_F(WeightSyncTest, ARankThatCannotWriteIsNamedWithItsFile) {
  parameters.emplace_back("b", torch::zeros({8}));
  WeightSync second(dir.path(), Files(2, 1));
  ASSERT_TRUE(second.Publish({1, 1, ""}, CopyOf(1), {}).ok());  // there is no folder
  const std::string message(second.Drain().message());
  EXPECT_NE(message.find("rank 1 publishes weights"), std::string::npos) << message;
  EXPECT_NE(message.find("model-00002-of-00002.safetensors"), std::string::npos) << message;
}

}  // namespace
}  // namespace buttress
