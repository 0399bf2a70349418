// Real runs whose weights are so divided that every version has several files, which several ranks
// write.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "lib/base/text/digest.h"
#include "lib/weights/part_file.h"
#include "lib/weights/safetensors.h"
#include "lib/weights/version_folder.h"
#include "tests/support/runs/launched_run.h"

namespace buttress::weight_files_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kRunMs = 60000;

// Starts a run whose processes have the variable.
void StartWith(LaunchedRun& run, const char* failpoints) {
  ::setenv("BUTTRESS_WEIGHT_FILE_BYTES", "100000", 1);
  ::setenv("BUTTRESS_FAILPOINTS", failpoints, 1);
  run.Start();
  ::unsetenv("BUTTRESS_WEIGHT_FILE_BYTES");
  ::unsetenv("BUTTRESS_FAILPOINTS");
}

std::string Store(const LaunchedRun& run) { return JoinPath(run.out(), "weights"); }

// The SHA-256 of the weights and their index in a folder, by name of the file.
std::map<std::string, std::string> DigestsIn(const std::string& folder) {
  std::map<std::string, std::string> digests;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (name.starts_with("model")) digests[name] = ToHex(*Sha256OfFile(file.path().string()));
  }
  return digests;
}

TEST(WeightFilesTest, EveryDivisionOverRanksGivesTheSameFiles) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kSteps = 2;

  struct Case {
    const char* ranks;
    const char* stage;
    const char* transport;
  };

  std::map<std::string, std::string> first;
  for (const Case& c : {Case{"1", "0", "shared"}, {"2", "0", "grpc"}, {"3", "3", "shared"}}) {
    SCOPED_TRACE(std::string(c.ranks) + " ranks, stage " + c.stage);
    LaunchedRun run(kSteps, {"--no-eval", "--set", "run.batch.max_age=0", "--set",
                             std::string("local.launch.learner_ranks=") + c.ranks, "--set",
                             std::string("local.learner.zero=") + c.stage, "--set",
                             std::string("local.worker.weights=") + c.transport});
    StartWith(run, "");
    ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
    ExpectStepsInOrder(run, kSteps);
    const auto start = DigestsIn(VersionFolder(Store(run), {1, 0, ""}));
    EXPECT_GE(start.size(), 4u);
    if (first.empty()) first = start;
    EXPECT_EQ(start, first);
    // The model that the run leaves is divided in the same way.
    const std::string last = VersionFolder(Store(run), {1, kSteps, ""});
    EXPECT_EQ(DigestsIn(JoinPath(run.out(), "model")), DigestsIn(last));
    EXPECT_NE(DigestsIn(last), first);
    std::size_t fetched = 0;
    for (const char* worker : {"w0", "w1"}) {
      const std::string store = JoinPath(Store(run), worker);
      for (const PolicyVersion& version : ListVersions(store)) {
        ++fetched;
        EXPECT_EQ(DigestsIn(VersionFolder(store, version)),
                  DigestsIn(VersionFolder(Store(run), version)));
      }
    }
    EXPECT_EQ(fetched > 0, std::string(c.transport) == "grpc");
    const auto folder = SafetensorsFolder::Open(last);
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    const auto model = SafetensorsFolder::Open(TinyTask::Get().folder() + "/model");
    EXPECT_EQ((*folder)->names(), (*model)->names());
  }
}

// The version that lacks the files of the dead rank never exists, and the run goes on.
TEST(WeightFilesTest, ARankThatDiesWhileItWritesIsStartedAgain) {
  ASSERT_EQ(TinyTask::Get().error(), "");
  constexpr int kSteps = 6;
  LaunchedRun run(kSteps, {"--no-eval", "--set", "run.checkpoint_interval=2"});
  // Rank 1 gives two files of each version; the learner that starts again gives fewer in all.
  StartWith(run, "weight_file_given:crash:10");
  ASSERT_EQ(run.Wait(kRunMs), 0) << run.Text();
  ExpectStepsInOrder(run, kSteps);
  ExpectAccountsBalance(run, kSteps * 8);
  const auto summary = nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")));
  EXPECT_GE(summary["restarts"], 1);
  for (const PolicyVersion& version : ListVersions(Store(run))) {
    const auto manifest = ReadManifest(VersionFolder(Store(run), version));
    ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
    EXPECT_TRUE(VerifyFiles(manifest->folder, *manifest).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(VersionFolder(Store(run), {1, 4, ""})));
}

}  // namespace
}  // namespace buttress::weight_files_test
