// `buttress cordon`, `drain` and `uncordon RUN WORKER...`: standing orders to rollout workers; and
// `buttress stop RUN`, which asks the learner for a checkpoint and ends the run after it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/run_client.h"
#include "lib/base/os/clock.h"
#include "lib/rpc/run_state.h"

namespace buttress {
namespace {

constexpr std::int64_t kOrderGiveUpMs = 15000;

struct OrderOptions {
  RunFlags flags;
  std::vector<std::string> workers;
  std::string reason;
};

void Print(const v1::WorkerStatus& worker, bool json) {
  if (json) {
    return PrintJson({{"worker", worker.worker_id()},
                      {"order", OrderText(worker.order())},
                      {"reason", worker.order_reason()},
                      {"leases", worker.leases()},
                      {"registered", worker.registered()}});
  }
  const std::string reason =
      worker.order_reason().empty() ? "" : " (" + worker.order_reason() + ")";
  fmt::print("worker {}: order {}{}, {} leases{}\n", worker.worker_id(), OrderText(worker.order()),
             reason, worker.leases(), worker.registered() ? "" : ", not registered");
}

Status GiveOrders(const OrderOptions& options, v1::WorkerOrder order) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto client,
                            ConnectToRun(options.flags, Program::kOperating, kOrderGiveUpMs));
  for (const std::string& worker : options.workers) {
    v1::OrderWorkerRequest request;
    request.set_worker_id(worker);
    request.set_order(order);
    request.set_reason(options.reason);
    BUTTRESS_ASSIGN_OR_RETURN(const v1::OrderWorkerResponse given, client->OrderWorker(request));
    Print(given.worker(), options.flags.json);
  }
  return OkStatus();
}

std::function<Status()> AddOrder(CLI::App& app, v1::WorkerOrder order) {
  const auto options = std::make_shared<OrderOptions>();
  options->flags.AddTo(app);
  app.add_option("workers", options->workers,
                 "ids of the workers, as `buttress status` prints them")
      ->required();
  if (order != v1::WORKER_ORDER_NONE)
    app.add_option("--reason", options->reason, "why; `buttress status` shows it");
  return [options, order] { return GiveOrders(*options, order); };
}

constexpr std::int64_t kStopGiveUpMs = 15000;
constexpr std::int64_t kPollMs = 1000;

struct StopOptions {
  RunFlags flags;
  double timeout_seconds = 600;
};

void Print(const v1::StopRunResponse& stop, bool json) {
  if (json) {
    return PrintJson({{"state", RunStateText(stop.run_state())},
                      {"step", stop.step()},
                      {"checkpoint_step", stop.checkpoint_step()}});
  }
  fmt::print("the run is {} at step {}; the checkpoint is of step {}\n",
             RunStateText(stop.run_state()), stop.step(), stop.checkpoint_step());
}

// The coordinator forgets the request when it restarts, so the request is repeated until the end.
Status Stop(const StopOptions& options) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto client,
                            ConnectToRun(options.flags, Program::kOperating, kStopGiveUpMs));
  const std::int64_t deadline_ms =
      RealClock().MonotonicMs() + static_cast<std::int64_t>(1000 * options.timeout_seconds);
  v1::StopRunRequest request;
  v1::StopRunResponse stop;
  do {
    const std::int64_t left_ms = deadline_ms - RealClock().MonotonicMs();
    request.set_wait_ms(static_cast<std::uint32_t>(std::clamp<std::int64_t>(left_ms, 1, kPollMs)));
    BUTTRESS_ASSIGN_OR_RETURN(stop, client->StopRun(request));
    if (stop.run_state() != v1::RUN_STATE_STOPPING) {
      Print(stop, options.flags.json);
      return OkStatus();
    }
  } while (RealClock().MonotonicMs() < deadline_ms);
  return DeadlineExceeded(fmt::format(
      "the learner wrote no checkpoint within {:g} s: the last one is of step {}, and step {} is "
      "committed; the stop is still in force, so call it again to wait longer, or look at the "
      "learner's log",
      options.timeout_seconds, stop.checkpoint_step(), stop.step()));
}

}  // namespace

std::function<Status()> AddCordon(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_CORDON); }

std::function<Status()> AddDrain(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_DRAIN); }

std::function<Status()> AddUncordon(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_NONE); }

std::function<Status()> AddStop(CLI::App& app) {
  const auto options = std::make_shared<StopOptions>();
  options->flags.AddTo(app);
  app.add_option("--timeout", options->timeout_seconds, "seconds to wait for the checkpoint")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return [options] { return Stop(*options); };
}

}  // namespace buttress
