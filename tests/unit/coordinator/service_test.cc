// Tests the coordinator as workers and learners see it: over gRPC on a free port, in this process,
// with a real ledger.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <thread>

#include "bench/coordinator/past_run.h"
#include "buttress/v1/coordinator.grpc.pb.h"
#include "coordinator/coordinator.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/ledger/reader.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/rpc/grpc_status.h"
#include "lib/weights/manifest.h"
#include "tests/support/fakes/broken_groups.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/raw_call.h"
#include "tests/support/runs/power_cut.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using testing::HasSubstr;

const std::string sync_log = LogSyncs("service_test");

constexpr int kPrompts = 2;      // P
constexpr int kCompletions = 2;  // G
constexpr std::uint64_t kIncarnation = 11;
constexpr char kSecret[] = "a secret of exactly 32 bytes ...";
// Longer than any test takes, so that a call that is held this long fails its test.
constexpr std::uint32_t kHoldMs = 20000;
// On a machine with much else to do a turn of megabytes takes longer than an attempt may.
constexpr std::int64_t kRetryMs = 60000;

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string jsonl;
    for (int i = 0; i < 40; ++i) {
      jsonl += "{\"id\": \"p" + std::to_string(i) +
               "\", \"prompt\": \"1+1=\", \"answer\": \"2\", \"hard\": true}\n";
    }
    config_.run.data.prompts = JoinPath(folder_.path(), "prompts.jsonl");
    ASSERT_TRUE(WriteFileAtomic(config_.run.data.prompts, jsonl).ok());
    config_.run.steps = 3;
    config_.run.batch.prompts = kPrompts;
    config_.run.sampling.group_size = kCompletions;
    config_.run.lease_ms = 3 * kHoldMs;
    config_.local.out = JoinPath(folder_.path(), "run");
    OpenPrompts();
    limits_.max_completions = kCompletions;
    sampling_.max_tokens = 99;
    sampling_.stop_token_ids = {7};
    Start();
  }

  void OpenPrompts() {
    auto prompts = PromptSet::Open(config_.run, tokenizer_);
    ASSERT_TRUE(prompts.ok()) << prompts.status().ToString();
    prompts_ = *std::move(prompts);
  }

  void Start() {
    metrics_ = std::make_unique<Metrics>("coordinator");
    auto started = Coordinator::Start(config_, *prompts_, limits_, sampling_, *metrics_);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    coordinator_ = *std::move(started);
    ASSERT_TRUE(WriteFileAtomic(AddressFile(), coordinator_->address()).ok());
    run_id_ = client_.GetRunStatus()->run_id();
  }

  void Restart() {
    ASSERT_TRUE(coordinator_->Stop().ok());
    coordinator_.reset();
    Start();
  }

  std::string AddressFile() const { return JoinPath(config_.local.out, "coordinator.address"); }

  // What a worker of this run registers with.
  v1::RegisterWorkerRequest Self(const std::string& worker) const {
    v1::RegisterWorkerRequest self;
    self.set_worker_id(worker);
    self.set_incarnation(kIncarnation);
    self.set_config_sha256(RunConfigHash(config_));
    self.set_worker_secret(kSecret);
    self.set_run_id(run_id_);
    return self;
  }

  // `start_id` is of a registration before; empty for a new process.
  Result<v1::RegisterWorkerResponse> Join(const std::string& worker, const std::string& hash,
                                          const std::string& start_id = "") {
    v1::RegisterWorkerRequest request = Self(worker);
    request.clear_run_id();
    request.set_start_id(start_id);
    request.set_config_sha256(hash);
    return client_.RegisterWorker(request);
  }

  v1::RegisterLearnerResponse StartLearner(std::uint64_t checkpoint_epoch = 0,
                                           std::uint64_t checkpoint_step = 0) {
    v1::RegisterLearnerRequest request;
    request.set_config_sha256(RunConfigHash(config_));
    request.set_world_size(1);
    request.mutable_checkpoint()->set_learner_epoch(checkpoint_epoch);
    request.mutable_checkpoint()->set_step(checkpoint_step);
    auto response = client_.RegisterLearner(request);
    EXPECT_TRUE(response.ok()) << response.status().ToString();
    epoch_ = response->learner_epoch();
    secret_ = response->learner_secret();
    return *response;
  }

  v1::AnnounceWeightsRequest Announcement(std::uint64_t step) const {
    WeightManifest manifest;
    manifest.version = {epoch_, step, ""};
    manifest.files = {{"model.safetensors", 100 + step, Sha256Of("weights")}};
    manifest.tensors = {{"w", "F32", {25}, "model.safetensors", 0, 100}};
    manifest.folder = "/weights";
    manifest.run_id = run_id_;
    manifest.version.digest = ManifestDigest(manifest);
    v1::AnnounceWeightsRequest request;
    request.set_run_id(run_id_);
    request.set_learner_epoch(epoch_);
    request.set_learner_secret(secret_);
    *request.mutable_manifest() = ManifestToProto(manifest);
    return request;
  }

  Status Announce(std::uint64_t step) {
    const v1::AnnounceWeightsRequest request = Announcement(step);
    version_ = {epoch_, step, request.manifest().version().digest()};
    return client_.AnnounceWeights(request);
  }

  v1::ExchangeRequest ExchangeOf(const std::string& worker, std::uint32_t capacity) const {
    v1::ExchangeRequest request;
    request.set_run_id(run_id_);
    request.set_worker_id(worker);
    request.set_incarnation(kIncarnation);
    request.set_worker_secret(kSecret);
    request.set_capacity(capacity);
    *request.mutable_loaded_version() = ToProto(version_);
    return request;
  }

  std::vector<v1::Lease> Lease(std::uint32_t capacity, const std::string& worker = "w0") {
    auto request = ExchangeOf(worker, capacity);
    request.set_wait_ms(kHoldMs);
    const auto response = client_.Exchange(request);
    EXPECT_TRUE(response.ok()) << response.status().ToString();
    return {response->leases().begin(), response->leases().end()};
  }

  // One right and one wrong completion.
  v1::Group Sample(const v1::Lease& lease, const std::string& worker = "w0",
                   std::size_t first_tokens = 3) const {
    return HonestGroup(lease, worker, version_, first_tokens);
  }

  Result<v1::SubmitResult> Submit(const v1::Lease& lease, const v1::Group& group,
                                  const std::string& worker = "w0") {
    return client_.SubmitGroup(Self(worker), lease.ref(), EncodedGroup::Of(group));
  }

  // Leases, samples and submits until P groups have been accepted.
  void FillBatch() {
    for (int accepted = 0; accepted < kPrompts;) {
      for (const v1::Lease& lease : Lease(1)) {
        ASSERT_EQ(*Submit(lease, Sample(lease)), v1::SUBMIT_RESULT_ACCEPTED);
        ++accepted;
      }
    }
  }

  Result<v1::PlanBatchResponse> Plan(std::uint64_t step, std::uint32_t wait_ms = kHoldMs) {
    v1::PlanBatchRequest request;
    request.set_run_id(run_id_);
    request.set_learner_epoch(epoch_);
    request.set_learner_secret(secret_);
    request.set_step(step);
    request.set_wait_ms(wait_ms);
    return client_.PlanBatch(request);
  }

  static std::vector<std::string> PayloadsOf(const std::vector<v1::Group>& groups) {
    std::vector<std::string> bytes;
    for (const v1::Group& group : groups) bytes.push_back(group.SerializeAsString());
    return bytes;
  }

  Result<std::vector<v1::Group>> Fetch(const v1::Plan& plan) {
    v1::FetchGroupsRequest request;
    request.set_run_id(run_id_);
    request.set_learner_epoch(epoch_);
    request.set_learner_secret(secret_);
    request.set_step(plan.step());
    for (const v1::GroupHead& group : plan.groups()) request.add_group_ids(group.group_id());
    return client_.FetchGroups(request);
  }

  Status Commit(std::uint64_t step) {
    v1::CommitRequest request;
    request.set_run_id(run_id_);
    request.set_learner_epoch(epoch_);
    request.set_learner_secret(secret_);
    request.set_step(step);
    request.mutable_version()->set_learner_epoch(epoch_);
    request.mutable_version()->set_step(step);
    return client_.Commit(request);
  }

  Status Checkpoint(std::uint64_t step, const std::string& end_reason = "") {
    v1::CheckpointedRequest request;
    request.set_run_id(run_id_);
    request.set_learner_epoch(epoch_);
    request.set_learner_secret(secret_);
    request.set_step(step);
    request.set_digest(std::string(32, 'c'));
    request.set_end_reason(end_reason);
    return client_.Checkpointed(request);
  }

  void TrainStep(std::uint64_t step) {
    FillBatch();
    const auto plan = Plan(step);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    ASSERT_TRUE(plan->has_plan());
    ASSERT_TRUE(Commit(step).ok());
    ASSERT_TRUE(Announce(step).ok());
  }

  void Begin() {
    ASSERT_TRUE(Join("w0", RunConfigHash(config_)).ok());
    StartLearner();
    ASSERT_TRUE(Announce(0).ok());
  }

  std::map<std::string, std::uint64_t> GroupsByState() {
    const auto status = client_.GetRunStatus();
    EXPECT_TRUE(status.ok());
    return {status->groups().begin(), status->groups().end()};
  }

  TempDir folder_;
  ByteTokenizer tokenizer_;
  RunConfig config_;
  GroupLimits limits_;
  SamplingParams sampling_;
  std::optional<PromptSet> prompts_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Coordinator> coordinator_;
  CoordinatorClient client_{{"", JoinPath(folder_.path(), "run/coordinator.address"), kRetryMs}};
  std::string run_id_;
  std::uint64_t epoch_ = 0;
  std::string secret_;
  PolicyVersion version_;
};

