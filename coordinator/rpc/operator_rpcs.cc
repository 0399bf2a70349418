// RPCs of operators: GetRunStatus, OrderWorker, OrderMaxAge and StopRun.
#include <fmt/core.h>

#include <set>
#include <string>

#include "coordinator/rpc/handlers.h"
#include "lib/base/report/log.h"
#include "lib/rl/collapse/sources.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxReasonBytes = 1024;
// Above any use, and far fewer than the versions that the ledger remembers.
constexpr std::int64_t kMostMaxAge = 256;

v1::WorkerStatus StatusOf(const Turn& turn, const std::string& id, std::int64_t leases) {
  v1::WorkerStatus out;
  out.set_worker_id(id);
  out.set_leases(static_cast<std::uint32_t>(leases));
  const auto& workers = turn.scheduler.workers().known();
  if (const auto found = workers.find(id); found != workers.end()) {
    const WorkerInfo& worker = found->second;
    *out.mutable_loaded_version() = ToProto(worker.loaded_version);
    out.set_silent_ms(static_cast<std::uint64_t>(turn.now_ms - worker.last_heard_ms));
    out.set_metrics_address(worker.addresses.metrics);
    out.set_registered(true);
  }
  const auto& orders = turn.scheduler.workers().orders();
  if (const auto found = orders.find(id); found != orders.end()) {
    out.set_order(static_cast<v1::WorkerOrder>(found->second.order));
    out.set_order_reason(found->second.reason);
  }
  if (const auto time = turn.reports.workers.find(id); time != turn.reports.workers.end())
    *out.mutable_time() = time->second;
  return out;
}

void FillGroups(const SchedulerStatus& status, v1::GetRunStatusResponse& response) {
  for (std::size_t i = 0; i < kGroupStates; ++i) {
    const std::string name(GroupStateName(static_cast<GroupState>(i)));
    (*response.mutable_groups())[name] = static_cast<std::uint64_t>(status.groups[i]);
  }
  for (std::size_t i = 1; i < kDropReasons; ++i) {
    const std::string name(DropReasonName(static_cast<DropReason>(i)));
    (*response.mutable_dropped())[name] = static_cast<std::uint64_t>(status.dropped[i]);
  }
  *response.mutable_collapse() = ToProto(status.collapse);
  SourceNames names;
  for (const auto& [source, counts] : ReportedSources(status.collapse_by_source, names))
    (*response.mutable_collapse_by_source())[source] = ToProto(counts);
  for (const auto& [source, counts] : status.skipped) {
    auto& reasons = *(*response.mutable_skipped_by_source())[source].mutable_reasons();
    for (std::size_t i = 0; i < kSkipReasons; ++i)
      reasons[std::string(SkipReasonName(static_cast<SkipReason>(i)))] =
          static_cast<std::uint64_t>(counts[i]);
  }
}

Result<WorkerOrderRow> OrderFrom(const v1::OrderWorkerRequest& request) {
  if (!v1::WorkerOrder_IsValid(request.order()))
    return InvalidArgument(
        fmt::format("order {} is not in the protocol", static_cast<int>(request.order())));
  if (request.reason().size() > kMaxReasonBytes) {
    return InvalidArgument(fmt::format("the reason has {} bytes; expected at most {}",
                                       request.reason().size(), kMaxReasonBytes));
  }
  return WorkerOrderRow{request.worker_id(), static_cast<WorkerOrder>(request.order()),
                        request.reason()};
}

}  // namespace

v1::RunState RunStateOf(const Turn& turn) {
  if (turn.scheduler.finished()) return v1::RUN_STATE_FINISHED;
  const StopPhase stop = turn.scheduler.stop_phase();
  if (stop == StopPhase::kDone) return v1::RUN_STATE_STOPPED;
  if (stop == StopPhase::kRequested) return v1::RUN_STATE_STOPPING;
  return turn.draining ? v1::RUN_STATE_DRAINING : v1::RUN_STATE_RUNNING;
}

