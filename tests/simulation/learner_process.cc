#include "tests/simulation/learner_process.h"

#include <limits>
#include <utility>

#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
#include "lib/experience/group.h"
#include "lib/rpc/fetched_groups.h"
#include "lib/weights/manifest.h"
#include "tests/simulation/plants.h"

namespace buttress::simulation {
namespace {

constexpr std::int64_t kPlanWaitMs = 2000;

// What a step adds to the weights: the tokens and the verdicts, wherever and whenever sampled.
void AddTrained(const v1::Group& group, Sha256& sum) {
  sum.Update(group.head().prompt_id());
  for (int i = 0; i < group.head().outcomes_size(); ++i) {
    const auto tokens = TokensOf(group, i);
    sum.Update({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
    sum.Update(std::to_string(group.head().outcomes(i)));
  }
}

// A call of FetchGroups with all its attempts.
struct Fetching {
  explicit Fetching(const v1::FetchGroupsRequest& asked) : request(asked) {}

  const v1::FetchGroupsRequest request;
  FetchedGroups groups{request};
};

}  // namespace

LearnerProcess::LearnerProcess(World& world, Network& network, Checker& checker,
                               const RunSetup& setup, LearnerDisk& disk, std::uint64_t number,
                               std::function<void(bool)> ended)
    : world_(world),
      network_(network),
      checker_(checker),
      setup_(setup),
      disk_(disk),
      folder_(disk.folder()),
      ended_(std::move(ended)),
      dice_(world.seed(), "learner process " + std::to_string(number)),
      process_(std::make_shared<Process>(Process{"learner"})) {}

void LearnerProcess::End(bool done, const std::string& why) {
  if (!alive()) return;
  world_.Tell("learner {}: ends: {}", epoch_, why);
  Kill();
  world_.After(0, nullptr, [ended = ended_, done] { ended(done); });
}

void LearnerProcess::Start() {
  world_.Tell("learner: starts");
  Register(std::numeric_limits<std::uint64_t>::max());
}

void LearnerProcess::Register(std::uint64_t before) {
  v1::RegisterLearnerRequest request;
  request.set_config_sha256(setup_.terms.config_sha256);
  request.set_world_size(1);
  *request.mutable_checkpoint() = ToProto(PolicyVersion());
  weights_ = kStartWeights;
  step_ = last_checkpoint_ = 0;
  const auto newest = folder_.Find(before);
  world_.Count("a damaged checkpoint was skipped", static_cast<std::int64_t>(folder_.damaged()));
  if (newest) {
    *request.mutable_checkpoint() = ToProto(newest->version);
    request.set_run_id(newest->run_id);
    request.set_checkpoint_learner(newest->learner_sha256);
    weights_ = newest->weights;
    step_ = last_checkpoint_ = newest->version.step;
  }
  network_.RetryCall<v1::RegisterLearnerRequest, v1::RegisterLearnerResponse>(
      process_, request, 0, kGiveUpMs, [this](const Result<v1::RegisterLearnerResponse>& response) {
        if (response.status().code() == StatusCode::kAborted) {
          world_.Count("checkpoint passed over");
          return Register(step_);
        }
        if (!response.ok()) return End(false, response.status().ToString());
        epoch_ = response->learner_epoch();
        secret_ = response->learner_secret();
        run_id_ = response->run_id();
        if (Dies(folder_.StartFrom(step_, epoch_))) return;
        world_.Count("learner registered");
        world_.Tell("learner {}: registered, from step {}", epoch_, step_);
        Announce([this] { GoOn(); });
      });
}

bool LearnerProcess::Dies(const Status& written) {
  const bool killed = disk_.disk().killed();
  if (!killed && written.ok()) return false;
  if (killed) world_.Count(NameOf(Fault::kLearnerKilledInWrite));
  End(false, killed ? "it is killed in a write" : written.ToString());
  if (killed) dice_.Chance(50) ? disk_.FailPower() : disk_.disk().Restart();
  return true;
}

void LearnerProcess::Plan() {
  auto request = Named<v1::PlanBatchRequest>();
  request.set_step(step_ + 1);
  request.set_wait_ms(kPlanWaitMs);
  Call<v1::PlanBatchRequest, v1::PlanBatchResponse>(
      request, kPlanWaitMs, [this](const v1::PlanBatchResponse& response) {
        if (response.has_plan()) return Fetch(response.plan());
        if (response.run_state() == v1::RUN_STATE_FINISHED) return End(true, "the run is finished");
        if (response.run_state() == v1::RUN_STATE_STOPPING) {
          world_.Count("learner asked to stop");
          return WriteCheckpoint([this] { End(true, "the run is stopped"); });
        }
        world_.After(50, process_, [this] { Plan(); });
      });
}

void LearnerProcess::Fetch(const v1::Plan& plan) {
  planned_.clear();
  auto request = Named<v1::FetchGroupsRequest>();
  request.set_step(plan.step());
  for (const v1::GroupHead& head : plan.groups()) {
    planned_.push_back(head.group_id());
    request.add_group_ids(head.group_id());
  }
  const auto fetching = std::make_shared<Fetching>(request);
  network_.Retry<bool>(
      process_, kGiveUpMs,
      [this, fetching](Reply<bool> reply) {
        if (!Planted(Plant::kFetchNotBegunAnew)) fetching->groups.Clear();
        const auto take = [this, fetching](const v1::FetchGroupsResponse& part) {
          Status taken = fetching->groups.Add(part);
          world_.Expect(taken.ok(), "a stream brings the groups that were asked for");
          return taken;
        };
        network_.Fetch(process_, fetching->request, take, std::move(reply));
      },
      [this, fetching](const Result<bool>& done) {
        if (done.ok()) return Train(*fetching->groups.Take());
        if (done.status().code() != StatusCode::kAborted)
          return End(false, done.status().ToString());
        world_.Count("plan asked for again");
        Plan();
      });
}

void LearnerProcess::Train(const std::vector<v1::Group>& groups) {
  Sha256 sum;
  sum.Update(weights_);
  for (const v1::Group& group : groups) AddTrained(group, sum);
  const std::string after = ToHex(sum.Finish());
  world_.After(dice_.Between(100, 900), process_, [this, after] {
    checker_.Trained(step_ + 1, planned_, weights_, after);
    ++step_;
    weights_ = after;
    Commit();
  });
}

void LearnerProcess::Commit() {
  auto request = Named<v1::CommitRequest>();
  request.set_step(step_);
  *request.mutable_version() = ToProto(PolicyVersion{epoch_, step_, ""});
  Call<v1::CommitRequest, v1::CommitResponse>(request, 0, [this](const v1::CommitResponse&) {
    world_.Tell("learner {}: step {} is committed", epoch_, step_);
    Announce([this] { GoOn(); });
  });
}

void LearnerProcess::GoOn() {
  const bool last = step_ == setup_.options.steps;
  const bool due =
      step_ >= last_checkpoint_ + static_cast<std::uint64_t>(setup_.checkpoint_interval);
  if ((last || due || ends_early_ || hung_) && step_ > last_checkpoint_) {
    return WriteCheckpoint([this] {
      if (hang_ms_ > 0) return End(false, "it leaves on request");
      if (ends_early_) return End(true, "it ends the run early");
      Plan();
    });
  }
  Plan();
}

void LearnerProcess::Announce(std::function<void()> then) {
  WeightManifest manifest;
  manifest.version = {epoch_, step_, ""};
  manifest.files = {{"model.safetensors", 8, Sha256Of(weights_)}};
  manifest.sources = {"learner:1"};
  manifest.run_id = run_id_;
  manifest.version.digest = ManifestDigest(manifest);
  auto request = Named<v1::AnnounceWeightsRequest>();
  *request.mutable_manifest() = ManifestToProto(manifest);
  request.mutable_manifest()->set_total_bytes(manifest.total_bytes());
  Call<v1::AnnounceWeightsRequest, v1::AnnounceWeightsResponse>(
      request, 0, [then = std::move(then)](const v1::AnnounceWeightsResponse&) { then(); });
}

// The checkpoint is durable some time before the coordinator learns of it.
void LearnerProcess::WriteCheckpoint(std::function<void()> then) {
  if (hung_) world_.After(0, nullptr, std::exchange(hung_, nullptr));
  const bool writes = step_ != last_checkpoint_;
  const Checkpoint begun = {{epoch_, step_, ""}, run_id_, Sha256Of(secret_), weights_};
  if (writes && Dies(folder_.Begin(begun))) return;
  world_.After(hang_ms_ + dice_.Between(20, 400), process_, [this, writes, then = std::move(then)] {
    if (!writes) return then();
    const auto digest = folder_.Finish();
    if (Dies(digest.status())) return;
    last_checkpoint_ = step_;
    auto request = Named<v1::CheckpointedRequest>();
    request.set_step(step_);
    request.set_digest(*digest);
    if (ends_early_) request.set_end_reason("simulated");
    Call<v1::CheckpointedRequest, v1::CheckpointedResponse>(
        request, 0, [this, then](const v1::CheckpointedResponse&) {
          world_.Tell("learner {}: checkpoint of step {}", epoch_, step_);
          if (!Dies(folder_.Accepted(step_))) then();
        });
  });
}

}  // namespace buttress::simulation