TEST_F(ServiceTest, TheStatusHasTheControlsOfLeasesThatAskedForThem) {
  Begin();
  const std::vector<v1::Lease> leases = Lease(2);
  ASSERT_EQ(leases.size(), 2U);
  v1::ExchangeRequest request = ExchangeOf("w0", 0);
  int asked = 0;
  for (const v1::Lease& lease : leases) {
    *request.add_held() = lease.ref();
    asked += lease.control() ? 1 : 0;
    v1::ControlVerdict& verdict = *request.add_controls();
    *verdict.mutable_lease() = lease.ref();
    verdict.set_source(lease.source());
    verdict.set_gold(true);
    verdict.set_outcome(v1::OUTCOME_WRONG);
  }
  EXPECT_GE(asked, 1);
  ASSERT_TRUE(client_.Exchange(request).ok());
  const auto status = client_.GetRunStatus();
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(status->controls_size(), 1);
  EXPECT_EQ(status->controls(0).source(), leases[0].source());
  EXPECT_EQ(status->controls(0).failed(), static_cast<std::uint64_t>(asked));
}

TEST_F(ServiceTest, ARunIsNotResumedOnAnotherDataset) {
  Begin();
  ASSERT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  std::string rows = *ReadFile(config_.run.data.prompts);
  const std::size_t answer = rows.rfind("\"2\"");
  rows[answer + 1] = '3';
  const std::string changed = JoinPath(folder_.path(), "changed.jsonl");
  ASSERT_TRUE(WriteFileAtomic(changed, rows).ok());
  RunSettings other = config_.run;
  other.data.prompts = changed;
  const auto prompts = PromptSet::Open(other, tokenizer_);
  ASSERT_TRUE(prompts.ok());
  Metrics metrics("coordinator");
  const Status refused =
      Coordinator::Start(config_, *prompts, limits_, sampling_, metrics).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), testing::AllOf(HasSubstr("40 rows with SHA-256 " +
                                                          prompts_->sources()[0].file->sha256()),
                                                HasSubstr("put the old dataset back")));
  Start();  // with the old one
}

TEST_F(ServiceTest, ARunGoesFromLeaseToSettledAndEnds) {
  Begin();
  for (std::uint64_t step = 1; step <= 3; ++step) {
    SCOPED_TRACE(step);
    TrainStep(step);
  }
  ASSERT_TRUE(Checkpoint(3).ok());
  const auto over = Plan(4);
  ASSERT_TRUE(over.ok()) << over.status().ToString();
  EXPECT_EQ(over->run_state(), v1::RUN_STATE_FINISHED);
  EXPECT_FALSE(over->has_plan());
  auto exchange = ExchangeOf("w0", 4);
  exchange.set_wait_ms(kHoldMs);
  const auto told = client_.Exchange(exchange);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->run_state(), v1::RUN_STATE_FINISHED);
  const auto groups = GroupsByState();
  EXPECT_EQ(groups.at("settled"), 6U);  // 3 steps of 2 groups
  EXPECT_EQ(groups.at("pending") + groups.at("leased") + groups.at("ready") + groups.at("batched") +
                groups.at("trained"),
            0U);
  EXPECT_TRUE(coordinator_->finished());
}

TEST_F(ServiceTest, PayloadsOfSettledGroupsAreDeleted) {
  config_.local.coordinator.payload_segment_bytes = 1;  // a file a group
  Restart();
  Begin();
  const std::string folder = JoinPath(config_.local.out, "payloads");
  for (std::uint64_t step = 1; step <= 3; ++step) TrainStep(step);
  ASSERT_TRUE(Checkpoint(1).ok());
  EXPECT_TRUE(std::filesystem::exists(JoinPath(folder, "00000001.seg")))
      << "a learner whose checkpoint is damaged may ask for step 1";
  ASSERT_TRUE(Checkpoint(2).ok());
  EXPECT_FALSE(std::filesystem::exists(JoinPath(folder, "00000001.seg")));
  EXPECT_FALSE(std::filesystem::exists(JoinPath(folder, "00000002.seg")));
  EXPECT_TRUE(std::filesystem::exists(JoinPath(folder, "00000003.seg")))
      << "step 2 may still be asked for";
  ASSERT_TRUE(Checkpoint(3).ok());
  EXPECT_TRUE(std::filesystem::exists(JoinPath(folder, "00000006.seg")))
      << "the ledger's last reference";
  Restart();
}

TEST_F(ServiceTest, KeepPayloadsKeepsThePayloadsOfSettledGroups) {
  config_.local.coordinator.payload_segment_bytes = 1;
  config_.local.coordinator.keep_payloads = true;
  Restart();
  Begin();
  for (std::uint64_t step = 1; step <= 3; ++step) TrainStep(step);
  ASSERT_TRUE(Checkpoint(3).ok());
  EXPECT_TRUE(
      std::filesystem::exists(JoinPath(JoinPath(config_.local.out, "payloads"), "00000001.seg")));
}

TEST_F(ServiceTest, ALeaseCarriesTokensAnswerAndSampling) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  const v1::Lease& lease = leases.front();
  EXPECT_EQ(std::string(lease.prompt_token_ids().begin(), lease.prompt_token_ids().end()), "1+1=");
  EXPECT_EQ(lease.answer(), "2");
  EXPECT_THAT(lease.extra_json(), HasSubstr("\"hard\":true"));
  EXPECT_EQ(lease.completions(), static_cast<std::uint32_t>(kCompletions));
  EXPECT_EQ(lease.sampling().max_tokens(), 99U);
  EXPECT_THAT(lease.sampling().stop_token_ids(), testing::ElementsAre(7));
  EXPECT_NE(lease.sampling().seed(), 0U);
  EXPECT_EQ(lease.min_version().learner_epoch(), epoch_);
}

TEST_F(ServiceTest, LeasesOfLargeRowsComeInAnswersThatFitInAMessage) {
  constexpr int kLargeRows = 40;
  ASSERT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  std::filesystem::remove_all(config_.local.out);
  std::string jsonl;
  for (int i = 0; i < kLargeRows; ++i) {
    jsonl += "{\"id\": \"p" + std::to_string(i) +
             "\", \"prompt\": \"1+1=\", \"answer\": \"2\", \"tests\": \"" +
             std::string(230000, 't') + "\"}\n";
  }
  ASSERT_TRUE(WriteFileAtomic(config_.run.data.prompts, jsonl).ok());
  config_.run.batch.prompts = kLargeRows;
  OpenPrompts();
  Start();
  Begin();
  auto request = ExchangeOf("w0", kLargeRows);
  request.set_wait_ms(kHoldMs);
  int answers = 0;
  for (; request.held_size() < kLargeRows; ++answers) {
    const auto response = client_.Exchange(request);
    ASSERT_TRUE(response.ok()) << response.status().ToString();
    ASSERT_GT(response->leases_size(), 0);
    EXPECT_LT(response->ByteSizeLong(), std::size_t{8} << 20);
    for (const v1::Lease& lease : response->leases()) {
      EXPECT_GT(lease.extra_json().size(), 230000U);
      *request.add_held() = lease.ref();
    }
    request.set_capacity(static_cast<std::uint32_t>(kLargeRows - request.held_size()));
  }
  EXPECT_GE(answers, 2);
  EXPECT_EQ(GroupsByState()["leased"], static_cast<std::uint64_t>(kLargeRows));
}

