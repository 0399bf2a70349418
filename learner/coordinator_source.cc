#include "learner/coordinator_source.h"

#include "lib/experience/codec.h"
#include "lib/rpc/coordinator_client.h"
#include "lib/weights/manifest_wire.h"

namespace buttress {
namespace {

// Every list has one entry a completion.
Status CheckLists(const v1::PlannedGroup& group) {
  const int n = group.outcomes_size();
  const bool equal = n > 0 && group.raw_rewards_size() == n && group.rewards_size() == n &&
                     group.lengths_size() == n && group.total_lengths_size() == n &&
                     group.truncated_size() == n &&
                     group.components_size() == n * group.component_names_size();
  if (equal) return OkStatus();
  return DataLoss("plan: the lists of group " + std::to_string(group.group_id()) +
                  " differ in length");
}

template <class To, class From>
std::vector<To> Copy(const From& from) {
  std::vector<To> to;
  to.reserve(static_cast<std::size_t>(from.size()));
  for (const auto value : from) to.push_back(static_cast<To>(value));
  return to;
}

Result<PlannedGroup> FromWire(const v1::PlannedGroup& proto) {
  BUTTRESS_RETURN_IF_ERROR(CheckLists(proto));
  PlannedGroup group;
  group.group_id = proto.group_id();
  group.prompt_id = proto.prompt_id();
  group.prompt_tokens = static_cast<std::int32_t>(proto.prompt_tokens());
  group.outcomes = Copy<Outcome>(proto.outcomes());
  group.raw_rewards = Copy<double>(proto.raw_rewards());
  group.rewards = Copy<double>(proto.rewards());
  group.components = Copy<double>(proto.components());
  group.lengths = Copy<std::int32_t>(proto.lengths());
  group.total_lengths = Copy<std::int32_t>(proto.total_lengths());
  group.truncated = Copy<bool>(proto.truncated());
  BUTTRESS_ASSIGN_OR_RETURN(group.oldest_version, FromProto(proto.oldest_version()));
  BUTTRESS_ASSIGN_OR_RETURN(group.history, FromProto(proto.history()));
  return group;
}

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
                                                 const PolicyVersion& checkpoint) {
  v1::RegisterLearnerRequest request;
  request.set_config_sha256(config_sha256);
  request.set_world_size(static_cast<std::uint32_t>(world_size));
  *request.mutable_checkpoint() = ToProto(checkpoint);
  BUTTRESS_ASSIGN_OR_RETURN(const auto response, client_->RegisterLearner(request));
  learner_epoch_ = response.learner_epoch();
  return LearnerStart{learner_epoch_, static_cast<std::int64_t>(response.next_step())};
}

Result<PlanReply> CoordinatorSource::Plan(std::int64_t step, std::chrono::milliseconds wait) {
  v1::PlanBatchRequest request;
  request.set_learner_epoch(learner_epoch_);
  request.set_step(static_cast<std::uint64_t>(step));
  request.set_wait_ms(static_cast<std::uint32_t>(wait.count()));
  BUTTRESS_ASSIGN_OR_RETURN(const auto response, client_->PlanBatch(request));
  PlanReply reply;
  reply.ready_groups = response.ready_groups();
  if (!response.has_plan()) {
    if (response.run_state() == v1::RUN_STATE_FINISHED) reply.state = PlanState::kFinished;
    return reply;
  }
  if (response.plan().step() != request.step()) {
    return DataLoss("plan: asked for step " + std::to_string(step) + ", got " +
                    std::to_string(response.plan().step()));
  }
  reply.state = PlanState::kReady;
  reply.plan.step = step;
  BUTTRESS_ASSIGN_OR_RETURN(reply.plan.collapse, FromProto(response.plan().collapse()));
  for (const auto& group : response.plan().groups()) {
    BUTTRESS_ASSIGN_OR_RETURN(auto planned, FromWire(group));
    reply.plan.groups.push_back(std::move(planned));
  }
  return reply;
}

Result<std::vector<Group>> CoordinatorSource::Fetch(std::int64_t step,
                                                    std::span<const std::uint64_t> group_ids) {
  v1::FetchGroupsRequest request;
  request.set_learner_epoch(learner_epoch_);
  request.set_step(static_cast<std::uint64_t>(step));
  request.mutable_group_ids()->Assign(group_ids.begin(), group_ids.end());
  return client_->FetchGroups(request);
}

Status CoordinatorSource::Commit(std::int64_t step) {
  v1::CommitRequest request;
  request.set_learner_epoch(learner_epoch_);
  request.set_step(static_cast<std::uint64_t>(step));
  request.mutable_version()->set_learner_epoch(learner_epoch_);
  request.mutable_version()->set_step(static_cast<std::uint64_t>(step));
  return client_->Commit(request);
}

Status CoordinatorSource::Announce(const WeightManifest& manifest) {
  v1::AnnounceWeightsRequest request;
  request.set_learner_epoch(learner_epoch_);
  *request.mutable_manifest() = ManifestToProto(manifest);
  return client_->AnnounceWeights(request);
}

Status CoordinatorSource::Checkpointed(std::int64_t step, const std::string& digest) {
  v1::CheckpointedRequest request;
  request.set_learner_epoch(learner_epoch_);
  request.set_step(static_cast<std::uint64_t>(step));
  request.set_digest(digest);
  return client_->Checkpointed(request);
}

}  // namespace buttress
