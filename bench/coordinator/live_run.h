// What happens in a run besides the submissions: polls of busy workers, a learner, leases that are
// lost, and a caller that measures how long an Exchange takes that need not wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/rpc/coordinator_client.h"

namespace buttress {

inline constexpr char kWorkerSecret[] = "the secret of every worker here.";

// The job of a learner that has registered.
struct LearnerJob {
  std::string run_id;
  std::uint64_t epoch = 0;
  std::string secret;
};

// Returns the stub of a connection of its own, which is open unless no coordinator answers.
std::unique_ptr<v1::Coordinator::Stub> Connect(const std::string& address);

// Announces weights of `step`, which workers never load.
Status AnnounceStep(CoordinatorClient& client, const LearnerJob& job, std::uint64_t step);

// Takes a few leases again and again, under a new name each time, and lets them expire.
class LostWorkers {
 public:
  LostWorkers(const RunConfig& config, const std::string& address);
  ~LostWorkers();
  LostWorkers(const LostWorkers&) = delete;
  LostWorkers& operator=(const LostWorkers&) = delete;

 private:
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// Starts everything but Measure in its constructor, and ends it in its destructor.
class LiveRun {
 public:
  // Returns the leases that a worker holds now. Thread-safe.
  using Held = std::function<std::vector<v1::LeaseRef>(std::int64_t worker)>;

  // Each of `workers` (w0, w1, ...) keeps an Exchange open that renews its leases and takes no
  // more. The learner takes every plan, commits, announces and settles it.
  LiveRun(const RunConfig& config, const std::string& address, std::int64_t workers, Held held,
          LearnerJob learner);
  ~LiveRun();
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  // Begins to measure an Exchange that need not wait, again and again.
  void Measure();

  // Ends the run's other calls and returns the milliseconds of each measured Exchange.
  std::vector<double> Stop();

  // Steps that the learner has settled.
  std::uint64_t steps() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace buttress
