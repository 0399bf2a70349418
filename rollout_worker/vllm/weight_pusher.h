// Brings the servers to the newest weights, each on a thread of its own, so that one that is slow,
// hangs or restarts delays no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"
#include "lib/config/run_config.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/vllm/canary_proof.h"
#include "rollout_worker/vllm/control.h"
#include "rollout_worker/vllm/sample_runner.h"
#include "rollout_worker/vllm/server_pool.h"

namespace buttress {

// kStarted: the server has them from its start, which is all that a server with LoRA can have:
// vLLM does not load weights below its adapters. kAdapters: the folder is one of peft.
enum class WeightsKind { kModel, kStarted, kAdapters };

// Weights that servers load. The initial model of a run has no canaries until the learner publishes
// it as its first version.
struct PushedWeights {
  PolicyVersion version;
  std::string folder;
  Canaries canaries;
  bool float32 = false;
  WeightsKind kind = WeightsKind::kModel;
};

// The newest weights are the target of every server, whatever it serves: one that is behind, or
// restarted, loads these and none in between. A server serves a version only after its canaries
// have proven it. Servers that sleep are brought to the target when they wake up. Thread-safe.
class WeightPusher {
 public:
  // Starts with `initial` as the target. With launch.colocate the servers are to sleep at first.
  WeightPusher(const VllmConfig& config, const std::string& api_key, ServerPool& pool,
               SampleRunner& runner, PushedWeights initial, InFlight in_flight, std::string out);
  ~WeightPusher();
  WeightPusher(const WeightPusher&) = delete;
  WeightPusher& operator=(const WeightPusher&) = delete;

  // Waits until every server serves the first target, or sleeps, or has failed, but at most
  // `patience_ms` once one does. Returns the first failure if none does within `ready_ms`, and that
  // of a server whose settings are wrong in any case. kCancelled if a shutdown is requested
  // meanwhile.
  Status WaitForStart(std::int64_t patience_ms, std::int64_t ready_ms);

  // Makes `weights` the target. Returns once a server serves them, or with the first failure once
  // every server has failed to load them, or kCancelled after Interrupt or Stop. They stay the
  // target even then. Servers that sleep load them when they wake up: a learner that has returned
  // to an earlier step may train at once.
  Status Push(PushedWeights weights);

  // Ends the wait of the current Push.
  void Interrupt();

  // Asks the servers to sleep, and returns whether each does or is lost. Does nothing, and returns
  // false, while a Push waits. A server that does not fall asleep is started again, if the run has
  // started it. REQUIRES: no sample runs.
  bool Sleep();

  // Wakes the servers, which load the target.
  void Wake();

  // Ends the threads' calls to servers; a server that was loading weights stays paused until its
  // next worker resumes it.
  void Stop();

  // The newest version that a server has proven, or that sleeping servers are to load.
  PolicyVersion version() const;

  // Adds what the proofs of canaries found.
  void AddTo(EngineStats& stats) const;

 private:
  using Target = std::shared_ptr<const PushedWeights>;

  // What a server made of a target.
  struct Outcome {
    PolicyVersion version;
    Status status;
  };

  // What the servers are to do.
  struct Goal {
    Target target;
    bool sleep = false;
    std::uint64_t number = 0;  // another one for another goal
  };

  void Run(std::size_t server);
  // Waits at most `wait_ms` for another goal than number `seen`. Returns the newest one, or nullopt
  // once stopped.
  std::optional<Goal> NextGoal(std::uint64_t seen, std::int64_t wait_ms);
  // Whether the server is to be brought to the goal, and may be tried.
  bool IsDue(std::size_t server, const Goal& goal) const;
  Status PutToSleep(std::size_t server, const PushedWeights& weights);
  Status Bring(std::size_t server, const PushedWeights& weights);
  // Loads weights into a server that gets no new completions.
  Status Load(std::size_t server, const ServerInfo& info, const PushedWeights& weights,
              VllmWeights way);
  // Lets a server start again that answers no more, or keeps its memory, if the run has started it.
  void RestartStuck(const std::string& url) const;
  Status Prove(std::size_t server, const ServerInfo& info, const PushedWeights& weights);
  double Bound(const ServerInfo& info, const PushedWeights& weights) const;
  void SetGoal(Target target, bool sleep) REQUIRES(mutex_);
  void Record(std::size_t server, const Goal& goal, const Status& status);
  // Notes that a lost server cannot try the target.
  void RecordLost(std::size_t server, const PushedWeights& weights);
  bool AllTried() const REQUIRES(mutex_);
  Status FirstFailure() const REQUIRES(mutex_);
  Status Refusal() const REQUIRES(mutex_);

  const VllmConfig config_;
  const InFlight in_flight_;
  const std::string out_;
  ServerPool& pool_;
  SampleRunner& runner_;
  std::vector<std::unique_ptr<VllmControl>> controls_;  // each used by its thread
  std::vector<VersionCanaries> baselines_;              // each used by its thread
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool interrupted_ GUARDED_BY(mutex_) = false;
  Goal goal_ GUARDED_BY(mutex_);
  bool pushing_ GUARDED_BY(mutex_) = false;  // a Push waits
  bool served_ GUARDED_BY(mutex_) = false;   // whether a server has proven the target, or sleeps
  PolicyVersion version_ GUARDED_BY(mutex_);
  std::vector<std::optional<Outcome>> outcomes_ GUARDED_BY(mutex_);  // by server
  std::vector<double> differences_ GUARDED_BY(mutex_);               // by server, of the last proof
  std::int64_t unchanged_weights_ GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace buttress
