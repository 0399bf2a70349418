#include "rollout_worker/worker.h"

#include <gmock/gmock.h>

#include "lib/base/report/status.h"
#include "lib/base/text/random.h"
#include "lib/experience/group.h"
#include "tests/support/worker_fixture.h"

namespace buttress {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Seen = FakeCoordinator::Seen;

class WorkerTest : public WorkerFixture {};

TEST_F(WorkerTest, SubmitsLeasedGroupsCompleteScoredAndSeeded) {
  for (std::uint64_t id = 1; id <= 10; ++id) coordinator_.Offer(LeaseOf(id));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 10; }));
  const v1::Group group = coordinator_.seen().accepted.at({3, 1});
  EXPECT_EQ(group.head().group_id(), 3U);
  EXPECT_EQ(group.head().prompt_id(), "p3");
  EXPECT_EQ(group.head().source(), "numbers");
  EXPECT_EQ(group.head().worker_id(), "w0");
  EXPECT_EQ(group.sampling().seed(), 3U) << "each completion mixes in its index";
  ASSERT_EQ(Completions(group.head()), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(OutcomeOf(group.head(), i),
              TokensOf(group, i).front() % 2 == 0 ? Outcome::kCorrect : Outcome::kWrong);
  }
  // The worker reports every acknowledged group exactly once.
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.finished.size() == 10 && seen.last.held_size() == 0; }));
  for (const auto& [key, times] : coordinator_.seen().finished) EXPECT_EQ(times, 1);
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("buttress_worker_completions_total{finish_reason=\"stop\"} 40"));
  EXPECT_TRUE(Stop().ok());
}

TEST_F(WorkerTest, ReportsWhereItsTimeGoes) {
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.time().no_lease_seconds() > 0; }));
  EXPECT_EQ(coordinator_.seen().last.time().generating_seconds(), 0);
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1));
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.time().generating_seconds() > 0; }));
  const v1::WorkerTime time = coordinator_.seen().last.time();
  EXPECT_LE(time.generating_seconds() + time.scoring_seconds() + time.no_lease_seconds() +
                time.wait_weights_seconds() + time.submitting_seconds(),
            time.up_seconds());
  engine_.Stall(false);
  EXPECT_TRUE(Stop().ok());
}

TEST_F(WorkerTest, ExportsTheHealthOfTheInferenceServers) {
  engine_.SetServers({{"http://a:1", true, true}, {"http://b:1", false, false}});
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 1; }));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("buttress_worker_server_healthy{server=\"http://a:1\"} 1\n"));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("buttress_worker_server_healthy{server=\"http://b:1\"} 0\n"));
  engine_.SetServers({{"http://a:1", true, true}, {"http://b:1", true, false}});
  coordinator_.Offer(LeaseOf(2));
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 2; }));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("buttress_worker_server_healthy{server=\"http://b:1\"} 1\n"));
  EXPECT_THAT(metrics_.Expose(),
              HasSubstr("buttress_worker_server_serving{server=\"http://b:1\"} 0\n"));
}

TEST_F(WorkerTest, ExportsTheVersionLossesAndWorkOfTheInferenceServers) {
  ServerState server = {"http://a:1", true, true, 5, 2, 1, 40, 300};
  engine_.SetServers({server});
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 1; }));
  server.tokens = 310;
  engine_.SetServers({server});
  coordinator_.Offer(LeaseOf(2));
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 2; }));
  for (const char* line :
       {"weights_version{server=\"http://a:1\"} 5\n", "losses_total{server=\"http://a:1\"} 2\n",
        "restarts_total{server=\"http://a:1\"} 1\n",
        "completions_total{server=\"http://a:1\"} 40\n",
        "tokens_total{server=\"http://a:1\"} 310\n"}) {
    EXPECT_THAT(metrics_.Expose(), HasSubstr(std::string("buttress_worker_server_") + line));
  }
}

TEST_F(WorkerTest, EndsWhenTheMemoryOfItsEngineDoesNotSuffice) {
  engine_.FailNext(1, OutOfMemory("8 GiB of a GPU"));
  coordinator_.Offer(LeaseOf(1));
  Start();
  const Status status = Join();
  EXPECT_EQ(status.message(), "out of memory: 8 GiB of a GPU");
  EXPECT_EQ(ExitCode(status), 6);
}

TEST_F(WorkerTest, NeverHoldsMoreThanItsCapacity) {
  engine_.Stall(true);
  for (std::uint64_t id = 1; id <= 10; ++id) coordinator_.Offer(LeaseOf(id));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.last.held_size() == 4; }));
  EXPECT_EQ(coordinator_.seen().last.capacity(), 0U);
  engine_.Stall(false);
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 10; }));
}

