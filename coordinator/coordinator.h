// The coordinator put together: ledger, scheduler, loop and gRPC server.
#pragma once

#include <memory>
#include <string>

#include "coordinator/coordinator_metrics.h"
#include "coordinator/loop/coordinator_loop.h"
#include "coordinator/rpc/service.h"
#include "coordinator/standby/mirror.h"
#include "lib/base/report/metrics.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/data/prompt_set.h"
#include "lib/experience/codec.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

class RpcServer;

class Coordinator {
 public:
  // Opens <out>/ledger.db and <out>/payloads, resumes the run in them or starts one, and serves.
  // `sampling` is that of every lease, except for its seed. `prompts` and `metrics` outlive the
  // coordinator. kFailedPrecondition if another coordinator has the ledger open or if it is of
  // another version; kInvalidArgument if it belongs to another run, configuration or dataset;
  // kUnavailable if the port is taken.
  static Result<std::unique_ptr<Coordinator>> Start(const RunConfig& config,
                                                    const PromptSet& prompts,
                                                    const GroupLimits& limits,
                                                    SamplingParams sampling, Metrics& metrics,
                                                    const Credentials& credentials = {});
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Returns the host:port that clients connect to.
  const std::string& address() const { return address_; }

  bool finished() const { return loop_->finished(); }

  // Returns true once an operator has stopped the run and its checkpoint is durable.
  bool stopped() const { return loop_->stopped(); }

  // Returns true once an error has ended the run for this process; Stop returns it.
  bool failed() const { return loop_->failed(); }

  // Asks the loop for what GetRunStatus reports. kUnavailable or kDeadlineExceeded if it does not
  // answer within two seconds. Thread-safe until Stop.
  Result<v1::GetRunStatusResponse> GetRunStatus();

  // Stops gracefully: reports NOT_SERVING, stops leasing, answers the calls in flight, and closes.
  // Returns the error that stopped the coordinator, if there was one. REQUIRES: called once.
  Status Stop();

 private:
  Coordinator();

  Status OpenLedger(const RunConfig& config, const PromptSet& prompts, SamplingParams sampling);
  Status Listen(const CoordinatorConfig& config, const Credentials& credentials);

  std::unique_ptr<CoordinatorMetrics> metrics_;
  std::unique_ptr<Mirror> mirror_;  // null without a standby
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<PayloadStore> payloads_;
  std::unique_ptr<CoordinatorLoop> loop_;
  KnownStarts starts_;  // until the service has them
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<RpcServer> server_;
  std::string address_;
};

}  // namespace buttress
