#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rollout_worker/vllm/health_poller.h"

namespace buttress::pace_watch_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kPatience = 1000;

// Lets the servers send their tokens of one window, in ten pieces.
void RunWindow(PaceWatch& pace, std::vector<std::size_t> tokens, std::int64_t begin_ms) {
  for (std::int64_t piece = 1; piece <= 10; ++piece) {
    for (std::size_t server = 0; server < tokens.size(); ++server)
      pace.CountTokens(server, tokens[server] / 10, begin_ms + piece * kPatience / 20);
  }
}

TEST(PaceWatchTest, AServerWithoutATokenHangsAndAnIdleOneDoesNot) {
  PaceWatch pace(2, kPatience, 0);
  pace.Begin(0, 100);
  pace.CountTokens(0, 3, 600);
  EXPECT_THAT(pace.Check(1599), IsEmpty());
  const auto faults = pace.Check(1600);
  ASSERT_THAT(faults, SizeIs(1));
  EXPECT_EQ(faults[0].server, 0U);
  EXPECT_THAT(faults[0].why, HasSubstr("no token of 1 completions in 1000 ms"));
  pace.End(0, 1600);
  EXPECT_THAT(pace.Check(9000), IsEmpty());
}

TEST(PaceWatchTest, TheTimeBeforeTheFirstCompletionDoesNotCount) {
  PaceWatch pace(1, kPatience, 0);
  pace.Begin(0, 5000);
  EXPECT_THAT(pace.Check(5999), IsEmpty());
  EXPECT_THAT(pace.Check(6000), SizeIs(1));
}

TEST(PaceWatchTest, ASlowServerRestsTwiceAsLongEachTime) {
  PaceWatch pace(2, kPatience, 0);
  for (std::size_t server = 0; server < 2; ++server) pace.Begin(server, 0);
  std::int64_t rest_ms = kPatience;
  for (std::int64_t begin_ms = 0; begin_ms < 3 * kPatience; begin_ms += kPatience / 2) {
    RunWindow(pace, {1000, 90}, begin_ms);
    const auto faults = pace.Check(begin_ms + kPatience / 2);
    ASSERT_THAT(faults, SizeIs(1));
    EXPECT_EQ(faults[0].server, 1U);
    EXPECT_EQ(faults[0].rest_ms, rest_ms);
    rest_ms = std::min<std::int64_t>(2 * rest_ms, 32 * kPatience);
  }
  RunWindow(pace, {1000, 110}, 3 * kPatience);
  EXPECT_THAT(pace.Check(7 * kPatience / 2), IsEmpty());
  RunWindow(pace, {1000, 90}, 7 * kPatience / 2);
  EXPECT_EQ(pace.Check(4 * kPatience).at(0).rest_ms, kPatience);
}

TEST(PaceWatchTest, AServerWithFewCompletionsAndOneWithManyAreNotSlow) {
  PaceWatch pace(2, kPatience, 0);
  for (int i = 0; i < 100; ++i) pace.Begin(0, 0);
  pace.Begin(1, 0);
  RunWindow(pace, {5000, 200}, 0);  // 50 tokens of each completion, and 200
  EXPECT_THAT(pace.Check(kPatience / 2), IsEmpty());
}

TEST(PaceWatchTest, AServerThatWasBusyForAPartOfTheWindowIsNotJudged) {
  PaceWatch pace(2, kPatience, 0);
  pace.Begin(0, 0);
  pace.Begin(1, kPatience / 4);
  RunWindow(pace, {1000, 10}, 0);
  EXPECT_THAT(pace.Check(kPatience / 2), IsEmpty());
}

}  // namespace
}  // namespace buttress::pace_watch_test
