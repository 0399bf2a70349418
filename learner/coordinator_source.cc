#include "learner/coordinator_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/base/text/digest.h"
#include "lib/base/text/unicode.h"
#include "lib/experience/codec.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/weights/manifest.h"

namespace buttress {
namespace {

CoordinatorClientOptions ClientOptions(const LocalSettings& local, const Credentials& credentials) {
  CoordinatorClientOptions options = CoordinatorClientOptionsFrom(local, credentials);
  options.give_up_after_ms = local.learner.collective_timeout_ms / 4 * 3;
  return options;
}

}  // namespace

CoordinatorSource::CoordinatorSource(const LocalSettings& local, const Credentials& credentials)
    : client_(std::make_unique<CoordinatorClient>(ClientOptions(local, credentials))) {}

CoordinatorSource::~CoordinatorSource() = default;

Result<LearnerStart> CoordinatorSource::Register(const std::string& config_sha256, int world_size,
                                                 const Origin& checkpoint) {
  v1::RegisterLearnerRequest request;
  request.set_config_sha256(config_sha256);
  request.set_world_size(static_cast<std::uint32_t>(world_size));
  *request.mutable_checkpoint() = ToProto(checkpoint.version);
  request.set_run_id(checkpoint.run_id);
  request.set_checkpoint_learner(checkpoint.learner_sha256);
  BUTTRESS_ASSIGN_OR_RETURN(const auto response, client_->RegisterLearner(request));
  learner_epoch_ = response.learner_epoch();
  learner_secret_ = response.learner_secret();
  run_id_ = response.run_id();
  steps_ = static_cast<std::int64_t>(response.steps());
  return LearnerStart{learner_epoch_, response.next_step()};
}

void CoordinatorSource::Adopt(std::uint64_t learner_epoch, std::string secret, std::string run_id,
                              std::int64_t steps) {
  learner_epoch_ = learner_epoch;
  learner_secret_ = std::move(secret);
  run_id_ = std::move(run_id);
  steps_ = steps;
}

std::string CoordinatorSource::learner_sha256() const { return Sha256Of(learner_secret_); }

Result<PlanReply> CoordinatorSource::Plan(std::int64_t step, std::chrono::milliseconds wait) {
  v1::PlanBatchRequest request;
  request.set_run_id(run_id_);
  request.set_learner_epoch(learner_epoch_);
  request.set_learner_secret(learner_secret_);
  request.set_step(static_cast<std::uint64_t>(step));
  request.set_wait_ms(static_cast<std::uint32_t>(wait.count()));
  BUTTRESS_ASSIGN_OR_RETURN(auto response, client_->PlanBatch(request));
  PlanReply reply;
  if (!response.has_plan()) {
    reply.finished = response.run_state() == v1::RUN_STATE_FINISHED;
    reply.stopping = response.run_state() == v1::RUN_STATE_STOPPING ||
                     response.run_state() == v1::RUN_STATE_STOPPED;
    return reply;
  }
  misjudged_sources_ = std::ranges::count_if(response.plan().controls(), &v1::ControlTally::alarm);
  auto plan = FromProto(std::move(*response.mutable_plan()));
  if (!plan.ok()) return DataLoss(plan.status().message());
  if (plan->step != request.step()) {
    return DataLoss(fmt::format("plan: asked for step {}, received step {}", step, plan->step));
  }
  reply.plan = *std::move(plan);
  reply.over_long_prompts = response.over_long_prompts();
  return reply;
}

Result<std::vector<v1::Group>> CoordinatorSource::Fetch(std::int64_t step,
                                                        std::span<const std::uint64_t> group_ids) {
  v1::FetchGroupsRequest request;
  request.set_run_id(run_id_);
  request.set_learner_epoch(learner_epoch_);
  request.set_learner_secret(learner_secret_);
  request.set_step(static_cast<std::uint64_t>(step));
  request.mutable_group_ids()->Assign(group_ids.begin(), group_ids.end());
  return client_->FetchGroups(request);
}

Status CoordinatorSource::Commit(std::int64_t step) {
  v1::CommitRequest request;
  request.set_run_id(run_id_);
  request.set_learner_epoch(learner_epoch_);
  request.set_learner_secret(learner_secret_);
  request.set_step(static_cast<std::uint64_t>(step));
  *request.mutable_version() = ToProto(PolicyVersion{learner_epoch_, request.step(), ""});
  request.set_newest_step(newest_step_);
  return client_->Commit(request);
}

Status CoordinatorSource::Announce(const WeightManifest& manifest) {
  v1::AnnounceWeightsRequest request;
  request.set_run_id(run_id_);
  request.set_learner_epoch(learner_epoch_);
  request.set_learner_secret(learner_secret_);
  *request.mutable_manifest() = ManifestToProto(manifest);
  return client_->AnnounceWeights(request);
}

Status CoordinatorSource::Checkpointed(std::int64_t step, const std::string& digest,
                                       const std::string& end_reason) {
  v1::CheckpointedRequest request;
  request.set_run_id(run_id_);
  request.set_learner_epoch(learner_epoch_);
  request.set_learner_secret(learner_secret_);
  request.set_step(static_cast<std::uint64_t>(step));
  request.set_digest(digest);
  request.set_newest_step(newest_step_);
  // A byte that is not UTF-8 becomes three bytes.
  request.set_end_reason(ReplaceInvalidUtf8(end_reason.substr(0, kMaxEndReasonBytes / 3)));
  return client_->Checkpointed(request);
}

}  // namespace buttress
