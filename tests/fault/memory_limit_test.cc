// Real programs under a limit of the kernel on their memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/quickstart_run.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Each square projection takes 4 GiB.
std::vector<std::string> NewLargeModel(const std::string& folder) {
  return {SiblingProgram("buttress"),
          "new-model",
          "--out",
          folder,
          "--characters",
          "0123456789+-:>",
          "--layers",
          "1",
          "--hidden",
          "32768",
          "--heads",
          "8",
          "--intermediate",
          "8"};
}

TEST(MemoryLimitTest, ALearnerThatRunsOutOfMemorySaysWhatToLowerAndIsNotRestarted) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "log"), data = JoinPath(dir.path(), "data.jsonl");
  const std::string model = JoinPath(dir.path(), "model");
  ASSERT_EQ(RunToEnd(NewLargeModel(model), log, 30000), 0) << TextOf(log);
  ASSERT_TRUE(WriteFileAtomic(data, "{\"prompt\": \"1:\", \"response\": \"1\"}\n").ok());
  const int code = RunToEnd(
      {"prlimit", "--as=4294967296", SiblingProgram("learner"), "sft", "--model", model, "--data",
       data, "--out", model + "-out", "--steps", "1", "--batch", "1", "--micro-batch-tokens", "64"},
      log, 30000);
  EXPECT_EQ(code, 6);
  EXPECT_THAT(TextOf(log), AllOf(HasSubstr("you tried to allocate"), HasSubstr("the peak of this"),
                                 HasSubstr("lower --micro-batch-tokens (64)")));
}

}  // namespace
}  // namespace buttress
