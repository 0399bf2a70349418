#include "coordinator/versions_file.h"

#include <gmock/gmock.h>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/run_folder.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

class VersionsFileTest : public testing::Test {
 protected:
  VersionsFileTest() {
    config_.local.out = out_.path();
    EXPECT_TRUE(WriteFileAtomic(Path("weights"), "first").ok());
    EXPECT_TRUE(WriteFileAtomic(Path("data"), "rows").ok());
  }

  std::string Path(const std::string& name) const { return JoinPath(out_.path(), name); }

  // Records a start and returns all that are recorded.
  nlohmann::json Start() {
    VersionsRecord(config_, {{}, {Path("weights"), Path("none")}, {Path("data")}}).Finish();
    const auto json = nlohmann::json::parse(*ReadFile(VersionsPath(out_.path())));
    return json["starts"];
  }

  TempDir out_;
  RunConfig config_;
};

TEST_F(VersionsFileTest, AStartNamesBuildMachineAndDigests) {
  const auto starts = Start();
  ASSERT_EQ(starts.size(), 1U);
  const auto& start = starts[0];
  EXPECT_EQ(start["model"][0]["sha256"], ToHex(Sha256Of("first")));
  EXPECT_EQ(start["model"][0]["bytes"], 5);
  EXPECT_TRUE(start["model"][1]["sha256"].is_null()) << "a file that is not there";
  EXPECT_EQ(start["data"][0]["sha256"], ToHex(Sha256Of("rows")));
  EXPECT_THAT(start["libraries"]["torch"].get<std::string>(), testing::StartsWith("2."));
  EXPECT_FALSE(start["libraries"]["grpc"].get<std::string>().empty());
  EXPECT_FALSE(start["buttress"]["commit"].get<std::string>().empty());
  EXPECT_FALSE(start["host"]["name"].get<std::string>().empty());
  EXPECT_EQ(start["config_sha256"].get<std::string>().size(), 64U);
}

TEST_F(VersionsFileTest, FilesOfRewardFunctionsHaveTheirDigestsAtOnce) {
  ASSERT_TRUE(WriteFileAtomic(Path("rew.py"), "import helper").ok());
  ASSERT_TRUE(WriteFileAtomic(Path("helper.py"), "").ok());
  config_.run.reward.verifier = "python:" + Path("rew.py") + ":f";
  config_.run.reward.python.revision = "two";
  const auto starts = Start();
  EXPECT_EQ(starts[0]["reward_revision"], "two");
  ASSERT_EQ(starts[0]["reward"].size(), 2U);
  EXPECT_EQ(starts[0]["reward"][0]["name"], "rew.py");
  EXPECT_EQ(starts[0]["reward"][0]["sha256"], ToHex(Sha256Of("import helper")));
  EXPECT_EQ(starts[0]["reward"][1]["path"], Path("helper.py"));
}

TEST_F(VersionsFileTest, ALaterStartIsAddedAndReadsOnlyFilesThatChanged) {
  Start();
  // A digest that is in the record is taken for that of a file that has not changed.
  auto record = nlohmann::json::parse(*ReadFile(VersionsPath(out_.path())));
  record["starts"][0]["model"][0]["sha256"] = "kept";
  record["starts"][0]["data"][0]["sha256"] = "kept";
  ASSERT_TRUE(WriteFileAtomic(VersionsPath(out_.path()), record.dump()).ok());
  ASSERT_TRUE(WriteFileAtomic(Path("weights"), "second").ok());
  const auto starts = Start();
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[1]["model"][0]["sha256"], ToHex(Sha256Of("second")));
  EXPECT_EQ(starts[1]["data"][0]["sha256"], "kept");
}

TEST_F(VersionsFileTest, TheFirstAndTheNewestStartsAreKept) {
  nlohmann::json starts = nlohmann::json::array();
  for (int n = 0; n < 100; ++n) starts.push_back({{"time_unix", n}});
  ASSERT_TRUE(
      WriteFileAtomic(VersionsPath(out_.path()), nlohmann::json{{"starts", starts}}.dump()).ok());
  const auto kept = Start();
  ASSERT_EQ(kept.size(), 100U);
  EXPECT_EQ(kept[0]["time_unix"], 0);
  EXPECT_EQ(kept[1]["time_unix"], 2);
  EXPECT_GT(kept[99]["time_unix"], 1000);
}

TEST_F(VersionsFileTest, ADamagedRecordBeginsAnew) {
  ASSERT_TRUE(WriteFileAtomic(VersionsPath(out_.path()), "{\"starts\": 3}").ok());
  EXPECT_EQ(Start().size(), 1U);
}

TEST_F(VersionsFileTest, FoldersStandForTheirFiles) {
  ASSERT_TRUE(MakeFolders(Path("model/more")).ok());
  ASSERT_TRUE(WriteFileAtomic(Path("model/b"), "").ok());
  ASSERT_TRUE(WriteFileAtomic(Path("model/a"), "").ok());
  config_.run.model.path = Path("model");
  config_.run.data.prompts = Path("data");
  const RecordedFiles files = RecordedFiles::Of(config_);
  EXPECT_THAT(files.model, testing::ElementsAre(Path("model/a"), Path("model/b")));
  EXPECT_THAT(files.data, testing::ElementsAre(Path("data")));
  EXPECT_EQ(files.programs.size(), 4U);
}

}  // namespace
}  // namespace buttress
