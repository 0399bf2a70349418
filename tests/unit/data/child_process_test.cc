#include "lib/data/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using std::chrono::minutes;
using testing::HasSubstr;

TEST(RunInChildTest, TheStatusAndWhatWasWrittenComeBack) {
  const TempDir folder;
  const std::string path = JoinPath(folder.path(), "written");
  int here = 0;
  const auto work = [&] {
    here = 1;
    return WriteFileAtomic(path, "by the child");
  };
  EXPECT_TRUE(RunInChild(work, minutes(5)).ok());
  EXPECT_EQ(here, 0);
  EXPECT_EQ(*ReadFile(path), "by the child");
  const std::string longer_than_a_pipe(200'000, 'x');
  const Status status = RunInChild([&] { return DataLoss(longer_than_a_pipe); }, minutes(5));
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), longer_than_a_pipe);
}

TEST(RunInChildTest, ACrashIsAnError) {
  const Status status = RunInChild(
      [] {
        std::signal(SIGSEGV, SIG_DFL);
        ::kill(::getpid(), SIGSEGV);
        return OkStatus();
      },
      minutes(5));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("ended by signal 11 (Segmentation fault)"));
  const Status thrown =
      RunInChild([]() -> Status { throw std::runtime_error("thrown"); }, minutes(5));
  EXPECT_EQ(thrown.ToString(), "INTERNAL: thrown");
  const Status gone = RunInChild([]() -> Status { ::_exit(0); }, minutes(5));
  EXPECT_THAT(gone.message(), HasSubstr("said nothing"));
}

TEST(RunInChildTest, WorkThatDoesNotEndIsStopped) {
  const auto work = []() -> Status {
    while (true) ::pause();
  };
  EXPECT_EQ(RunInChild(work, std::chrono::milliseconds(50)).code(), StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace buttress
