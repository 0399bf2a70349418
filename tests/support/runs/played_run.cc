// Plays the worker and the learner of a run, without a model, until the run is finished, or until
// the learner has ended it with the checkpoint of STEP: groups are made up, and a step trains
// nothing. Keeps calling while no coordinator answers.
//
//   played_run FILE.yaml [STEP]
#include <cstdio>
#include <cstdlib>

#include "lib/base/text/digest.h"
#include "lib/config/load.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/weights/manifest.h"
#include "tests/support/fakes/broken_groups.h"

namespace buttress {
namespace {

constexpr std::uint64_t kIncarnation = 11;
constexpr std::uint32_t kGroupsAtOnce = 4;
constexpr std::uint32_t kWaitMs = 50;
constexpr const char* kWorker = "w0";

class Player {
 public:
  // `end_step`: 0 for a run that is not ended early.
  Player(const RunConfig& config, std::uint64_t end_step)
      : config_(config), end_step_(end_step), client_(CoordinatorClientOptionsFrom(config.local)) {}

  Status Play() {
    BUTTRESS_RETURN_IF_ERROR(Join());
    BUTTRESS_RETURN_IF_ERROR(StartLearner());
    BUTTRESS_RETURN_IF_ERROR(Announce(0));
    for (std::uint64_t step = 1; step <= static_cast<std::uint64_t>(config_.run.steps); ++step) {
      BUTTRESS_ASSIGN_OR_RETURN(const v1::Plan plan, FillPlan(step));
      BUTTRESS_RETURN_IF_ERROR(Train(plan));
      if (step == end_step_) return Checkpoint(step, "nothing left to learn");
    }
    BUTTRESS_ASSIGN_OR_RETURN(const v1::GetRunStatusResponse end, client_.GetRunStatus());
    return end.run_state() == v1::RUN_STATE_FINISHED ? OkStatus() : Internal("not finished");
  }

 private:
  Status Join() {
    worker_.set_worker_id(kWorker);
    worker_.set_incarnation(kIncarnation);
    worker_.set_config_sha256(RunConfigHash(config_));
    worker_.set_worker_secret(std::string(32, 's'));
    BUTTRESS_ASSIGN_OR_RETURN(const auto joined, client_.RegisterWorker(worker_));
    run_id_ = joined.run_id();
    worker_.set_run_id(run_id_);
    return OkStatus();
  }

  Status StartLearner() {
    v1::RegisterLearnerRequest request;
    request.set_config_sha256(RunConfigHash(config_));
    request.set_world_size(1);
    request.mutable_checkpoint();
    BUTTRESS_ASSIGN_OR_RETURN(const auto started, client_.RegisterLearner(request));
    epoch_ = started.learner_epoch();
    secret_ = started.learner_secret();
    return OkStatus();
  }

  // A request of the learner in this run.
  template <class Request>
  Request OfLearner() const {
    Request request;
    request.set_run_id(run_id_);
    request.set_learner_epoch(epoch_);
    request.set_learner_secret(secret_);
    return request;
  }

  Status Announce(std::uint64_t step) {
    WeightManifest manifest;
    manifest.version = {epoch_, step, ""};
    manifest.files = {{"model.safetensors", 100, Sha256Of("weights")}};
    manifest.tensors = {{"w", "F32", {25}, "model.safetensors", 0, 100}};
    manifest.folder = "/weights";
    manifest.run_id = run_id_;
    manifest.version.digest = ManifestDigest(manifest);
    auto request = OfLearner<v1::AnnounceWeightsRequest>();
    *request.mutable_manifest() = ManifestToProto(manifest);
    return client_.AnnounceWeights(request);
  }

  // Samples until the plan of `step` is there.
  Result<v1::Plan> FillPlan(std::uint64_t step) {
    while (true) {
      auto request = OfLearner<v1::PlanBatchRequest>();
      request.set_step(step);
      request.set_wait_ms(kWaitMs);
      BUTTRESS_ASSIGN_OR_RETURN(const auto response, client_.PlanBatch(request));
      if (response.has_plan()) return response.plan();
      BUTTRESS_RETURN_IF_ERROR(Sample());
    }
  }

  Status Sample() {
    v1::ExchangeRequest request;
    request.set_run_id(run_id_);
    request.set_worker_id(kWorker);
    request.set_incarnation(kIncarnation);
    request.set_worker_secret(worker_.worker_secret());
    request.set_capacity(kGroupsAtOnce);
    const auto response = client_.Exchange(request);
    // A coordinator that has started since knows no worker.
    if (response.status().code() == StatusCode::kNotFound) return Join();
    if (!response.ok()) return response.status();
    for (const v1::Lease& lease : response->leases()) {
      BUTTRESS_ASSIGN_OR_RETURN(const PolicyVersion version, FromProto(lease.min_version()));
      const EncodedGroup group = EncodedGroup::Of(HonestGroup(lease, kWorker, version));
      const auto submit = [&] { return client_.SubmitGroup(worker_, lease.ref(), group).status(); };
      Status submitted = submit();
      while (submitted.code() == StatusCode::kNotFound) {
        BUTTRESS_RETURN_IF_ERROR(Join());
        submitted = submit();
      }
      BUTTRESS_RETURN_IF_ERROR(submitted);
    }
    return OkStatus();
  }

  Status Train(const v1::Plan& plan) {
    auto fetch = OfLearner<v1::FetchGroupsRequest>();
    fetch.set_step(plan.step());
    for (const v1::GroupHead& group : plan.groups()) fetch.add_group_ids(group.group_id());
    BUTTRESS_RETURN_IF_ERROR(client_.FetchGroups(fetch).status());
    auto commit = OfLearner<v1::CommitRequest>();
    commit.set_step(plan.step());
    commit.mutable_version()->set_learner_epoch(epoch_);
    commit.mutable_version()->set_step(plan.step());
    BUTTRESS_RETURN_IF_ERROR(client_.Commit(commit));
    BUTTRESS_RETURN_IF_ERROR(Announce(plan.step()));
    return Checkpoint(plan.step(), "");
  }

  Status Checkpoint(std::uint64_t step, const std::string& end_reason) {
    auto checkpoint = OfLearner<v1::CheckpointedRequest>();
    checkpoint.set_step(step);
    checkpoint.set_digest(std::string(32, 'c'));
    checkpoint.set_end_reason(end_reason);
    return client_.Checkpointed(checkpoint);
  }

  const RunConfig& config_;
  const std::uint64_t end_step_;
  CoordinatorClient client_;
  std::string run_id_;
  v1::RegisterWorkerRequest worker_;
  std::uint64_t epoch_ = 0;
  std::string secret_;
};

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  const auto config = argc == 2 || argc == 3
                          ? buttress::LoadRunConfig(argv[1], {})
                          : buttress::InvalidArgument("played_run FILE.yaml [STEP]");
  const std::uint64_t end_step = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const buttress::Status status =
      config.ok() ? buttress::Player(*config, end_step).Play() : config.status();
  if (!status.ok()) std::fprintf(stderr, "played_run: %s\n", status.ToString().c_str());
  return buttress::ExitCode(status);
}
