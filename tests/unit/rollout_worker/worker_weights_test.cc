#include <gmock/gmock.h>

#include "tests/support/worker_fixture.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Seen = FakeCoordinator::Seen;

class WorkerWeightsTest : public WorkerFixture {
 protected:
  static v1::Lease LeaseAt(std::uint64_t id, std::uint64_t min_step, bool exact = false) {
    v1::Lease lease = LeaseOf(id);
    *lease.mutable_min_version() = ToProto(ManifestAt(min_step).version);
    lease.set_exact_version(exact);
    return lease;
  }
};

TEST_F(WorkerWeightsTest, ALeaseThatNeedsNewerWeightsWaitsForThem) {
  coordinator_.Offer(LeaseAt(1, 2));
  coordinator_.Offer(LeaseOf(2));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.accepted.contains({2, 1});
  }));
  EXPECT_FALSE(coordinator_.seen().accepted.contains({1, 1}));
  coordinator_.Announce(ManifestToProto(ManifestAt(2)));
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.accepted.contains({1, 1});
  }));
  EXPECT_EQ(coordinator_.seen().accepted.at({1, 1}).head().versions(0).step(), 2U);
  EXPECT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.loaded_version().step() == 2; }));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("buttress_worker_weights_version 2"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("buttress_worker_weights_proven 1"));
}

TEST_F(WorkerWeightsTest, KeepsOldWeightsWhileNewOnesCannotBeFetched) {
  fetcher_.FailNext(2, DataLoss("torn"));
  coordinator_.Announce(ManifestToProto(ManifestAt(1)));
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.accepted.contains({1, 1});
  }));
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.loaded_version().step() == 1; }));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("buttress_worker_weight_update_failures_total{stage=\"checksum\"} 2"));
}

TEST_F(WorkerWeightsTest, RetriesWeightsThatTheEngineRefuses) {
  engine_.FailUpdates(1);
  coordinator_.Announce(ManifestToProto(ManifestAt(1)));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.loaded_version().step() == 1; }));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("buttress_worker_weight_update_failures_total{stage=\"apply\"} 1"));
  // The generation loop looks at the engine between its polls.
  EXPECT_TRUE(coordinator_.WaitUntil([this](const Seen&) {
    const std::string metrics = metrics_.Expose();
    return metrics.find("buttress_worker_weights_unchanged_total 1\n") != std::string::npos &&
           metrics.find("buttress_worker_canary_difference_nats 0.25\n") != std::string::npos;
  }));
}

TEST_F(WorkerWeightsTest, ANewerVersionInterruptsATransferButNotTwiceInARow) {
  fetcher_.Hold(true);
  coordinator_.Announce(ManifestToProto(ManifestAt(1)));
  Start();
  ASSERT_TRUE(fetcher_.WaitForFetches(1));
  coordinator_.Announce(ManifestToProto(ManifestAt(2)));
  ASSERT_TRUE(fetcher_.WaitForFetches(2)) << "the transfer of version 1 continues";
  coordinator_.Announce(ManifestToProto(ManifestAt(3)));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // an Exchange brings version 3
  fetcher_.Hold(false);
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.loaded_version().step() == 3; }));
  EXPECT_THAT(engine_.updates(), ElementsAre(ManifestAt(2).version, ManifestAt(3).version));
}

TEST_F(WorkerWeightsTest, AFurtherSourceInterruptsATransferOfTheSameVersion) {
  fetcher_.Hold(true);
  WeightManifest manifest = ManifestAt(1);
  coordinator_.Announce(ManifestToProto(manifest));
  Start();
  ASSERT_TRUE(fetcher_.WaitForFetches(1));
  manifest.sources.push_back("relay:1");
  coordinator_.Announce(ManifestToProto(manifest));
  ASSERT_TRUE(fetcher_.WaitForFetches(2)) << "the transfer from the publisher continues";
  fetcher_.Hold(false);
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.loaded_version().step() == 1; }));
}

// The coordinator answers each Exchange at once meanwhile.
TEST_F(WorkerWeightsTest, AsksLessOftenTheLongerTheFetchTakes) {
  fetcher_.Hold(true);
  coordinator_.Announce(ManifestToProto(ManifestAt(1)));
  Start();
  ASSERT_TRUE(fetcher_.WaitForFetches(1));
  EXPECT_TRUE(
      coordinator_.WaitUntil([](const Seen& seen) { return seen.longest_pause_ms >= 200; }));
  fetcher_.Hold(false);
  EXPECT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.loaded_version().step() == 1; }));
}

TEST_F(WorkerWeightsTest, ReturnsLeasesWhoseWeightsCannotBeFetched) {
  fetcher_.FailNext(1 << 20, Unavailable("no source answers"));
  WorkerOptions options = DefaultOptions();
  options.weights_patience_ms = 1;
  coordinator_.Announce(ManifestToProto(ManifestAt(3)));
  coordinator_.Offer(LeaseAt(1, 3));
  Start(options);
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.returned.contains({1, 1});
  }));
  EXPECT_EQ(coordinator_.seen().returned.at({1, 1}), v1::RETURN_REASON_WEIGHTS_UNAVAILABLE);
  // The worker asks for no more leases, which it would have to return again.
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.last.capacity() == 0; }));
}

TEST_F(WorkerWeightsTest, KeepsWeightsWhileAGroupNeedsExactlyThem) {
  engine_.Stall(true);
  coordinator_.Announce(ManifestToProto(ManifestAt(1)));
  coordinator_.Offer(LeaseAt(1, 1, /*exact=*/true));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.last.held_size() == 1 && seen.last.loaded_version().step() == 1;
  }));
  coordinator_.Announce(ManifestToProto(ManifestAt(2)));
  coordinator_.Offer(LeaseOf(2));
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.last.held_size() == 2; }));
  engine_.Stall(false);
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.loaded_version().step() == 2; }));
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.accepted.contains({1, 1});
  }));
  EXPECT_EQ(coordinator_.seen().accepted.at({1, 1}).head().versions(0).step(), 1U);
  EXPECT_THAT(engine_.updates(), ElementsAre(ManifestAt(1).version, ManifestAt(2).version));
}

TEST_F(WorkerWeightsTest, ReturnsALeaseThatNeedsAnOlderExactVersion) {
  coordinator_.Announce(ManifestToProto(ManifestAt(2)));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.loaded_version().step() == 2; }));
  coordinator_.Offer(LeaseAt(1, 1, /*exact=*/true));
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.returned.contains({1, 1});
  }));
  EXPECT_EQ(coordinator_.seen().returned.at({1, 1}), v1::RETURN_REASON_WEIGHTS_UNAVAILABLE);
}

TEST_F(WorkerWeightsTest, CountsAndIgnoresAMalformedManifest) {
  v1::WeightManifest broken = ManifestToProto(ManifestAt(1));
  broken.mutable_files(0)->set_bytes(99);
  coordinator_.Announce(broken);
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.accepted.contains({1, 1});
  }));
  EXPECT_TRUE(engine_.updates().empty());
  EXPECT_THAT(metrics_.Expose(), HasSubstr("stage=\"checksum\""));
}

}  // namespace
}  // namespace buttress
