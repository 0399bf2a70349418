#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/train/console.h"
#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kWarning = "2026-01-01T00:00:00.000Z W rollout_worker/w0 step=1 version=1 ";

class LogNoticesTest : public testing::Test {
 protected:
  void Append(const std::string& name, const std::string& text) const {
    std::ofstream(JoinPath(dir_.path(), name), std::ios::app) << text;
  }

  const TempDir dir_;
};

TEST_F(LogNoticesTest, TheFirstOfEachKindIsShownWithTheLinesThatBelongToIt) {
  Append("worker-w0.log", std::string(kWarning) + "of an earlier run\n");
  LogNotices notices(dir_.path());
  EXPECT_THAT(notices.Poll(), IsEmpty());
  Append("worker-w0.log", std::string(kWarning) +
                              "reward function raised KeyError: 'a'\nTraceback:\n  line 3\n" +
                              "2026-01-01T00:00:00.000Z I rollout_worker/w0 weights loaded\n");
  EXPECT_THAT(notices.Poll(), ElementsAre("worker-w0: reward function raised KeyError: 'a'\n"
                                          "    Traceback:\n      line 3"));
  // Another worker, another key, and fields with other values are of the same kinds.
  Append("worker-w1.log", std::string(kWarning) + "reward function raised KeyError: 'b'\nmore\n" +
                              kWarning + "lost group=7 error=x\n-----\nPrimary job terminated\n");
  EXPECT_THAT(notices.Poll(), ElementsAre("worker-w1: lost group=7 error=x"));
  Append("worker-w0.log", std::string(kWarning) + "lost group=8 error=y\n");
  EXPECT_THAT(notices.Poll(), IsEmpty());
}

TEST_F(LogNoticesTest, AnUnfinishedLineWaits) {
  LogNotices notices(dir_.path());
  Append("learner.log", "2026-01-01T00:00:00.000Z W learner/0 step=9 version=9 slow di");
  EXPECT_THAT(notices.Poll(), IsEmpty());
  Append("learner.log", "sk\n");
  EXPECT_THAT(notices.Poll(), ElementsAre("learner: slow disk"));
}

// The console takes alarms from the steps, and the end of a run from the status of its learner.
TEST_F(LogNoticesTest, WhatTheConsoleSaysByItselfIsNoNotice) {
  LogNotices notices(dir_.path());
  Append("learner.log",
         "2026-01-01T00:00:00.000Z W learner/0 step=9 version=9 alarm alarm=kl_drift entropy=1\n"
         "2026-01-01T00:00:00.000Z E learner/0 step=9 version=9 learner leaves why=\"nothing to "
         "learn: x\"\nlearner: FAILED_PRECONDITION: nothing to learn: x\n");
  EXPECT_THAT(notices.Poll(), IsEmpty());
}

}  // namespace
}  // namespace buttress