void FillRunStatus(const Turn& turn, v1::GetRunStatusResponse& response) {
  const SchedulerStatus status = turn.scheduler.GetStatus();
  response.set_run_name(status.run.run_name);
  response.set_run_id(status.run.run_id);
  response.set_run_state(RunStateOf(turn));
  response.set_step(status.run.committed_step);
  response.set_total_steps(status.total_steps);
  response.set_checkpoint_step(status.run.checkpoint_step);
  response.set_end_reason(turn.scheduler.end_reason());
  if (status.announced) *response.mutable_version() = ToProto(*status.announced);
  FillGroups(status, response);
  const auto leases = turn.scheduler.leases().Counts();
  std::set<std::string> ids;
  for (const auto& [id, worker] : turn.scheduler.workers().known()) ids.insert(id);
  for (const auto& [id, order] : turn.scheduler.workers().orders()) ids.insert(id);
  for (const std::string& id : ids) {
    const auto held = leases.find(id);
    *response.add_workers() = StatusOf(turn, id, held == leases.end() ? 0 : held->second);
  }
  response.set_learner_epoch(status.run.learner_epoch);
  response.set_coordinator_epoch(status.run.coordinator_epoch);
  response.set_paused(turn.paused);
  if (turn.reports.standby) response.set_standby(turn.reports.standby());
  *response.mutable_coordinator_time() = turn.reports.OfCoordinator();
  *response.mutable_tokens() = ToProto(status.tokens);
  response.set_drawn_length(status.drawn_length);
  response.set_planned_length(status.planned_length);
  response.set_max_age(static_cast<std::uint64_t>(status.max_age));
  response.set_kept_tokens(static_cast<std::uint64_t>(status.kept_tokens));
  response.set_continued_tokens(
      static_cast<std::uint64_t>(turn.scheduler.events().tokens_continued));
  for (const auto& [source, tally] : turn.reports.controls.tallies())
    *response.add_controls() = tally;
}

std::optional<Status> Apply(Turn& turn, const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse& response, bool) {
  FillRunStatus(turn, response);
  return OkStatus();
}

RequestTerms TermsOf(const v1::GetRunStatusRequest&) { return {.only_reads = true}; }

std::optional<Status> Apply(Turn& turn, const v1::OrderWorkerRequest& request,
                            v1::OrderWorkerResponse& response, bool) {
  BUTTRESS_ASSIGN_OR_RETURN(const WorkerOrderRow order, OrderFrom(request));
  BUTTRESS_RETURN_IF_ERROR(turn.scheduler.OrderWorker(order, turn.changes));
  const auto leases = turn.scheduler.leases().Counts();
  const auto held = leases.find(order.worker_id);
  *response.mutable_worker() =
      StatusOf(turn, order.worker_id, held == leases.end() ? 0 : held->second);
  return OkStatus();
}

std::optional<Status> Apply(Turn& turn, const v1::OrderMaxAgeRequest& request,
                            v1::OrderMaxAgeResponse& response, bool) {
  const auto before = static_cast<std::uint64_t>(turn.scheduler.max_age());
  std::optional<std::int64_t> order;
  if (request.has_max_age()) order = request.max_age();
  if (order > kMostMaxAge) {
    return InvalidArgument(
        fmt::format("max_age = {}; expected at most {} steps", *order, kMostMaxAge));
  }
  if (order) BUTTRESS_RETURN_IF_ERROR(turn.terms.check_max_age(*order));
  BUTTRESS_RETURN_IF_ERROR(turn.scheduler.OrderMaxAge(order, turn.changes));
  response.set_max_age(static_cast<std::uint64_t>(turn.scheduler.max_age()));
  response.set_max_age_before(before);
  Log(kInfo, "an operator changes the age that groups may have when they are trained",
      {{"max_age", response.max_age()}, {"before", before}});
  return OkStatus();
}

std::optional<Status> Apply(Turn& turn, const v1::StopRunRequest&, v1::StopRunResponse& response,
                            bool last) {
  if (turn.scheduler.stop_phase() == StopPhase::kNone && !turn.scheduler.finished())
    Log(kInfo, "an operator stops the run; the learner is asked for a checkpoint");
  turn.scheduler.RequestStop();
  response.set_run_state(RunStateOf(turn));
  response.set_step(turn.scheduler.run().committed_step);
  response.set_checkpoint_step(turn.scheduler.run().checkpoint_step);
  if (response.run_state() != v1::RUN_STATE_STOPPING || last || turn.draining) return OkStatus();
  return std::nullopt;
}

RequestTerms TermsOf(const v1::StopRunRequest& request) { return {.hold_ms = request.wait_ms()}; }

}  // namespace buttress