TEST_F(WorkerTest, ReturnsOkWhenTheRunIsFinished) {
  coordinator_.SetRunState(v1::RUN_STATE_FINISHED);
  Start();
  EXPECT_TRUE(Join().ok());
}

TEST_F(WorkerTest, ReturnsOkWhenTheRunIsStoppedButWaitsForTheCheckpointOfTheStop) {
  coordinator_.SetRunState(v1::RUN_STATE_STOPPING);
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.registrations == 1; }));
  coordinator_.Offer(LeaseOf(1));
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 1; }))
      << "it left before the stop was done";
  coordinator_.SetRunState(v1::RUN_STATE_STOPPED);
  EXPECT_TRUE(Join().ok());
}

TEST_F(WorkerTest, AnOrderToDrainFinishesTheHeldGroupsAndEndsTheWorker) {
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(engine_.WaitForInFlight(4));
  coordinator_.SetOrder(v1::WORKER_ORDER_DRAIN);
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.last.draining(); }));
  engine_.Stall(false);
  EXPECT_TRUE(Join().ok());
  EXPECT_TRUE(coordinator_.seen().accepted.contains({1, 1}));
}

TEST_F(WorkerTest, ReturnsInvalidArgumentForAnotherConfiguration) {
  coordinator_.RefuseRegistration(grpc::StatusCode::FAILED_PRECONDITION);
  Start();
  EXPECT_EQ(Join().code(), StatusCode::kInvalidArgument);
}

TEST_F(WorkerTest, RegistersAgainAfterTheCoordinatorRestarts) {
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.registrations == 1; }));
  coordinator_.Forget();
  coordinator_.Offer(LeaseOf(1));
  EXPECT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.accepted.size() == 1 && seen.registrations == 2; }));
}

// Without waiting for the next report, nor for news in the call that it repeats.
TEST_F(WorkerTest, TellsARestartedCoordinatorAtOnceWhatItHolds) {
  WorkerOptions options = DefaultOptions();
  options.partial_ms = 3600000;
  options.poll_ms = 3600000;
  engine_.Stall(true);
  v1::Lease lease = LeaseOf(1);
  const std::vector<std::int32_t> tokens = {5, 6};
  const std::vector<float> logprobs = {-1, -1};
  const std::vector<Segment> segments = {{0, engine_.version()}};
  *lease.add_partials() = ToProto(PartFrom(2, 0, tokens, logprobs, segments));
  coordinator_.Offer(lease);
  Start(options);
  ASSERT_TRUE(engine_.WaitForInFlight(4));
  const auto tells = [](const Seen& seen) {
    return seen.last.partials_size() == 1 && seen.last.partials(0).completion() == 2 &&
           seen.last.partials(0).first_token() == 0 && seen.last.partials(0).token_ids_size() == 2;
  };
  EXPECT_FALSE(tells(coordinator_.seen())) << "the coordinator has it from the worker before";
  coordinator_.Forget();
  EXPECT_TRUE(coordinator_.WaitUntil(tells));
  coordinator_.SetRunState(v1::RUN_STATE_FINISHED);
  EXPECT_TRUE(Join().ok());
}

// What it holds is of no use there, so the caller starts a new worker with a new engine.
TEST_F(WorkerTest, EndsWhenAnotherRunTakesThePlaceOfItsOwn) {
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(engine_.WaitForInFlight(4));
  coordinator_.BecomeAnotherRun();
  const Status status = Join();
  EXPECT_EQ(status.code(), StatusCode::kAborted) << status.ToString();
  EXPECT_EQ(coordinator_.seen().registrations, 1);
  EXPECT_TRUE(coordinator_.seen().accepted.empty());
}

TEST_F(WorkerTest, CancelsTheSamplesOfRevokedLeases) {
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1));
  coordinator_.Offer(LeaseOf(2));
  Start();
  ASSERT_TRUE(engine_.WaitForInFlight(8));
  coordinator_.Revoke({1, 1});
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.last.held_size() == 1; }));
  engine_.Stall(false);
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 1; }));
  EXPECT_TRUE(coordinator_.seen().accepted.contains({2, 1}));
  EXPECT_EQ(engine_.cancelled().size(), 4U);
}

TEST_F(WorkerTest, ANewerLeaseOfAGroupReplacesTheOlderOne) {
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1, 1));
  Start();
  ASSERT_TRUE(engine_.WaitForInFlight(4));
  coordinator_.Offer(LeaseOf(1, 2));
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.last.held_size() == 1 && seen.last.held(0).lease_epoch() == 2;
  }));
  engine_.Stall(false);
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 1; }));
  EXPECT_TRUE(coordinator_.seen().accepted.contains({1, 2}));
  EXPECT_EQ(engine_.cancelled().size(), 4U);
}