TEST_F(ServiceTest, PlanAndPayloadsAreTheSameForEveryRequest) {
  Begin();
  FillBatch();
  const auto first = Plan(1);
  const auto second = Plan(1);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->plan().SerializeAsString(), second->plan().SerializeAsString());
  ASSERT_EQ(first->plan().groups_size(), kPrompts);
  EXPECT_EQ(first->plan().groups(0).lengths(0), 3);
  EXPECT_EQ(first->plan().collapse().step().mixed(), 2U);
  const auto groups = Fetch(first->plan());
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  EXPECT_EQ(PayloadsOf(*groups), PayloadsOf(*Fetch(second->plan())));
  EXPECT_EQ(groups->front().head().group_id(), first->plan().groups(0).group_id());
  EXPECT_THAT(LogprobsOf(groups->front(), 0), ::testing::ElementsAre(-0.5F, -1.0F, -0.25F));
}

TEST_F(ServiceTest, ARepeatedSubmissionIsADuplicateAndCountsOnce) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  const v1::Group group = Sample(leases.front());
  EXPECT_EQ(*Submit(leases.front(), group), v1::SUBMIT_RESULT_ACCEPTED);
  EXPECT_EQ(*Submit(leases.front(), group), v1::SUBMIT_RESULT_DUPLICATE);
  const auto status = client_.GetRunStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->collapse().groups(), 1U);
  EXPECT_THAT(metrics_->Expose(),
              HasSubstr("buttress_coordinator_submissions_total{result=\"duplicate\"} 1"));
}

TEST_F(ServiceTest, EpisodesMayBeginWithLessThanTheLeasedPromptAndAreCountedByTheirEnd) {
  Begin();
  const v1::Lease lease = Lease(1).front();
  v1::Group group = Sample(lease);
  v1::GroupHead& head = *group.mutable_head();
  group.mutable_prompt_token_ids()->Truncate(1);
  head.set_prompt_tokens(1);
  for (int i = 0; i < Completions(head); ++i) {
    v1::Turn& turn = *group.add_turns();
    turn.set_completion(i);
    turn.set_end(head.lengths(i));
    head.add_turns(1);
    head.add_turn_rewards(head.raw_rewards(i));
    head.add_episode_ends(v1::EPISODE_END_DONE);
  }
  const auto result = Submit(lease, group);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(*result, v1::SUBMIT_RESULT_ACCEPTED);
  const std::string metrics = metrics_->Expose();
  const std::string n = std::to_string(Completions(head));
  EXPECT_THAT(metrics, HasSubstr("buttress_coordinator_episode_ends_total{end=\"done\"} " + n));
  EXPECT_THAT(metrics, HasSubstr("buttress_coordinator_episode_turns_total " + n));
  EXPECT_THAT(metrics, HasSubstr("buttress_coordinator_episode_failed_tool_calls_total 0"));
  EXPECT_THAT(metrics,
              HasSubstr("buttress_coordinator_episode_tokens_total{by=\"environment\"} 0"));
}

TEST_F(ServiceTest, AWorkerLearnsWhichOthersHaveTheWeights) {
  Begin();
  v1::RegisterWorkerRequest relay = Self("relay");
  relay.set_weights_address("relay:7002");
  ASSERT_TRUE(client_.RegisterWorker(relay).ok());
  ASSERT_TRUE(client_.Exchange(ExchangeOf("relay", 0)).ok());
  auto request = ExchangeOf("w0", 0);
  request.clear_loaded_version();
  const auto response = client_.Exchange(request);
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  ASSERT_EQ(response->weights().sources_size(), 1);
  EXPECT_EQ(response->weights().sources(0), "relay:7002");
}

TEST_F(ServiceTest, ASubmissionUnderAnOldLeaseIsDropped) {
  Begin();
  auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  v1::Lease lease = leases.front();
  lease.mutable_ref()->set_lease_epoch(lease.ref().lease_epoch() + 1);
  EXPECT_EQ(*Submit(lease, Sample(lease)), v1::SUBMIT_RESULT_STALE_FENCE);
  EXPECT_EQ(GroupsByState().at("leased"), 1U);
}

TEST_F(ServiceTest, MalformedGroupsAreRefusedAndCounted) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  const v1::Lease& lease = leases.front();
  v1::Group group = Sample(lease);
  group.mutable_logprobs()->RemoveLast();
  EXPECT_EQ(Submit(lease, group).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(GroupsByState()["leased"], 0U) << "the first one ended the lease";
  group = Sample(lease);
  AppendTokens(group, std::vector<std::int32_t>{7}, std::vector<float>{-1.0F}, FinishReason::kStop);
  AppendReward(*group.mutable_head(), Outcome::kWrong, 0, 0);
  EXPECT_EQ(Submit(lease, group).status().code(), StatusCode::kInvalidArgument)
      << "more completions than were asked for";
  group = Sample(lease);
  group.mutable_head()->set_group_id(lease.ref().group_id() + 1);
  EXPECT_EQ(Submit(lease, group).status().code(), StatusCode::kInvalidArgument)
      << "not the leased group";
  EncodedGroup garbage{"not a group", std::string(32, 'x')};
  EXPECT_EQ(client_.SubmitGroup(Self("w0"), lease.ref(), garbage).status().code(),
            StatusCode::kInvalidArgument)
      << "wrong hash";
  EXPECT_THAT(metrics_->Expose(),
              HasSubstr("buttress_coordinator_submissions_total{result=\"malformed\"} 4"));
}

TEST_F(ServiceTest, ALargeGroupArrivesInChunksAndComesBackWhole) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  constexpr std::size_t kTokens = kChunkBytes / 2;  // at 5 bytes each
  const v1::Group group = Sample(leases.front(), "w0", kTokens);
  EXPECT_EQ(*Submit(leases.front(), group), v1::SUBMIT_RESULT_ACCEPTED);
  FillBatch();
  const auto plan = Plan(1);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const auto groups = Fetch(plan->plan());
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  EXPECT_EQ(groups->front().SerializeAsString(), group.SerializeAsString());
}

