// RPCs of the learner. plan_reader.cc has FetchGroups.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "coordinator/rpc/handlers.h"
#include "lib/base/net/secret.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/rpc/channel.h"
#include "lib/weights/manifest.h"

namespace buttress {
namespace {

constexpr std::size_t kSha256Bytes = 32;

// Applies `handler` to a call that changes the run, if its run, epoch and secret are right.
template <class Request, class Handler>
Status ApplyOfLearner(Turn& turn, const Request& request, const Handler& handler) {
  Status status = CheckLearnerCall(turn, request);
  if (status.ok()) status = handler();
  return CountFenced(turn, std::move(status));
}

// Returns the manifest if workers can load what it names. kInvalidArgument names what is wrong.
Result<WeightManifest> CheckedManifest(const v1::WeightManifest& announced) {
  auto manifest = ManifestFromProto(announced);
  if (!manifest.ok()) return InvalidArgument(manifest.status().message());
  if (announced.total_bytes() != manifest->total_bytes()) {
    return InvalidArgument(
        fmt::format("manifest of version {}: total_bytes is {}, and its files have {} bytes",
                    ToString(manifest->version), announced.total_bytes(), manifest->total_bytes()));
  }
  return manifest;
}

void ObserveStaleness(const Turn& turn, const Plan& plan) {
  for (const GroupHeadPtr& group : plan.groups) {
    const std::uint64_t oldest = group->versions_size() == 0 ? 0 : group->versions(0).step();
    const double age = static_cast<double>(plan.step) - 1 - static_cast<double>(oldest);
    turn.metrics.group_staleness_versions.Observe(age);
  }
}

}  // namespace

Status CountFenced(const Turn& turn, Status status) {
  if (status.code() == StatusCode::kFailedPrecondition) turn.metrics.learner_fenced.Increment();
  return status;
}

Status CheckLearnerRun(const Turn& turn, const std::string& run_id) {
  const std::string& own = turn.scheduler.run().run_id;
  if (run_id == own) return OkStatus();
  return FailedPrecondition(fmt::format(
      "the call is of run '{}', and this coordinator has run {}: this learner must exit", run_id,
      own));
}

std::optional<Status> Apply(Turn& turn, const v1::RegisterLearnerRequest& request,
                            v1::RegisterLearnerResponse& response, bool) {
  if (request.config_sha256() != turn.terms.config_sha256) {
    return FailedPrecondition(
        fmt::format("the learner runs configuration {}, the coordinator {}; the `run` half of "
                    "the file must be the same on both",
                    request.config_sha256(), turn.terms.config_sha256));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const PolicyVersion checkpoint, FromProto(request.checkpoint()));
  BUTTRESS_RETURN_IF_ERROR(turn.scheduler.CheckCheckpointOrigin(checkpoint, request.run_id(),
                                                                request.checkpoint_learner()));
  if (const std::uint64_t newest = turn.scheduler.run().checkpoint_step; checkpoint.step < newest)
    Log(kWarn, "the learner goes back behind the newest checkpoint",
        {{"from", checkpoint.step}, {"newest", newest}});
  const std::string secret = MakeSecret();
  BUTTRESS_ASSIGN_OR_RETURN(const LearnerStart start,
                            turn.scheduler.RegisterLearner(checkpoint, request.world_size(),
                                                           Sha256Of(secret), turn.changes));
  response.set_learner_secret(secret);
  response.set_learner_epoch(start.learner_epoch);
  response.set_next_step(start.next_step);
  response.set_run_id(turn.scheduler.run().run_id);
  response.set_steps(turn.scheduler.steps());
  Log(kInfo, "learner registered",
      {{"learner_epoch", start.learner_epoch},
       {"ranks", request.world_size()},
       {"next_step", start.next_step}});
  return OkStatus();
}

std::optional<Status> Apply(Turn& turn, const v1::PlanBatchRequest& request,
                            v1::PlanBatchResponse& response, bool last) {
  if (Status own = CheckLearnerCall(turn, request); !own.ok())
    return CountFenced(turn, std::move(own));
  const std::size_t plans_before = turn.changes.plans.size();
  const auto reply =
      turn.scheduler.PlanBatch(request.learner_epoch(), request.step(), turn.changes);
  if (!reply.ok()) return CountFenced(turn, reply.status());

  response.Clear();
  response.set_run_state(reply->finished   ? v1::RUN_STATE_FINISHED
                         : reply->stopping ? v1::RUN_STATE_STOPPING
                         : turn.draining   ? v1::RUN_STATE_DRAINING
                                           : v1::RUN_STATE_RUNNING);
  std::int64_t over_long = 0;
  for (const auto& [source, counts] : turn.scheduler.skipped())
    over_long += counts[static_cast<std::size_t>(SkipReason::kOverLong)];
  response.set_over_long_prompts(static_cast<std::uint64_t>(over_long));
  if (reply->plan) {
    if (turn.changes.plans.size() > plans_before) ObserveStaleness(turn, *reply->plan);
    *response.mutable_plan() = ToProto(*reply->plan);
    for (const auto& [source, tally] : turn.reports.controls.tallies())
      *response.mutable_plan()->add_controls() = tally;
  }
  const bool ends = reply->finished || reply->stopping || turn.draining;
  if (reply->plan || ends || last) return OkStatus();
  return std::nullopt;
}

RequestTerms TermsOf(const v1::PlanBatchRequest& request) { return {.hold_ms = request.wait_ms()}; }

std::optional<Status> Apply(Turn& turn, const v1::CommitRequest& request, v1::CommitResponse&,
                            bool) {
  const auto commit = [&]() -> Status {
    BUTTRESS_RETURN_IF_ERROR(
        turn.scheduler.Commit(request.learner_epoch(), request.step(), turn.changes));
    turn.reports.steps.Take(request.newest_step());
    turn.metrics.last_batch_committed.Set(static_cast<double>(RealClock().UnixMs()) / 1000);
    return OkStatus();
  };
  if (request.version().step() == request.step()) return ApplyOfLearner(turn, request, commit);
  return InvalidArgument(
      fmt::format("commit of step {} names version step {}; the version after a step has the "
                  "step's number",
                  request.step(), request.version().step()));
}

std::optional<Status> Apply(Turn& turn, const v1::AnnounceWeightsRequest& request,
                            v1::AnnounceWeightsResponse&, bool) {
  const auto announce = [&]() -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const WeightManifest manifest, CheckedManifest(request.manifest()));
    BUTTRESS_RETURN_IF_ERROR(CheckLearnerRun(turn, manifest.run_id).Annotate("the manifest"));
    return turn.scheduler.Announce(request.learner_epoch(),
                                   {manifest.version, request.manifest().SerializeAsString()},
                                   turn.changes);
  };
  return ApplyOfLearner(turn, request, announce);
}

std::optional<Status> Apply(Turn& turn, const v1::CheckpointedRequest& request,
                            v1::CheckpointedResponse&, bool) {
  const auto checkpointed = [&]() -> Status {
    if (request.digest().size() != kSha256Bytes) {
      return InvalidArgument(fmt::format(
          "the digest of the checkpoint of step {} has {} bytes; expected a SHA-256 of {}",
          request.step(), request.digest().size(), kSha256Bytes));
    }
    if (request.end_reason().size() > kMaxEndReasonBytes) {
      return InvalidArgument(fmt::format("end_reason has {} bytes; expected at most {}",
                                         request.end_reason().size(), kMaxEndReasonBytes));
    }
    BUTTRESS_RETURN_IF_ERROR(turn.scheduler.Checkpointed(request.learner_epoch(), request.step(),
                                                         request.digest(), turn.changes));
    turn.reports.steps.Take(request.newest_step());
    if (!request.end_reason().empty()) turn.scheduler.EndEarly(request.end_reason(), turn.changes);
    return OkStatus();
  };
  return ApplyOfLearner(turn, request, checkpointed);
}

}  // namespace buttress
