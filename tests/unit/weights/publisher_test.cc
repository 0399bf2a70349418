#include "lib/weights/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/base/os/file.h"
#include "lib/weights/fetcher.h"
#include "lib/weights/version_folder.h"
#include "tests/support/runs/published_weights.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Names(const std::vector<PolicyVersion>& versions) {
  std::vector<std::string> names;
  for (const PolicyVersion& version : versions) names.push_back(ToString(version));
  return names;
}

std::string_view SmallBytes(const std::string& name) { return name == "first" ? "abcd" : "xy"; }

class PublisherTest : public ::testing::Test {
 protected:
  std::unique_ptr<WeightPublisher> Publisher(int keep = 3) {
    return *WeightPublisher::Create({.folder = dir_.path(), .keep = keep, .sources = {"host:1"}});
  }

  TempDir dir_;
};

TEST_F(PublisherTest, APublishedVersionIsAHuggingFaceFolderWithAManifest) {
  const auto publisher = Publisher();
  const WeightManifest manifest = PublishSmall(*publisher, {2, 7, ""}, "abcd");
  EXPECT_EQ(manifest.version.digest, ManifestDigest(manifest));
  EXPECT_THAT(manifest.sources, ElementsAre("host:1"));
  EXPECT_EQ(*ReadManifest(manifest.folder), manifest);
  ASSERT_TRUE(VerifyFiles(manifest.folder, manifest).ok());
  const auto folder = SafetensorsFolder::Open(manifest.folder);
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ((*folder)->Find("first")->data, "abcd");
  const std::string bytes = *ReadFile(JoinPath(manifest.folder, "model.safetensors"));
  const TensorEntry& first = manifest.tensors[0];
  EXPECT_EQ(bytes.substr(first.begin, first.end - first.begin), "abcd");
}

TEST_F(PublisherTest, CanariesAreInTheManifestButNotInTheDigest) {
  const auto publisher = Publisher();
  const std::string digest = PublishSmall(*publisher, {2, 7, ""}, "abcd").version.digest;
  const std::vector<Canary> canaries = {{{1, 2}, {3}, {-0.5F}}};
  const WeightManifest manifest = PublishSmall(*publisher, {2, 8, ""}, "abcd", canaries);
  EXPECT_EQ(manifest.version.digest, digest);
  EXPECT_EQ(ReadManifest(manifest.folder)->canaries, canaries);
}

TEST_F(PublisherTest, AVersionDoesNotExistBeforeItsCommit) {
  const auto publisher = Publisher();
  const auto files = DivideWeights(SmallTable());
  ASSERT_TRUE(publisher->Begin({1, 1, ""}, files).ok());
  EXPECT_TRUE(ListVersions(dir_.path()).empty());
  const auto written = WriteWeightFiles(publisher->folder(), files, SmallBytes);
  ASSERT_TRUE(written.ok()) << written.status().ToString();
  EXPECT_TRUE(ListVersions(dir_.path()).empty());
  ASSERT_TRUE(publisher->Commit(*written).ok());
  EXPECT_THAT(Names(ListVersions(dir_.path())), ElementsAre("1:1"));
}

TEST_F(PublisherTest, AnIncompleteVersionIsReplaced) {
  {
    const auto publisher = Publisher();
    ASSERT_TRUE(publisher->Begin({1, 1, ""}, DivideWeights(SmallTable())).ok());
    ASSERT_TRUE(WriteFileAtomic(JoinPath(publisher->folder(), "model.safetensors"), "ab").ok());
  }
  const auto publisher = Publisher();
  const WeightManifest manifest = PublishSmall(*publisher, {1, 1, ""}, "efgh");
  EXPECT_TRUE(VerifyFiles(manifest.folder, manifest).ok());
  EXPECT_EQ(publisher->Begin({1, 1, ""}, DivideWeights(SmallTable())).code(),
            StatusCode::kAlreadyExists);
}