TEST_F(WorkerTest, RetriesAFailedCompletionOnce) {
  engine_.FailNext(1);
  coordinator_.Offer(LeaseOf(1));
  Start();
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 1; }));
  EXPECT_TRUE(coordinator_.seen().returned.empty());
}

TEST_F(WorkerTest, ReturnsALeaseWhoseCompletionsKeepFailing) {
  engine_.FailNext(1000);
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.returned.size() == 1; }));
  EXPECT_EQ(coordinator_.seen().returned.at({1, 1}), v1::RETURN_REASON_ENGINE_FAILED);
  EXPECT_TRUE(coordinator_.seen().accepted.empty());
}

TEST_F(WorkerTest, ReturnsLeasesWithoutFaultAndOffersNoRoomWhileNoServerSamples) {
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(engine_.WaitForInFlight(4));
  engine_.SetAvailable(false);
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.returned.size() == 1; }));
  EXPECT_EQ(coordinator_.seen().returned.at({1, 1}), v1::RETURN_REASON_WEIGHTS_UNAVAILABLE);
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.last.capacity() == 0; }));
  coordinator_.Offer(LeaseOf(2));
  engine_.Stall(false);
  engine_.SetAvailable(true);
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 1; }));
  EXPECT_EQ(coordinator_.seen().returned.size(), 1U);
  EXPECT_TRUE(Stop().ok());
}

TEST_F(WorkerTest, AFullWorkerWaitsAtTheCoordinatorForNews) {
  WorkerOptions options = DefaultOptions();
  options.capacity_groups = 1;
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1));
  Start(options);
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.capacity() == 0 && seen.last.wait_ms() > 0; }));
  coordinator_.Offer(LeaseOf(2));
  engine_.Stall(false);
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 2; }));
  EXPECT_TRUE(Stop().ok());
}

// They are more than the failures in a row that end a worker.
TEST_F(WorkerTest, GroupsThatAreGivenBackAreNoFailuresOfTheEngine) {
  WorkerOptions options = DefaultOptions();
  options.capacity_groups = 20;
  engine_.Stall(true);
  for (std::uint64_t id = 1; id <= 20; ++id) coordinator_.Offer(LeaseOf(id));
  Start(options);
  ASSERT_TRUE(engine_.WaitForInFlight(80));
  engine_.SetAvailable(false);
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.returned.size() == 20; }));
  EXPECT_TRUE(Stop().ok());
}

TEST_F(WorkerTest, ReturnsUnavailableWhenTheEngineKeepsFailing) {
  engine_.FailNext(100000);
  for (std::uint64_t id = 1; id <= 40; ++id) coordinator_.Offer(LeaseOf(id));
  Start();
  EXPECT_EQ(Join().code(), StatusCode::kUnavailable);
}

// They are more than the failures in a row that end a worker.
TEST_F(WorkerTest, PromptsThatAreTooLongForTheModelAreNoFailuresOfTheEngine) {
  engine_.FailNext(100000, OutOfRange("the prompt has 300 tokens"));
  for (std::uint64_t id = 1; id <= 40; ++id) coordinator_.Offer(LeaseOf(id));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.returned.size() == 40; }));
  EXPECT_EQ(coordinator_.seen().returned.at({1, 1}), v1::RETURN_REASON_ENGINE_FAILED);
  EXPECT_TRUE(Stop().ok());
}

TEST_F(WorkerTest, SubmitsTruncatedCompletionsAsTruncated) {
  engine_.TruncateNext(4);
  coordinator_.Offer(LeaseOf(1));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 1; }));
  const Seen seen = coordinator_.seen();
  EXPECT_THAT(seen.accepted.at({1, 1}).head().finish_reasons(), Each(v1::FINISH_REASON_LENGTH));
}

TEST_F(WorkerTest, ReturnsALeaseThatItCannotSample) {
  v1::Lease lease = LeaseOf(1);
  lease.add_prompt_token_ids(100);  // the vocabulary ends at 99
  coordinator_.Offer(lease);
  coordinator_.Offer(LeaseOf(2));
  Start();
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.returned.size() == 1 && seen.accepted.size() == 1; }));
  EXPECT_EQ(coordinator_.seen().returned.at({1, 1}), v1::RETURN_REASON_ENGINE_FAILED);
}

