#include "coordinator/worker_trials.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

// Returns how many groups the worker delivers until it is proven.
int DeliverUntilProven(WorkerTrials& trials) {
  int delivered = 0;
  while (!trials.proven("w")) {
    trials.Prove("w");
    ++delivered;
  }
  return delivered;
}

TEST(WorkerTrialsTest, EachDoubtAsksForTwiceAsManyGroupsUpToABound) {
  WorkerTrials trials;
  trials.Prove("w");
  for (const int asked : {8, 16, 32, 32}) {
    trials.Doubt("w");
    EXPECT_EQ(DeliverUntilProven(trials), asked);
  }
}

TEST(WorkerTrialsTest, AWorkerThatHasDeliveredManyGroupsIsNotDoubted) {
  WorkerTrials trials;
  trials.Prove("w");
  for (int i = 0; i < 3; ++i) {
    trials.Doubt("w");
    DeliverUntilProven(trials);
  }
  for (int i = 0; i < WorkerTrials::kMostOwed; ++i) trials.Prove("w");
  trials.Doubt("w");
  EXPECT_EQ(DeliverUntilProven(trials), WorkerTrials::kLeastOwed);
}

TEST(WorkerTrialsTest, DoubtsOfAWorkerOnTrialChangeNothing) {
  WorkerTrials trials;
  trials.Doubt("w");
  EXPECT_EQ(DeliverUntilProven(trials), 1);
  trials.Doubt("w");
  trials.Doubt("w");
  EXPECT_EQ(DeliverUntilProven(trials), WorkerTrials::kLeastOwed);
}

TEST(WorkerTrialsTest, WorkersThatAreGoneAreForgotten) {
  WorkerTrials trials;
  trials.Prove("w");
  trials.NoteRoom("w", true);
  trials.Doubt("w");
  DeliverUntilProven(trials);
  EXPECT_TRUE(trials.AnyIdleBut("a"));
  EXPECT_FALSE(trials.AnyIdleBut("w"));
  trials.Sweep([](const std::string&) { return false; });
  EXPECT_FALSE(trials.AnyIdleBut("a"));
  EXPECT_FALSE(trials.proven("w"));
  trials.Prove("w");
  trials.Doubt("w");
  EXPECT_EQ(DeliverUntilProven(trials), WorkerTrials::kLeastOwed) << "its doubts went with it";
}

}  // namespace
}  // namespace buttress