TEST_F(ServiceTest, ABrokenGroupIsRefusedAndEndsItsLease) {
  config_.run.max_attempts = 1000;
  Restart();
  Begin();
  for (const BrokenGroup& broken : kBrokenGroups) {
    SCOPED_TRACE(broken.what);
    const std::string worker = "broken" + std::to_string(&broken - kBrokenGroups);
    ASSERT_TRUE(Join(worker, RunConfigHash(config_)).ok());
    const auto leases = Lease(1, worker);
    ASSERT_EQ(leases.size(), 1U);
    v1::Group group = Sample(leases.front(), worker);
    broken.make(group);
    EXPECT_EQ(Submit(leases.front(), group, worker).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(*Submit(leases.front(), Sample(leases.front(), worker), worker),
              v1::SUBMIT_RESULT_STALE_FENCE);
  }
  const auto groups = GroupsByState();
  EXPECT_EQ(groups.at("leased") + groups.at("ready") + groups.at("dropped"), 0U);
  FillBatch();
}

// Its group would be leased again without an end.
TEST_F(ServiceTest, WorkersWhoseGroupsAreAllRefusedEndTheRun) {
  config_.run.max_attempts = 1000;
  Restart();
  Begin();
  for (std::size_t i = 1; i <= Refusals::kMost; ++i) {
    const auto leases = Lease(1);
    ASSERT_EQ(leases.size(), 1U);
    v1::Group group = Sample(leases.front());
    kBrokenGroups[0].make(group);
    CoordinatorClient impatient({"", AddressFile(), 1});
    const auto answer =
        impatient.SubmitGroup(Self("w0"), leases.front().ref(), EncodedGroup::Of(group));
    EXPECT_EQ(answer.status().code(),
              i < Refusals::kMost ? StatusCode::kInvalidArgument : StatusCode::kUnavailable);
  }
  const Status end = coordinator_->Stop();
  EXPECT_EQ(end.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(end.message(), HasSubstr("the last 64 groups were refused, of every worker"));
}

// Nor does a broken group under a lease of another worker, or of an earlier process of this one.
TEST_F(ServiceTest, AWorkerThatLeavesInTheMiddleOfAGroupKeepsItsLease) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kGroupTime);
    v1::SubmitGroupsResponse response;
    const auto stream = v1::Coordinator::NewStub(MakeChannel(coordinator_->address()))
                            ->SubmitGroups(&context, &response);
    v1::SubmitGroupsRequest part;
    part.mutable_header()->set_run_id(run_id_);
    part.mutable_header()->set_worker_id("w0");
    part.mutable_header()->set_incarnation(kIncarnation);
    part.mutable_header()->set_worker_secret(kSecret);
    *part.mutable_header()->mutable_lease() = leases.front().ref();
    part.mutable_header()->set_content_sha256(std::string(32, 'x'));
    part.mutable_header()->set_total_bytes(1000);
    part.set_data("x");
    ASSERT_TRUE(stream->Write(part));
    stream->WritesDone();
    EXPECT_FALSE(stream->Finish().ok());
  }
  EXPECT_FALSE(Submit(leases.front(), v1::Group(), "w1").ok());
  v1::RegisterWorkerRequest other = Self("w0");
  other.set_incarnation(kIncarnation + 1);
  EXPECT_FALSE(
      client_.SubmitGroup(other, leases.front().ref(), EncodedGroup::Of(v1::Group())).ok());
  EXPECT_EQ(*Submit(leases.front(), Sample(leases.front())), v1::SUBMIT_RESULT_ACCEPTED);
}

// Whatever it says of its leases afterwards.
TEST_F(ServiceTest, AWorkerWhoseGroupsAreRefusedIsSetAside) {
  Begin();
  ASSERT_TRUE(Join("broken", RunConfigHash(config_)).ok());
  for (int i = 0; i < 3; ++i) {
    const auto leases = Lease(1, "broken");
    ASSERT_EQ(leases.size(), 1U);
    v1::Group group = Sample(leases.front(), "broken");
    kBrokenGroups[0].make(group);
    EXPECT_FALSE(Submit(leases.front(), group, "broken").ok());
    auto returned = ExchangeOf("broken", 0);
    v1::ReturnedLease& lease = *returned.add_returned();
    *lease.mutable_ref() = leases.front().ref();
    lease.set_reason(v1::RETURN_REASON_DRAINING);
    EXPECT_EQ(client_.Exchange(returned)->order(),
              i < 2 ? v1::WORKER_ORDER_NONE : v1::WORKER_ORDER_CORDON);
    const auto again = Lease(1);
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again.front().ref().group_id(), leases.front().ref().group_id());
    EXPECT_EQ(*Submit(again.front(), Sample(again.front())), v1::SUBMIT_RESULT_ACCEPTED);
  }
  const auto told = client_.Exchange(ExchangeOf("broken", 1));
  EXPECT_EQ(told->order(), v1::WORKER_ORDER_CORDON);
  EXPECT_EQ(told->leases_size(), 0);
}

TEST_F(ServiceTest, ABrokenGroupIsRefusedAfterARestartToo) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  Restart();
  ASSERT_TRUE(client_.RegisterWorker(Self("w0")).ok());
  v1::Group group = Sample(leases.front());
  kBrokenGroups[0].make(group);
  EXPECT_EQ(Submit(leases.front(), group).status().code(), StatusCode::kInvalidArgument);
}

// Four of the largest groups take all memory of groups, until their deadline.
TEST_F(ServiceTest, GroupsThatStopArrivingGiveTheirMemoryBackAtTheirDeadline) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  const auto stub = v1::Coordinator::NewStub(MakeChannel(coordinator_->address()));
  const IdleStreams idle(*stub, 4, 0, std::chrono::seconds(2));
  // A header that has been read is answered by nothing, so another call shows that it has been.
  ASSERT_TRUE(client_.GetRunStatus().ok());
  const auto submit = [&](std::int64_t patience_ms) {
    CoordinatorClient client({coordinator_->address(), "", patience_ms});
    return client.SubmitGroup(Self("w0"), leases.front().ref(),
                              EncodedGroup::Of(Sample(leases.front())));
  };
  const auto refused = submit(1);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.status().message(), HasSubstr("too many groups in submission"));
  const auto accepted = submit(kHoldMs);
  ASSERT_TRUE(accepted.ok()) << accepted.status().ToString();
  EXPECT_EQ(*accepted, v1::SUBMIT_RESULT_ACCEPTED);
}

TEST_F(ServiceTest, ASubmissionWithoutADeadlineIsRefused) {
  grpc::ClientContext context;
  v1::SubmitGroupsResponse response;
  const auto stub = v1::Coordinator::NewStub(MakeChannel(coordinator_->address()));
  const auto stream = stub->SubmitGroups(&context, &response);
  stream->Write({});
  const grpc::Status refused = stream->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("needs a deadline"));
}

TEST_F(ServiceTest, ALargeGroupWithoutALeaseIsAnsweredAsASmallOne) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  v1::Group group = Sample(leases.front(), "w0", kChunkBytes / 2);
  v1::Lease old = leases.front();
  old.mutable_ref()->set_lease_epoch(old.ref().lease_epoch() + 1);
  EXPECT_EQ(*Submit(old, group), v1::SUBMIT_RESULT_STALE_FENCE);
  EXPECT_EQ(*Submit(leases.front(), group), v1::SUBMIT_RESULT_ACCEPTED);
  EXPECT_EQ(*Submit(leases.front(), group), v1::SUBMIT_RESULT_DUPLICATE);
  group.set_logprobs(0, -0.25F);
  EXPECT_EQ(Submit(leases.front(), group).status().code(), StatusCode::kAlreadyExists);
}

TEST_F(ServiceTest, AGroupLargerThanAnyOfTheRunIsRefusedByItsHeader) {
  ASSERT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  limits_.max_completion_tokens = 100;
  limits_.max_prompt_tokens = 100;
  limits_.max_completions = 2;
  limits_.max_branches = 0;
  Start();
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  EncodedGroup large = EncodedGroup::Of(Sample(leases.front()));
  large.bytes.resize(std::size_t{3} << 20);
  const auto refused = client_.SubmitGroup(Self("w0"), leases.front().ref(), large);
  EXPECT_EQ(refused.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(refused.status().message(), HasSubstr("no group of this run has more than"));
  EXPECT_EQ(GroupsByState()["leased"], 0U);
}

TEST_F(ServiceTest, AReturnedGroupGoesToAWorkerThatWaitsAndNotBack) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  auto request = ExchangeOf("w0", 1);
  v1::ReturnedLease& returned = *request.add_returned();
  *returned.mutable_ref() = leases.front().ref();
  returned.set_reason(v1::RETURN_REASON_DRAINING);
  const auto response = client_.Exchange(request);
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ(response->leases_size(), 0);
  ASSERT_TRUE(Join("w1", RunConfigHash(config_)).ok());
  const auto others = Lease(1, "w1");
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others.front().ref().group_id(), leases.front().ref().group_id());
}

