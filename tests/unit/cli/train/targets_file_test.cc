#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/train/programs.h"
#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

TEST(TargetsFileTest, EveryBoundAddressIsATarget) {
  const TempDir dir;
  TargetsFile targets(dir.path(), "tiny");
  ASSERT_TRUE(targets.Refresh().ok());
  const std::string path = JoinPath(dir.path(), "targets.json");
  EXPECT_FALSE(ReadFile(path).ok()) << "no address is known yet";

  ASSERT_TRUE(WriteFileAtomic(dir.path() + "/coordinator.metrics", "127.0.0.1:1\n").ok());
  ASSERT_TRUE(MakeFolders(dir.path() + "/workers").ok());
  ASSERT_TRUE(WriteFileAtomic(dir.path() + "/workers/w0.metrics", "127.0.0.1:2\n").ok());
  ASSERT_TRUE(WriteFileAtomic(dir.path() + "/workers/w0.address", "127.0.0.1:3\n").ok());
  ASSERT_TRUE(targets.Refresh().ok());
  EXPECT_EQ(nlohmann::json::parse(*ReadFile(path)), nlohmann::json::parse(R"([
    {"targets": ["127.0.0.1:1"],
     "labels": {"run": "tiny", "role": "coordinator", "id": "coordinator"}},
    {"targets": ["127.0.0.1:2"], "labels": {"run": "tiny", "role": "worker", "id": "w0"}}])"));

  ASSERT_TRUE(WriteFileAtomic(dir.path() + "/workers/w0.metrics", "127.0.0.1:4\n").ok());
  ASSERT_TRUE(targets.Refresh().ok());
  EXPECT_THAT(*ReadFile(path), ::testing::HasSubstr("127.0.0.1:4"));
}

TEST(WorkerThreadsTest, WorkersShareTheCoresThatTheLearnerLeaves) {
  LocalSettings local;
  local.launch.workers = 3;
  local.launch.learner_ranks = 2;
  local.learner.threads = 4;
  EXPECT_EQ(WorkerThreads(local, 32), 8);
  EXPECT_EQ(WorkerThreads(local, 13), 1);
  EXPECT_EQ(WorkerThreads(local, 2), 1);
}

}  // namespace
}  // namespace buttress
