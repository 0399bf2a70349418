#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/fleet/fleet.h"
#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/weights/safetensors.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

TEST(HostCheckTest, AClockIsOffByWhatTheTimeOfTheCheckDoesNotExplain) {
  EXPECT_EQ(ClockSkew(1500, 1000, 2000), 0);
  EXPECT_EQ(ClockSkew(5000, 1000, 2000), 3000);
  EXPECT_EQ(ClockSkew(400, 1000, 2000), -600);
}

TEST(HostCheckTest, AnswersKeepTheirFields) {
  const HostAnswer answer{
      2, 1764000000000, "abc", "word of a folder", {"memory: a", "GPUs: b\nc"}, {40001, 40002}};
  const HostAnswer read = HostAnswer::FromText("a banner of ssh\n" + answer.ToText());
  EXPECT_EQ(read.gpus, 2);
  EXPECT_EQ(read.clock_ms, 1764000000000);
  EXPECT_EQ(read.model, "abc");
  EXPECT_EQ(read.folder, "word of a folder");
  EXPECT_EQ(read.warnings, (std::vector<std::string>{"memory: a", "GPUs: b"}));
  EXPECT_EQ(read.ports, (std::vector<int>{40001, 40002}));
}

class ThisHostTest : public ::testing::Test {
 protected:
  ThisHostTest() {
    NewModelOptions options;
    options.characters = "0123456789>";
    const std::string model = dir_.path() + "/model";
    EXPECT_TRUE(WriteNewModel(options, model).ok());
    auto writer =
        SafetensorsWriter::Create(model + "/model.safetensors", {{"a", "F32", {2, 3}}}, {});
    EXPECT_TRUE(writer.ok() && (*writer)->Append(std::string(24, '\0')).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    config_.run.model.path = model;
    config_.local.out = dir_.path();
  }

  HostAnswer Answer() const {
    const auto answer = CheckThisHost({ProgramVersion(), 0, 0}, config_);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return answer.ok() ? *answer : HostAnswer{};
  }

  TempDir dir_;
  RunConfig config_;
};

TEST_F(ThisHostTest, AnotherModelHasAnotherDigest) {
  const std::string before = Answer().model;
  EXPECT_EQ(Answer().model, before);
  const std::string tokenizer = config_.run.model.path + "/tokenizer.json";
  ASSERT_TRUE(WriteFileAtomic(tokenizer, *ReadFile(tokenizer) + " ").ok());
  EXPECT_NE(Answer().model, before);
}

TEST_F(ThisHostTest, TheMarkOfASharedFolderIsSeen) {
  EXPECT_EQ(Answer().folder, "");
  ASSERT_TRUE(WriteFileAtomic(FolderMarkPath(config_.local.out), "4711 5\n").ok());
  EXPECT_EQ(Answer().folder, "4711 5");
}

TEST_F(ThisHostTest, AModelThatCannotBeUsedIsNamed) {
  std::filesystem::remove(config_.run.model.path + "/model.safetensors");
  const auto answer = CheckThisHost({ProgramVersion(), 0, 0}, config_);
  EXPECT_EQ(answer.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(answer.status().message(), HasSubstr("weights: "));
}

}  // namespace
}  // namespace buttress