TEST_F(ServiceTest, NamesAndListsOfAWorkerAreBounded) {
  Begin();
  const std::string hash = RunConfigHash(config_);
  EXPECT_EQ(Join("w0\nforged=1", hash).status().code(), StatusCode::kInvalidArgument);
  v1::RegisterWorkerRequest loud;
  loud.set_worker_id("w0");
  loud.set_engine(std::string(1 << 19, 'x'));
  const Status engine = client_.RegisterWorker(loud).status();
  EXPECT_EQ(engine.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(engine.message(), HasSubstr("engine has 524288 bytes; expected at most 256"));
  auto request = ExchangeOf("w0", 0);
  for (int i = 0; i < 100000; ++i) request.add_held()->set_group_id(1000000);
  const Status bytes = client_.Exchange(request).status();
  EXPECT_EQ(bytes.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(bytes.message(), HasSubstr("expected at most 1048576"));
}

// They would be kept with a parked call like any other.
TEST_F(ServiceTest, FieldsThatTheProtocolDoesNotKnowAreBoundedToo) {
  Begin();
  auto request = ExchangeOf("w0", 0);
  request.set_wait_ms(kHoldMs);
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      1000, std::string(2 << 20, 'x'));
  const Status refused = client_.Exchange(request).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("a request of Exchange takes"));
}

TEST_F(ServiceTest, TheNameOfAWorkerThatSubmitsIsBounded) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  const std::string loud(1 << 19, 'x');
  const auto refused = Submit(leases.front(), Sample(leases.front()), loud);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("worker_id has 524288 bytes"));
}

TEST_F(ServiceTest, ASubmissionMustBeOneHeaderAndExactlyItsBytes) {
  const auto stub = v1::Coordinator::NewStub(MakeChannel(coordinator_->address()));
  const auto send = [&stub](const std::vector<v1::SubmitGroupsRequest>& parts) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kGroupTime);
    v1::SubmitGroupsResponse response;
    const auto stream = stub->SubmitGroups(&context, &response);
    for (const auto& part : parts) stream->Write(part);
    stream->WritesDone();
    return FromGrpc(stream->Finish());
  };
  ASSERT_TRUE(client_.RegisterWorker(Self("w0")).ok());
  v1::SubmitGroupsRequest header, data;
  header.mutable_header()->set_run_id(run_id_);
  header.mutable_header()->set_worker_id("w0");
  header.mutable_header()->set_incarnation(kIncarnation);
  header.mutable_header()->set_worker_secret(kSecret);
  header.mutable_header()->set_content_sha256(std::string(32, 'x'));
  header.mutable_header()->set_total_bytes(4);
  data.set_data("12345");
  EXPECT_EQ(send({}).code(), StatusCode::kInvalidArgument) << "a call without a group";
  EXPECT_EQ(send({data}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(send({header, header}).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(send({header, data}).message(), HasSubstr("more data than the 4 bytes"));
  EXPECT_THAT(send({header}).message(), HasSubstr("ended after 0 of 4 bytes"));
  v1::SubmitGroupsRequest both = header;
  both.set_data("1234");
  EXPECT_THAT(send({both}).message(), HasSubstr("the SHA-256 of the header"));
  header.mutable_header()->set_total_bytes(kMaxGroupBytes + 1);
  EXPECT_EQ(send({header}).code(), StatusCode::kOutOfRange);
}

TEST_F(ServiceTest, AnotherConfigurationIsRefusedWithBothHashes) {
  const auto joined = Join("w0", "0123");
  EXPECT_EQ(joined.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(joined.status().message(),
              testing::AllOf(HasSubstr("0123"), HasSubstr(RunConfigHash(config_))));
  v1::RegisterLearnerRequest request;
  request.set_config_sha256("0123");
  EXPECT_EQ(client_.RegisterLearner(request).status().code(), StatusCode::kFailedPrecondition);
}

// The coordinator of a `--fresh` run of the same file answers at the address of the old one.
TEST_F(ServiceTest, AnotherRunAtTheSameAddressRefusesWorkerAndLearnerOfTheOldOne) {
  Begin();
  FillBatch();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  const std::string old_run = run_id_, old_secret = secret_;
  ASSERT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  std::filesystem::rename(config_.local.out, folder_.path() + "/old");
  Start();
  ASSERT_NE(run_id_, old_run);
  const std::string new_run = run_id_;
  run_id_ = old_run;
  v1::RegisterWorkerRequest again = Self("w0");
  again.set_run_id(old_run);
  const Status joined = client_.RegisterWorker(again).status();
  EXPECT_EQ(joined.code(), StatusCode::kAborted);
  EXPECT_THAT(joined.message(), testing::AllOf(HasSubstr(old_run), HasSubstr(new_run)));
  EXPECT_EQ(client_.Exchange(ExchangeOf("w0", 1)).status().code(), StatusCode::kAborted);
  EXPECT_EQ(Submit(leases.front(), Sample(leases.front())).status().code(), StatusCode::kAborted);
  for (const Status& status : {Plan(2).status(), Commit(1), Announce(0), Checkpoint(1)}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), testing::AllOf(HasSubstr(old_run), HasSubstr(new_run)));
  }
  v1::RegisterLearnerRequest learner;
  learner.set_config_sha256(RunConfigHash(config_));
  learner.mutable_checkpoint()->set_learner_epoch(1);
  learner.mutable_checkpoint()->set_step(1);
  learner.set_run_id(old_run);
  const Status started = client_.RegisterLearner(learner).status();
  EXPECT_EQ(started.code(), StatusCode::kDataLoss);
  EXPECT_THAT(started.message(), testing::AllOf(HasSubstr(old_run), HasSubstr(new_run)));
  EXPECT_EQ(client_.GetRunStatus()->workers_size(), 0);
  EXPECT_EQ(client_.GetRunStatus()->learner_epoch(), 0U);
}

// The versions of two runs have the same numbers; their digests differ.
TEST_F(ServiceTest, AGroupFromWeightsThatThisRunDidNotAnnounceIsRefused) {
  Begin();
  const PolicyVersion own = version_;
  for (const std::string& digest : {Sha256Of("foreign weights"), std::string()}) {
    const auto leases = Lease(1);
    ASSERT_EQ(leases.size(), 1U);
    version_.digest = digest;
    const Status refused = Submit(leases.front(), Sample(leases.front())).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("announced was '" + ToHex(own.digest)));
  }
  version_ = own;
  FillBatch();
}

TEST_F(ServiceTest, ACoordinatorThatStartsAgainKnowsItsWorkersAndKeepsTheRun) {
  Begin();
  const auto first = Join("w0", RunConfigHash(config_));
  const std::string run = run_id_;
  Restart();
  EXPECT_EQ(run_id_, run);
  v1::RegisterWorkerRequest again = Self("w0");
  again.set_run_id(first->run_id());
  again.set_start_id(first->start_id());
  const auto second = client_.RegisterWorker(again);
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_EQ(second->run_id(), run);
  EXPECT_NE(second->start_id(), first->start_id());
}

