#include "lib/base/os/busy_mark.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

// A child that holds the mark until it is killed.
class BusyChild {
 public:
  explicit BusyChild(const std::string& path) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const Result<BusyMark> mark = BusyMark::Set(path);
      const char byte = mark.ok() ? 'y' : 'n';
      if (::write(ready[1], &byte, 1) == 1) ::pause();
      ::_exit(0);
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    ::close(ready[0]);
    ::close(ready[1]);
  }

  ~BusyChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

TEST(BusyMarkTest, AMarkIsSeenUntilItsProcessDies) {
  const TempDir dir;
  const std::string path = JoinPath(dir.path(), "busy");
  EXPECT_FALSE(IsBusy(path));
  {
    const BusyChild child(path);
    EXPECT_TRUE(IsBusy(path));
    EXPECT_EQ(BusyMark::Set(path).status().code(), StatusCode::kUnavailable);
  }
  EXPECT_FALSE(IsBusy(path));
}

TEST(BusyMarkTest, AMarkEndsWithItsObject) {
  const TempDir dir;
  const std::string path = JoinPath(dir.path(), "busy");
  { ASSERT_TRUE(BusyMark::Set(path).ok()); }
  const BusyChild child(path);
  EXPECT_TRUE(IsBusy(path));
}

TEST(BusyMarkTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(BusyMark::Set("/nowhere/busy").status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace buttress
