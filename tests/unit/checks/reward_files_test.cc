#include "lib/checks/reward_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RewardFilesTest : public ::testing::Test {
 protected:
  RewardFilesTest() {
    config_.local.out = dir_.path();
    config_.run.reward.verifier = "exact + 0.1 * python:" + Path("rew.py") + ":f";
    Write("rew.py", "import helper");
    Write("helper.py", "x = 1");
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomic(Path(name), text).ok());
  }

  // Records the files as those of the last start.
  void Record(const std::string& revision = "") {
    nlohmann::json start = {{"reward_revision", revision}, {"reward", nlohmann::json::array()}};
    for (const RewardFile& file : RewardFilesOf(config_.run.reward))
      start["reward"].push_back({{"name", file.name}, {"sha256", file.sha256}});
    const nlohmann::json starts = {{"reward", {{{"name", "rew.py"}, {"sha256", "older"}}}}};
    Write("versions.json", nlohmann::json{{"starts", {starts, start}}}.dump());
  }

  std::string Error() const { return CheckRewardFiles(config_).message(); }

  TempDir dir_;
  RunConfig config_;
};

TEST_F(RewardFilesTest, AChangedFileOrModuleRefusesTheResumeAndIsNamed) {
  EXPECT_EQ(Error(), "") << "a run that begins";
  Record();
  EXPECT_EQ(Error(), "");
  Write("helper.py", "x = 2");
  EXPECT_THAT(Error(), AllOf(HasSubstr(Path("helper.py")), Not(HasSubstr("rew.py")),
                             HasSubstr("--set run.reward.python.revision=NAME")));
  EXPECT_EQ(ExitCode(CheckRewardFiles(config_)), 2);
  Write("rew.py", "import other");
  Write("other.py", "");
  EXPECT_THAT(Error(), AllOf(HasSubstr(Path("rew.py") + "\n"), HasSubstr("other.py (new)"),
                             HasSubstr("helper.py (no longer imported)")));
}

TEST_F(RewardFilesTest, ANewRevisionAcceptsTheChange) {
  Record("one");
  Write("helper.py", "x = 2");
  config_.run.reward.python.revision = "one";
  EXPECT_THAT(Error(), HasSubstr("another name than 'one'"));
  config_.run.reward.python.revision = "two";
  EXPECT_EQ(Error(), "");
  Record("two");
  EXPECT_EQ(Error(), "");
}

TEST_F(RewardFilesTest, FilesThatThisMachineLacksAndOtherFoldersAreNoChange) {
  Record();
  std::filesystem::create_directories(Path("moved"));
  for (const char* name : {"rew.py", "helper.py"})
    std::filesystem::rename(Path(name), Path("moved/") + name);
  EXPECT_EQ(Error(), "") << "the coordinator need not have the files of the workers";
  config_.run.reward.verifier = "python:" + Path("moved/rew.py") + ":f";
  EXPECT_EQ(Error(), "");
  Write("versions.json", R"({"starts": [{"reward": [{"name": 3, "sha256": 4}, 5]}]})");
  EXPECT_EQ(Error(), "") << "a damaged record";
}

}  // namespace
}  // namespace buttress