TEST_F(ServiceTest, NoOtherWorkerSpeaksForAWorker) {
  Begin();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  v1::RegisterWorkerRequest other = Self("w0");
  other.set_incarnation(kIncarnation + 1);
  other.set_worker_secret(std::string(31, 'x'));
  EXPECT_EQ(client_.RegisterWorker(other).status().code(), StatusCode::kInvalidArgument);
  other.set_worker_secret(std::string(32, 'x'));
  CoordinatorClient impatient({"", AddressFile(), 1});
  const Status taken = impatient.RegisterWorker(other).status();
  EXPECT_EQ(taken.code(), StatusCode::kUnavailable);
  EXPECT_THAT(taken.message(), HasSubstr("worker id 'w0' is in use by another process"));
  auto request = ExchangeOf("w0", 1);
  request.set_worker_secret(other.worker_secret());
  EXPECT_EQ(client_.Exchange(request).status().code(), StatusCode::kPermissionDenied);
  other.set_incarnation(kIncarnation);
  const EncodedGroup group = EncodedGroup::Of(Sample(leases.front()));
  EXPECT_EQ(client_.SubmitGroup(other, leases.front().ref(), group).status().code(),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(*Submit(leases.front(), Sample(leases.front())), v1::SUBMIT_RESULT_ACCEPTED);
}

TEST_F(ServiceTest, ALearnerWithoutItsSecretChangesAndReadsNothing) {
  Begin();
  FillBatch();
  const auto plan = Plan(1);
  ASSERT_TRUE(plan->has_plan());
  const std::string secret = secret_;
  EXPECT_EQ(secret.size(), 32U);
  for (const std::string& guess : {std::string(), std::string(32, 'x'), secret.substr(0, 31)}) {
    secret_ = guess;
    EXPECT_EQ(Commit(1).code(), StatusCode::kPermissionDenied);
    EXPECT_EQ(Announce(0).code(), StatusCode::kPermissionDenied);
    EXPECT_EQ(Checkpoint(0).code(), StatusCode::kPermissionDenied);
    EXPECT_EQ(Plan(1).status().code(), StatusCode::kPermissionDenied);
    EXPECT_EQ(Plan(2).status().code(), StatusCode::kPermissionDenied);
    EXPECT_EQ(Fetch(plan->plan()).status().code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(Commit(1).message(), HasSubstr("not the secret that RegisterLearner gave"));
  }
  EXPECT_EQ(client_.GetRunStatus()->step(), 0U);
  secret_ = secret;
  Restart();
  EXPECT_TRUE(Commit(1).ok()) << "the secret outlives a restart of the coordinator";
  StartLearner();
  EXPECT_NE(secret_, secret);
  secret_ = secret;
  EXPECT_EQ(Checkpoint(0).code(), StatusCode::kPermissionDenied) << "that of an earlier job";
}

TEST_F(ServiceTest, WeightsThatNoWorkerCouldLoadAreNotAnnounced) {
  Begin();
  TrainStep(1);
  const auto refusal = [&](const auto& change) {
    v1::AnnounceWeightsRequest request = Announcement(1);
    change(*request.mutable_manifest());
    const Status status = client_.AnnounceWeights(request);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  using Manifest = v1::WeightManifest;
  EXPECT_THAT(refusal([](Manifest& m) { m.mutable_version()->set_digest(std::string(32, 'a')); }),
              HasSubstr("its files and tensors have"));
  EXPECT_THAT(refusal([](Manifest& m) { m.mutable_files(0)->set_bytes(99); }), HasSubstr("bytes"));
  EXPECT_THAT(refusal([](Manifest& m) { m.set_total_bytes(7); }), HasSubstr("total_bytes is 7"));
  EXPECT_THAT(refusal([](Manifest& m) { m.clear_files(); }), HasSubstr("no files"));
  EXPECT_THAT(refusal([](Manifest& m) { m.mutable_files(0)->set_name("../x"); }),
              HasSubstr("plain file name"));
  EXPECT_EQ(client_.AnnounceWeights(Announcement(2)).code(), StatusCode::kFailedPrecondition)
      << "a version of a step that is not committed";
  EXPECT_EQ(client_.GetRunStatus()->version().step(), 1U);
}

TEST_F(ServiceTest, AnOrderIsToldToItsWorkerShownAndKept) {
  Begin();
  v1::OrderWorkerRequest order;
  order.set_worker_id("w0");
  order.set_order(v1::WORKER_ORDER_DRAIN);
  order.set_reason("new driver");
  const auto given = client_.OrderWorker(order);
  ASSERT_TRUE(given.ok()) << given.status().ToString();
  EXPECT_EQ(given->worker().order(), v1::WORKER_ORDER_DRAIN);
  auto exchange = ExchangeOf("w0", 4);
  exchange.set_wait_ms(kHoldMs);
  const auto told = client_.Exchange(exchange);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->order(), v1::WORKER_ORDER_DRAIN);
  EXPECT_EQ(told->leases_size(), 0);
  Restart();
  const auto status = client_.GetRunStatus();
  ASSERT_EQ(status->workers_size(), 1);
  EXPECT_FALSE(status->workers(0).registered());
  EXPECT_EQ(status->workers(0).order_reason(), "new driver");
  order.set_worker_id("w9");
  EXPECT_THAT(client_.OrderWorker(order).status().ToString(),
              testing::AllOf(HasSubstr("NOT_FOUND"), HasSubstr("known workers: w0")));
  order.set_reason(std::string(1025, 'x'));
  EXPECT_EQ(client_.OrderWorker(order).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, AnAgeThatTheConfigurationMayNotNameIsNotOrdered) {
  config_.run.algorithm.loss = PolicyLoss::kGpg;
  config_.run.algorithm.advantage = Estimator::kGpg;
  config_.run.batch.max_age = 0;
  config_.run.model.path = "/model";
  ASSERT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  std::filesystem::rename(config_.local.out, folder_.path() + "/old");
  Start();
  v1::OrderMaxAgeRequest request;
  request.set_max_age(1);
  const Status refused = client_.OrderMaxAge(request).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("tokens of older weights bias it"));
  request.set_max_age(0);
  const Status taken = client_.OrderMaxAge(request).status();
  EXPECT_TRUE(taken.ok()) << taken.ToString();
}

TEST_F(ServiceTest, AStopEndsWithTheCheckpointOfTheLearner) {
  Begin();
  TrainStep(1);
  v1::StopRunRequest request;
  const auto asked = client_.StopRun(request);
  ASSERT_TRUE(asked.ok()) << asked.status().ToString();
  EXPECT_EQ(asked->run_state(), v1::RUN_STATE_STOPPING);
  EXPECT_EQ(asked->step(), 1U);
  EXPECT_EQ(client_.Exchange(ExchangeOf("w0", 4))->leases_size(), 0);
  const auto plan = Plan(2);
  EXPECT_EQ(plan->run_state(), v1::RUN_STATE_STOPPING);
  EXPECT_FALSE(plan->has_plan());
  EXPECT_FALSE(coordinator_->stopped());
  ASSERT_TRUE(Checkpoint(1).ok());
  const auto done = client_.StopRun(request);
  EXPECT_EQ(done->run_state(), v1::RUN_STATE_STOPPED);
  EXPECT_EQ(done->checkpoint_step(), 1U);
  EXPECT_EQ(client_.Exchange(ExchangeOf("w0", 4))->run_state(), v1::RUN_STATE_STOPPED);
  EXPECT_TRUE(coordinator_->stopped());
  Restart();
  EXPECT_EQ(client_.GetRunStatus()->run_state(), v1::RUN_STATE_RUNNING) << "a start resumes";
}

TEST_F(ServiceTest, ALearnerEndsTheRunWithAReasonThatEveryoneIsTold) {
  Begin();
  TrainStep(1);
  ASSERT_TRUE(Checkpoint(1).ok());
  EXPECT_EQ(Checkpoint(1, std::string(4097, 'x')).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client_.GetRunStatus()->run_state(), v1::RUN_STATE_RUNNING);
  ASSERT_TRUE(Checkpoint(1, "nothing left to learn").ok());
  const auto status = client_.GetRunStatus();
  EXPECT_EQ(status->run_state(), v1::RUN_STATE_STOPPED);
  EXPECT_EQ(status->end_reason(), "nothing left to learn");
  EXPECT_EQ(client_.Exchange(ExchangeOf("w0", 4))->run_state(), v1::RUN_STATE_STOPPED);
  EXPECT_TRUE(coordinator_->finished());
  EXPECT_FALSE(coordinator_->stopped()) << "it continues, to report why";
}

TEST_F(ServiceTest, AnEarlyEndIsToldAfterARestartUntilALearnerTakesTheRunUp) {
  Begin();
  const std::string start_id = Join("w0", RunConfigHash(config_))->start_id();
  TrainStep(1);
  ASSERT_TRUE(Checkpoint(1).ok());
  ASSERT_TRUE(Checkpoint(1, "nothing left to learn").ok());
  Restart();
  const auto status = client_.GetRunStatus();
  EXPECT_EQ(status->run_state(), v1::RUN_STATE_STOPPED);
  EXPECT_EQ(status->end_reason(), "nothing left to learn");
  EXPECT_FALSE(coordinator_->finished()) << "a learner may be about to register";
  ASSERT_TRUE(Join("w0", RunConfigHash(config_), start_id).ok());
  EXPECT_EQ(client_.Exchange(ExchangeOf("w0", 4))->run_state(), v1::RUN_STATE_STOPPED);
  ASSERT_TRUE(Join("w1", RunConfigHash(config_)).ok());
  const auto waiting = client_.Exchange(ExchangeOf("w1", 4));
  EXPECT_EQ(waiting->run_state(), v1::RUN_STATE_RUNNING) << "a new process waits for the learner";
  EXPECT_EQ(waiting->leases_size(), 0);
  StartLearner();
  EXPECT_EQ(client_.GetRunStatus()->run_state(), v1::RUN_STATE_RUNNING);
  EXPECT_EQ(client_.GetRunStatus()->end_reason(), "");
  Restart();
  EXPECT_EQ(client_.GetRunStatus()->end_reason(), "");
}

// Its newest checkpoint may be damaged.
TEST_F(ServiceTest, ACoordinatorStartsAgainAfterTheLearnerWentBack) {
  Begin();
  TrainStep(1);
  ASSERT_TRUE(Checkpoint(1).ok());
  StartLearner();
  Restart();
  EXPECT_EQ(client_.GetRunStatus()->checkpoint_step(), 0U);
}

TEST_F(ServiceTest, ARestartLosesNothingThatWasAcknowledged) {
  Begin();
  TrainStep(1);
  FillBatch();
  const auto leases = Lease(1);
  ASSERT_EQ(leases.size(), 1U);
  const auto planned = Plan(2);
  ASSERT_TRUE(planned.ok());
  const auto before = GroupsByState();
  const auto payloads = Fetch(planned->plan());
  ASSERT_TRUE(payloads.ok());

  Restart();
  EXPECT_EQ(GroupsByState(), before);
  EXPECT_EQ(Plan(2)->plan().SerializeAsString(), planned->plan().SerializeAsString());
  EXPECT_EQ(PayloadsOf(*Fetch(planned->plan())), PayloadsOf(*payloads));
  EXPECT_EQ(client_.Exchange(ExchangeOf("w0", 0)).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(Join("w0", RunConfigHash(config_)).ok());
  EXPECT_EQ(*Submit(leases.front(), Sample(leases.front())), v1::SUBMIT_RESULT_ACCEPTED)
      << "the lease outlives the restart";
  ASSERT_TRUE(Commit(2).ok());
  ASSERT_TRUE(Announce(2).ok());
  EXPECT_EQ(client_.GetRunStatus()->coordinator_epoch(), 2U);
}

// The state of the disk after a crash between the sync of the payloads and the transaction.
TEST_F(ServiceTest, APayloadWithoutALedgerRowIsCutOffAndItsGroupIsAcceptedAgain) {
  Begin();
  const auto leases = Lease(kPrompts);
  ASSERT_EQ(leases.size(), kPrompts);
  ASSERT_EQ(*Submit(leases[0], Sample(leases[0])), v1::SUBMIT_RESULT_ACCEPTED);
  ASSERT_TRUE(coordinator_->Stop().ok());
  const std::string segment = JoinPath(JoinPath(config_.local.out, "payloads"), "00000001.seg");
  const auto acknowledged = std::filesystem::file_size(segment);
  {
    const EncodedGroup group = EncodedGroup::Of(Sample(leases[1]));
    const auto payloads =
        PayloadStore::Open(JoinPath(config_.local.out, "payloads"), {1, acknowledged});
    ASSERT_TRUE((*payloads)->Append({9, 1}, group.bytes, group.sha256).ok());
  }
  ASSERT_GT(std::filesystem::file_size(segment), acknowledged);

  Start();
  EXPECT_EQ(std::filesystem::file_size(segment), acknowledged);
  EXPECT_EQ(GroupsByState().at("ready"), 1U);
  ASSERT_TRUE(Join("w0", RunConfigHash(config_)).ok());
  EXPECT_EQ(*Submit(leases[0], Sample(leases[0])), v1::SUBMIT_RESULT_DUPLICATE);
  EXPECT_EQ(*Submit(leases[1], Sample(leases[1])), v1::SUBMIT_RESULT_ACCEPTED);
  const auto plan = Plan(1);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const auto groups = Fetch(plan->plan());
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  EXPECT_EQ(PayloadsOf(*groups), PayloadsOf({Sample(leases[0]), Sample(leases[1])}));
}

TEST_F(ServiceTest, WhatIsAcknowledgedSurvivesAPowerFailure) {
  Begin();
  FillBatch();
  ASSERT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  PowerCut(sync_log).Apply(config_.local.out);
  Start();
  const auto plan = Plan(1);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const auto groups = Fetch(plan->plan());
  EXPECT_TRUE(groups.ok()) << groups.status().ToString();
}

TEST_F(ServiceTest, DamagedGroupsOfAPlanAreReplacedOnceTheyAreRead) {
  Begin();
  FillBatch();
  const auto plan = Plan(1);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  {
    std::fstream file(JoinPath(config_.local.out, "payloads/00000001.seg"),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kPayloadHeaderBytes);
    file.put('!');
  }
  const Status fetched = Fetch(plan->plan()).status();
  EXPECT_EQ(fetched.code(), StatusCode::kAborted) << fetched.ToString();
  EXPECT_EQ(GroupsByState().at("dropped"), 1U);
  EXPECT_THAT(metrics_->Expose(),
              HasSubstr("buttress_coordinator_groups_dropped_total{reason=\"damaged\"} 1"));
  EXPECT_EQ(Fetch(plan->plan()).status().code(), StatusCode::kAborted) << "the plan has changed";
  Restart();
  ASSERT_TRUE(Join("w0", RunConfigHash(config_)).ok());
  FillBatch();
  const auto fixed = Plan(1);
  ASSERT_TRUE(fixed.ok()) << fixed.status().ToString();
  EXPECT_EQ(fixed->plan().groups(1).group_id(), plan->plan().groups(1).group_id());
  EXPECT_NE(fixed->plan().groups(0).group_id(), plan->plan().groups(0).group_id());
  EXPECT_TRUE(Fetch(fixed->plan()).ok());
  EXPECT_TRUE(Commit(1).ok());
  const std::string id = std::to_string(plan->plan().groups(0).group_id());
  EXPECT_TRUE(std::filesystem::exists(
      JoinPath(config_.local.out, "damaged/group-" + id + "-segment-1-byte-0.record")));
}

TEST_F(ServiceTest, AFolderOfPayloadsThatIsAwayForAWhileCostsNoGroup) {
  Begin();
  FillBatch();
  const auto plan = Plan(1);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const std::string payloads = JoinPath(config_.local.out, "payloads");
  std::filesystem::rename(payloads, payloads + "-away");
  std::future<Result<std::vector<v1::Group>>> fetched =
      std::async(std::launch::async, [&] { return Fetch(plan->plan()); });
  EXPECT_EQ(fetched.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
  std::filesystem::rename(payloads + "-away", payloads);
  EXPECT_EQ(fetched.get()->size(), kPrompts);
  EXPECT_EQ(GroupsByState().at("dropped"), 0U);
  EXPECT_TRUE(Commit(1).ok());
}

TEST_F(ServiceTest, APlanOfWhichNothingIsWholeStopsTheRunAndCostsNoGroup) {
  Begin();
  FillBatch();
  const auto plan = Plan(1);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const std::string segment = JoinPath(config_.local.out, "payloads/00000001.seg");
  const std::string whole = *ReadFile(segment);
  ASSERT_TRUE(WriteFileAtomic(segment, std::string(whole.size(), '!')).ok());
  const Status fetched = Fetch(plan->plan()).status();
  EXPECT_EQ(fetched.code(), StatusCode::kDataLoss) << "a code that no restart can mend";
  EXPECT_THAT(fetched.message(), HasSubstr("none of the 2 groups of the plan of step 1"));
  EXPECT_THAT(fetched.message(), HasSubstr(JoinPath(config_.local.out, "payloads")));
  EXPECT_EQ(GroupsByState().at("dropped"), 0U);
  ASSERT_TRUE(WriteFileAtomic(segment, whole).ok());
  Restart();
  EXPECT_TRUE(Fetch(plan->plan()).ok());
}

// The run has trained 2,500 steps before, and keeps its newest 4,096 groups in the database.
TEST_F(ServiceTest, GroupsOfManyStepsGoToAnArchiveAfterACheckpoint) {
  ASSERT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  std::filesystem::remove_all(config_.local.out);
  std::string rows;
  for (int i = 0; i < 6000; ++i)
    rows +=
        "{\"id\": \"prompt-" + std::to_string(i) + R"(", "prompt": "1+1=", "answer": "2"})" + "\n";
  ASSERT_TRUE(WriteFileAtomic(config_.run.data.prompts, rows).ok());
  config_.run.steps = 3000;
  config_.local.coordinator.archive_steps = 0;
  OpenPrompts();
  ASSERT_TRUE(WritePastRun(config_, 5000).ok());
  config_.local.coordinator.archive_steps = 100;
  Start();
  v1::RegisterLearnerRequest request;
  request.set_config_sha256(RunConfigHash(config_));
  request.set_world_size(1);
  *request.mutable_checkpoint() = ToProto(PolicyVersion{1, 2500, Sha256Of("checkpoint")});
  request.set_run_id(run_id_);
  request.set_checkpoint_learner(Sha256Of("secret"));
  const auto learner = client_.RegisterLearner(request);
  ASSERT_TRUE(learner.ok()) << learner.status().ToString();
  epoch_ = learner->learner_epoch();
  secret_ = learner->learner_secret();
  const std::string ledger = JoinPath(config_.local.out, "ledger.db");
  EXPECT_FALSE(std::filesystem::exists(ArchiveFolder(ledger)));
  ASSERT_TRUE(Checkpoint(2500).ok());
  EXPECT_EQ(GroupsByState().at("settled"), 5000U);  // in a later turn
  const auto archives = (*LedgerReader::Open(ledger))->Archives();
  ASSERT_TRUE(archives.ok()) << archives.status().ToString();
  ASSERT_EQ(archives->size(), 1U);
  EXPECT_GE(archives->front().last_group, 5000 - kEndedTags);
  EXPECT_LT(archives->front().last_group, 5100 - kEndedTags);  // prompts were drawn since
  Restart();
  EXPECT_EQ(GroupsByState().at("settled"), 5000U);
}

TEST_F(ServiceTest, MetricsAfterARestartEqualARecountFromTheLedger) {
  Begin();
  TrainStep(1);
  TrainStep(2);
  Restart();
  const std::string metrics = metrics_->Expose();
  EXPECT_THAT(metrics, HasSubstr("buttress_coordinator_groups_scored_total{collapse=\"mixed\"} 4"));
  EXPECT_THAT(metrics, HasSubstr("buttress_coordinator_acr_batch_groups 2"));
  EXPECT_THAT(metrics, HasSubstr("buttress_coordinator_groups{state=\"trained\"} 4"));
}

TEST_F(ServiceTest, ALearnerOfAnOldEpochIsFenced) {
  Begin();
  const std::uint64_t old_epoch = epoch_;
  StartLearner();
  ASSERT_GT(epoch_, old_epoch);
  epoch_ = old_epoch;
  EXPECT_EQ(Plan(1, 0).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Announce(0).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(metrics_->Expose(), HasSubstr("buttress_coordinator_learner_fenced_total 2"));
}

TEST_F(ServiceTest, ALongPollIsAnsweredAsSoonAsItsAnswerExists) {
  ASSERT_TRUE(Join("w0", RunConfigHash(config_)).ok());
  StartLearner();
  // Without announced weights nothing is leased; both polls wait.
  std::thread worker([this] { EXPECT_FALSE(Lease(1).empty()); });
  std::thread learner([this] {
    const auto plan = Plan(1);
    EXPECT_TRUE(plan.ok() && plan->has_plan());
  });
  while (metrics_->Expose().find("buttress_coordinator_parked_calls 2") == std::string::npos)
    std::this_thread::yield();
  ASSERT_TRUE(Announce(0).ok());
  worker.join();
  const auto status = client_.GetRunStatus();
  ASSERT_EQ(status->groups().at("leased"), 1U);
  for (int accepted = 0; accepted < kPrompts;) {
    for (const v1::Lease& lease : Lease(2)) {
      ASSERT_EQ(*Submit(lease, Sample(lease)), v1::SUBMIT_RESULT_ACCEPTED);
      ++accepted;
    }
  }
  learner.join();
}

// A worker waits with room for a group, delivers the one that it has, and shares that of a worker
// which has delivered none.
TEST_F(ServiceTest, AWaitingWorkerSharesALeaseAsSoonAsItMay) {
  Begin();
  const auto own = Lease(1);
  ASSERT_EQ(own.size(), 1U);
  ASSERT_TRUE(Join("new", RunConfigHash(config_)).ok());
  const auto kept = Lease(100, "new");
  ASSERT_FALSE(kept.empty());
  auto request = ExchangeOf("w0", 1);
  *request.add_held() = own.front().ref();
  request.set_wait_ms(kHoldMs);
  std::vector<std::uint64_t> shared;
  const double begin = MonotonicSeconds();
  std::thread waiting([&] {
    const auto response = client_.Exchange(request);
    EXPECT_TRUE(response.ok()) << response.status().ToString();
    for (const v1::Lease& lease : response->leases()) shared.push_back(lease.ref().group_id());
  });
  while (metrics_->Expose().find("buttress_coordinator_parked_calls 1") == std::string::npos)
    std::this_thread::yield();
  EXPECT_EQ(*Submit(own.front(), Sample(own.front())), v1::SUBMIT_RESULT_ACCEPTED);
  waiting.join();
  EXPECT_EQ(shared, std::vector<std::uint64_t>{kept.front().ref().group_id()});
  EXPECT_LT(1000 * (MonotonicSeconds() - begin), kHoldMs) << "at the end of its poll";
}

TEST_F(ServiceTest, StoppingAnswersLongPolls) {
  Begin();
  std::thread learner([this] {
    const auto plan = Plan(1);
    EXPECT_TRUE(!plan.ok() || !plan->has_plan());
  });
  while (metrics_->Expose().find("buttress_coordinator_parked_calls 1") == std::string::npos)
    std::this_thread::yield();
  EXPECT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  learner.join();
}

// Returns the serialized response of grpc.health.v1.Health/Check, whose messages Debian does not
// ship. SERVING is field 1 with value 1.
std::string CheckHealth(const std::string& address, const std::string& service) {
  const std::string request = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  grpc::ByteBuffer answer;
  const grpc::Status status =
      CallRaw(MakeChannel(address), "/grpc.health.v1.Health/Check", BytesOf(request), answer);
  grpc::Slice bytes;
  if (!status.ok() || !answer.DumpToSingleSlice(&bytes).ok()) return status.error_message();
  return {bytes.begin(), bytes.end()};
}

TEST_F(ServiceTest, TheHealthServiceReportsServing) {
  EXPECT_EQ(CheckHealth(coordinator_->address(), ""), "\x08\x01");
  EXPECT_EQ(CheckHealth(coordinator_->address(), "buttress.v1.Coordinator"), "\x08\x01");
}

TEST_F(ServiceTest, ASecondCoordinatorOnTheSameLedgerIsRefused) {
  Metrics metrics("coordinator");
  const auto second = Coordinator::Start(config_, *prompts_, limits_, sampling_, metrics);
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition) << second.status().ToString();
}

TEST_F(ServiceTest, TheLedgerOfAnotherConfigurationIsRefused) {
  ASSERT_TRUE(coordinator_->Stop().ok());
  coordinator_.reset();
  config_.run.seed += 1;
  Metrics metrics("coordinator");
  EXPECT_EQ(Coordinator::Start(config_, *prompts_, limits_, sampling_, metrics).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(ServiceTest, TheStatusTellsWhereTheTimeOfWorkersAndLoopGoes) {
  ASSERT_TRUE(Join("w0", RunConfigHash(config_)).ok());
  v1::ExchangeRequest request = ExchangeOf("w0", 0);
  StartLearner();  // the ledger keeps its epoch
  request.mutable_time()->set_up_seconds(12);
  request.mutable_time()->set_generating_seconds(7);
  ASSERT_TRUE(client_.Exchange(request).ok());
  const auto status = client_.GetRunStatus();
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(status->workers_size(), 1);
  EXPECT_EQ(status->workers(0).time().up_seconds(), 12);
  EXPECT_EQ(status->workers(0).time().generating_seconds(), 7);
  const v1::CoordinatorTime& time = status->coordinator_time();
  EXPECT_GT(time.ledger_seconds(), 0);
  EXPECT_GE(time.busy_seconds(), time.ledger_seconds());
  EXPECT_GE(time.up_seconds(), time.busy_seconds());
}

}  // namespace
}  // namespace buttress
