// `buttress cordon`, `drain` and `uncordon RUN WORKER...`: standing orders to rollout workers.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/run_client.h"

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
    const nlohmann::ordered_json row = {{"worker", worker.worker_id()},
                                        {"order", OrderText(worker.order())},
                                        {"reason", worker.order_reason()},
                                        {"leases", worker.leases()},
                                        {"registered", worker.registered()}};
    fmt::print("{}\n", row.dump());
    return;
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

}  // namespace

std::function<Status()> AddCordon(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_CORDON); }

std::function<Status()> AddDrain(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_DRAIN); }

std::function<Status()> AddUncordon(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_NONE); }

}  // namespace buttress