TEST_F(WorkerTest, RepeatsSubmissionsUntilTheyAreAcknowledged) {
  // The client does not retry these codes; the submitter repeats the submission, because a restart
  // of the coordinator may help.
  coordinator_.RefuseSubmissions(2, grpc::StatusCode::RESOURCE_EXHAUSTED);
  coordinator_.Offer(LeaseOf(1));
  Start();
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.finished.size() == 1; }));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("buttress_worker_submit_retries_total 2"));
}

TEST_F(WorkerTest, ReturnsTheLeaseOfAGroupThatTheCoordinatorRefuses) {
  coordinator_.RefuseSubmissions(1, grpc::StatusCode::INVALID_ARGUMENT);
  coordinator_.Offer(LeaseOf(1));
  Start();
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) {
    return seen.returned.contains({1, 1});
  }));
}

TEST_F(WorkerTest, DrainingFinishesRunningGroupsAndReturnsWaitingLeases) {
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1));
  v1::Lease later = LeaseOf(2);
  *later.mutable_min_version() = ToProto(PolicyVersion{1, 5, ""});
  coordinator_.Offer(later);
  Start();
  ASSERT_TRUE(engine_.WaitForInFlight(4));
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.last.held_size() == 2; }));
  worker_->RequestDrain();
  ASSERT_TRUE(coordinator_.WaitUntil(
      [](const Seen& seen) { return seen.last.draining() && seen.last.capacity() == 0; }));
  engine_.Stall(false);
  EXPECT_TRUE(Join().ok());
  EXPECT_TRUE(coordinator_.seen().accepted.contains({1, 1}));
  EXPECT_EQ(coordinator_.seen().returned.at({2, 1}), v1::RETURN_REASON_DRAINING);
}

// The last group of a step lets the learner train, on the GPU that the engine takes.
TEST_F(WorkerTest, GroupsThatAreHeldBackAreSubmittedOnceTheEngineSleeps) {
  RunConfig config;
  config.run.batch.prompts = 1000;
  config.local.worker.vllm.launch.colocate = true;
  WorkerOptions options = DefaultOptions();
  options.hold_back = WorkerOptions::From(config, "w0").hold_back;
  EXPECT_EQ(WorkerOptions::From(config, "w0").capacity_groups, 1000U) << "a step";
  engine_.LetSleep(false);
  coordinator_.Offer(LeaseOf(1));
  coordinator_.Offer(LeaseOf(2));
  Start(options);
  ASSERT_TRUE(engine_.WaitForSleep());
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.last.held_size() == 2; }));
  EXPECT_TRUE(coordinator_.seen().accepted.empty());
  engine_.LetSleep(true);
  ASSERT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 2; }));
  coordinator_.Offer(LeaseOf(3));
  EXPECT_TRUE(coordinator_.WaitUntil([](const Seen& seen) { return seen.accepted.size() == 3; }));
  EXPECT_TRUE(Stop().ok());
}

TEST_F(WorkerTest, AWorkerThatLeavesSubmitsWhatItHasHeldBack) {
  WorkerOptions options = DefaultOptions();
  options.hold_back = true;
  options.drain_ms = 1;
  engine_.LetSleep(false);
  coordinator_.Offer(LeaseOf(1));
  Start(options);
  ASSERT_TRUE(engine_.WaitForSleep());
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(2));
  ASSERT_TRUE(engine_.WaitForInFlight(4));
  engine_.LetSleep(true);
  EXPECT_TRUE(Stop().ok());
  const Seen seen = coordinator_.seen();
  EXPECT_TRUE(seen.accepted.contains({1, 1}));
  EXPECT_FALSE(seen.returned.contains({1, 1}));
  EXPECT_EQ(seen.returned.at({2, 1}), v1::RETURN_REASON_DRAINING);
}

TEST_F(WorkerTest, AnEngineWithoutGroupsSleeps) {
  WorkerOptions options = DefaultOptions();
  options.hold_back = true;
  Start(options);
  EXPECT_TRUE(engine_.WaitForSleep());
}

TEST_F(WorkerTest, DrainingReturnsLeasesThatDoNotFinishInTime) {
  engine_.Stall(true);
  coordinator_.Offer(LeaseOf(1));
  RunConfig config;
  config.local.worker.drain_ms = 1;
  WorkerOptions options = DefaultOptions();
  options.drain_ms = WorkerOptions::From(config, "w0").drain_ms;
  Start(options);
  ASSERT_TRUE(engine_.WaitForInFlight(4));
  EXPECT_TRUE(Stop().ok());
  EXPECT_EQ(coordinator_.seen().returned.at({1, 1}), v1::RETURN_REASON_DRAINING);
  EXPECT_EQ(engine_.cancelled().size(), 4U);
}

}  // namespace
}  // namespace buttress
