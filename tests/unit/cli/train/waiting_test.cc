#include <gtest/gtest.h>

#include "cli/train/console.h"

namespace buttress {
namespace {

TEST(WaitingTest, NamesWhoIsWaitedFor) {
  RunView view;
  EXPECT_EQ(WaitingFor(view, 8), "the coordinator, which does not answer");
  view.answered = true;
  view.run.set_total_steps(9);
  EXPECT_EQ(WaitingFor(view, 8), "the learner to load the model and register");
  view.run.set_learner_epoch(1);
  EXPECT_EQ(WaitingFor(view, 8), "a rollout worker to load the model and register");
  EXPECT_EQ(WaitingFor(view, 8, /*launches_vllm=*/true),
            "a vLLM server to load the model; logs/vllm-*.log say how far it is");
  view.run.add_workers()->set_leases(3);
  (*view.run.mutable_groups())["pending"] = 8;
  EXPECT_EQ(WaitingFor(view, 8),
            "groups of step 1: 0 of 8 are ready, 8 are not leased; workers wait for weights or "
            "places");
  (*view.run.mutable_groups())["leased"] = 3;
  (*view.run.mutable_groups())["ready"] = 5;
  EXPECT_EQ(WaitingFor(view, 8), "groups of step 1: 5 of 8 are ready, 3 are sampled or scored");
  view.scoring = true;
  EXPECT_EQ(WaitingFor(view, 8),
            "groups of step 1: 5 of 8 are ready, 3 are with run.reward.verifier");
  (*view.run.mutable_groups())["batched"] = 8;
  EXPECT_EQ(WaitingFor(view, 8), "the learner, which trains step 1");
  view.run.set_step(9);
  EXPECT_EQ(WaitingFor(view, 8), "the learner to write the last checkpoint and model");
}

}  // namespace
}  // namespace buttress