TEST_F(PublisherTest, AVersionNeedsAllItsFiles) {
  const auto publisher = Publisher();
  EXPECT_EQ(publisher->Commit({}).status().code(), StatusCode::kFailedPrecondition);
  const auto files = DivideWeights(SmallTable(), 4);
  ASSERT_EQ(files.size(), 2u);
  ASSERT_TRUE(publisher->Begin({1, 1, ""}, files).ok());
  const auto written = WriteWeightFiles(publisher->folder(), {files[0]}, SmallBytes);
  ASSERT_TRUE(written.ok());
  const Status status = publisher->Commit(*written).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("model-00002-of-00002.safetensors was not written"));
  EXPECT_TRUE(ListVersions(dir_.path()).empty());
  const auto wrong = [](const std::string&) { return std::string_view("abc"); };
  EXPECT_EQ(WriteWeightFiles(publisher->folder(), files, wrong).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(PublisherTest, DamageOfTheNewestVersionAloneIsFound) {
  EXPECT_TRUE(VerifyNewest(dir_.path()).ok()) << "there is none";
  const auto publisher = Publisher();
  const auto damage = [](const WeightManifest& manifest) {
    const std::string path = JoinPath(manifest.folder, manifest.files[0].name);
    std::string bytes = *ReadFile(path);
    bytes.back() ^= 1;
    ASSERT_TRUE(WriteFileAtomic(path, bytes).ok());
  };
  damage(PublishSmall(*publisher, {1, 1, ""}, "abcd"));
  EXPECT_EQ(VerifyNewest(dir_.path()).code(), StatusCode::kDataLoss);
  const WeightManifest newest = PublishSmall(*publisher, {1, 2, ""}, "abce");
  EXPECT_TRUE(VerifyNewest(dir_.path()).ok());
  damage(newest);
  EXPECT_EQ(VerifyNewest(dir_.path()).code(), StatusCode::kDataLoss);
}

// Whoever reads the folder sees the same tensors, however they are divided.
TEST_F(PublisherTest, AVersionOfSeveralFilesHasAnIndexAndTheSameTensors) {
  const auto publisher = Publisher();
  const WeightManifest whole = PublishSmall(*publisher, {1, 1, ""}, "abcd");
  const WeightManifest divided =
      PublishTensors(*publisher, {1, 2, ""}, DivideWeights(SmallTable(), 4), SmallBytes);
  std::vector<std::string> names;
  for (const WeightFile& file : divided.files) names.push_back(file.name);
  EXPECT_THAT(names,
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"));
  EXPECT_EQ(*ReadManifest(divided.folder), divided);
  EXPECT_TRUE(VerifyFiles(divided.folder, divided).ok());
  const auto one = SafetensorsFolder::Open(whole.folder),
             two = SafetensorsFolder::Open(divided.folder);
  ASSERT_TRUE(one.ok() && two.ok()) << two.status().ToString();
  ASSERT_EQ((*one)->names(), (*two)->names());
  for (const TensorEntry& tensor : divided.tensors) {
    const std::string_view data = (*one)->Find(tensor.name)->data;
    EXPECT_EQ((*two)->Find(tensor.name)->data, data);
    const std::string bytes = *ReadFile(JoinPath(divided.folder, tensor.file));
    EXPECT_EQ(bytes.substr(tensor.begin, tensor.end - tensor.begin), data);
  }
}

TEST_F(PublisherTest, OldVersionsAreDeletedButNeverTheNewest) {
  const auto publisher = Publisher(/*keep=*/2);
  PublishSmall(*publisher, {1, 9, ""}, "aaaa");
  PublishSmall(*publisher, {1, 10, ""}, "bbbb");
  // A learner that restarted from an older checkpoint has a lower step and a newer epoch.
  PublishSmall(*publisher, {2, 8, ""}, "cccc");
  EXPECT_THAT(Names(ListVersions(dir_.path())), ElementsAre("1:10", "2:8"));
  EXPECT_FALSE(std::filesystem::exists(VersionFolder(dir_.path(), {1, 9, ""})));
  DeleteOldVersions(dir_.path(), 0);
  EXPECT_THAT(Names(ListVersions(dir_.path())), ElementsAre("2:8"));
}

TEST_F(PublisherTest, DeletionKeepsOtherFoldersAndNewerIncompleteVersions) {
  const auto publisher = Publisher(/*keep=*/1);
  for (const char* name : {"v1-1", "v9-9", "v1-x", "other"})
    ASSERT_TRUE(MakeFolders(JoinPath(dir_.path(), name)).ok());
  PublishSmall(*publisher, {2, 1, ""}, "aaaa");
  EXPECT_FALSE(std::filesystem::exists(JoinPath(dir_.path(), "v1-1")));
  for (const char* name : {"v9-9", "v1-x", "other"})
    EXPECT_TRUE(std::filesystem::exists(JoinPath(dir_.path(), name))) << name;
}

// A folder that is used again: the versions of the old run have higher numbers.
TEST_F(PublisherTest, VersionsOfAnotherRunAreDeletedAndThoseOfThisOneAreNot) {
  const auto publish = [this](const std::string& run_id, const PolicyVersion& version) {
    const auto publisher = *WeightPublisher::Create({.folder = dir_.path(), .run_id = run_id});
    EXPECT_EQ(PublishSmall(*publisher, version, "aaaa").run_id, run_id);
  };
  publish("old", {1, 56, ""});
  publish("old", {1, 57, ""});
  ASSERT_TRUE(MakeFolders(JoinPath(dir_.path(), "v1-58")).ok());
  publish("new", {1, 0, ""});
  EXPECT_THAT(Names(ListVersions(dir_.path())), ElementsAre("1:0"));
  EXPECT_FALSE(std::filesystem::exists(JoinPath(dir_.path(), "v1-58")));
  publish("new", {1, 1, ""});
  EXPECT_THAT(Names(ListVersions(dir_.path())), ElementsAre("1:0", "1:1"));
}

TEST_F(PublisherTest, SharedFetcherRefusesTornFilesAndWrongBytes) {
  const auto publisher = Publisher();
  const WeightManifest manifest = PublishSmall(*publisher, {1, 1, ""}, "abcd");
  const auto fetcher = MakeSharedFetcher();
  ASSERT_EQ(*fetcher->Fetch(manifest), manifest);
  const std::string path = JoinPath(manifest.folder, "model.safetensors");
  const std::string whole = *ReadFile(path);

  std::filesystem::resize_file(path, whole.size() - 1);
  EXPECT_EQ(fetcher->Fetch(manifest).status().code(), StatusCode::kDataLoss);
  std::string flipped = whole;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  std::ofstream(path, std::ios::binary) << flipped;
  EXPECT_THAT(fetcher->Fetch(manifest).status().message(), HasSubstr("SHA-256"));
  std::filesystem::remove(path);
  EXPECT_EQ(fetcher->Fetch(manifest).status().code(), StatusCode::kNotFound);
  WeightManifest nowhere = manifest;
  nowhere.folder.clear();
  EXPECT_EQ(fetcher->Fetch(nowhere).status().code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace buttress
