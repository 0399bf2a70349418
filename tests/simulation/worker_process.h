// A process of a rollout worker: the real bookkeeping of groups (rollout_worker/held_groups.h) and
// the rules of Worker, CoordinatorSession and Submitter, around a modelled engine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rollout_worker/held_groups.h"
#include "tests/simulation/network.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/fakes/fake_scoring.h"

namespace buttress::simulation {

// What is wrong with a worker.
struct WorkerFlaws {
  std::int64_t slowness = 1;  // how many times as long its samples take
  bool sick = false;          // samples from weights that nobody published
  bool broken = false;        // submits what was not leased, or gives its leases back
  bool other_run = false;     // believes that it belongs to another run
};

class WorkerProcess {
 public:
  // `number` tells the processes of the cluster apart; `ended` is called once, when the process
  // ends by itself.
  WorkerProcess(World& world, Network& network, const RunSetup& setup, std::string id,
                std::uint64_t number, const WorkerFlaws& flaws, std::function<void()> ended);

  ~WorkerProcess() { Kill(); }

  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void Start();
  void Kill();

  // SIGTERM: hands its groups on, and ends.
  void Drain();

  void Pause(std::int64_t ms) { process_->paused_until_ms = world_.now_ms() + ms; }

  bool alive() const { return process_->alive; }

  WorkerFlaws& flaws() { return flaws_; }

  const std::string& id() const { return id_; }

 private:
  struct Running {
    SampleRequest request;
    EngineResult result;        // so far
    std::int64_t target = 0;    // tokens of the whole
    std::int64_t began_ms = 0;  // when its first own token was due
    std::int64_t begun = 0;     // tokens that it began with
  };

  void End(std::string_view why);
  void Register(std::function<void()> then);
  void Refused(const Status& status, std::function<void()> again);
  void PlanExchange(std::int64_t delay_ms);
  void Exchange(std::int64_t wait_ms);
  void Apply(const v1::ExchangeResponse& response);
  void AddLease(const v1::Lease& lease);
  void LoadWeights();
  void StartSamples();

  std::int64_t TokenMs() const { return 120 * flaws_.slowness; }

  // Gives a sample the tokens that it has by now.
  void Advance(Running& running);
  void FinishSample(const SampleId& id);
  void Cancel(const std::vector<SampleId>& samples);
  void AddSampled(EngineResult result);
  void SubmitNext();
  EncodedGroup Spoil(const EncodedGroup& encoded, const LeaseRef& ref) const;
  void Submit(CompleteGroup group);
  v1::WorkerTokens Tokens() const;
  void Leave();

  World& world_;
  Network& network_;
  const RunSetup& setup_;
  const std::string id_;
  const std::function<void()> ended_;
  Dice dice_;
  ProcessPtr process_;
  WorkerFlaws flaws_;
  v1::RegisterWorkerRequest self_;
  std::uint64_t coordinator_epoch_ = 0;  // that it has registered with
  std::uint64_t reported_epoch_ = 0;     // to which its partial completions were reported
  std::int64_t reported_ms_ = 0;
  HeldGroups groups_;
  ByteTokenizer tokenizer_;
  FakeScoring scoring_;
  PolicyVersion loaded_;
  PolicyVersion first_loaded_;
  PolicyVersion announced_;  // to be loaded
  bool loading_ = false;
  std::map<SampleId, Running> running_;
  std::int64_t generated_ = 0;  // tokens of ended samples
  std::int64_t submitting_ = 0;
  std::uint64_t exchanges_ = 0;
  bool exchanging_ = false;
  bool draining_ = false;
};

}  // namespace buttress::simulation
