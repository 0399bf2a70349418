// A process of the learner job: the calls of learner/coordinator_source.h in the order in which the
// trainer makes them, around modelled training: the weights are a digest of all that was trained.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/simulation/learner/checkpoint_folder.h"
#include "tests/simulation/learner/learner_disk.h"
#include "tests/simulation/network.h"

namespace buttress::simulation {

class LearnerProcess {
 public:
  // `number` tells the processes of the cluster apart; `ended` is called once, when the process
  // ends by itself, with whether it has done what it was to do.
  LearnerProcess(World& world, Network& network, Checker& checker, const RunSetup& setup,
                 LearnerDisk& disk, std::uint64_t number, std::function<void(bool)> ended);

  ~LearnerProcess() { Kill(); }

  LearnerProcess(const LearnerProcess&) = delete;
  LearnerProcess& operator=(const LearnerProcess&) = delete;

  void Start();

  void Kill() { process_->alive = false; }

  void Pause(std::int64_t ms) { process_->paused_until_ms = world_.now_ms() + ms; }

  bool alive() const { return process_->alive; }

  // Ends the run with the next checkpoint.
  void EndEarly() { ends_early_ = true; }

  // SIGTERM: the process leaves with a checkpoint of its step, in which it hangs for so long. Calls
  // `hung` when it does.
  void LeaveAndHang(std::int64_t ms, std::function<void()> hung) {
    hang_ms_ = ms;
    hung_ = std::move(hung);
  }

 private:
  static constexpr std::int64_t kGiveUpMs = 45000;

  void End(bool done, const std::string& why);
  // Registers with the newest checkpoint before the step.
  void Register(std::uint64_t before);
  void Plan();
  void Fetch(const v1::Plan& plan);
  void Train(const std::vector<v1::Group>& groups);
  void Commit();
  void Announce(std::function<void()> then);
  void WriteCheckpoint(std::function<void()> then);
  void GoOn();

  // Returns whether the process ends by what it has written.
  bool Dies(const Status& written);

  // Fills in who calls.
  template <class Request>
  Request Named() const {
    Request request;
    request.set_run_id(run_id_);
    request.set_learner_epoch(epoch_);
    request.set_learner_secret(secret_);
    return request;
  }

  // Calls until there is an answer; any error ends the process.
  template <class Request, class Response>
  void Call(const Request& request, std::int64_t hold_ms, std::function<void(Response)> then) {
    network_.RetryCall<Request, Response>(process_, request, hold_ms, kGiveUpMs,
                                          [this, then](Result<Response> response) {
                                            if (!response.ok())
                                              return End(false, response.status().ToString());
                                            then(*std::move(response));
                                          });
  }

  World& world_;
  Network& network_;
  Checker& checker_;
  const RunSetup& setup_;
  LearnerDisk& disk_;
  CheckpointFolder folder_;
  const std::function<void(bool)> ended_;
  Dice dice_;
  ProcessPtr process_;
  std::uint64_t epoch_ = 0;
  std::string secret_;
  std::string run_id_;
  std::uint64_t step_ = 0;  // trained
  std::string weights_ = kStartWeights;
  std::vector<std::uint64_t> planned_;
  std::uint64_t last_checkpoint_ = 0;
  bool ends_early_ = false;
  std::int64_t hang_ms_ = 0;
  std::function<void()> hung_;
};

}  // namespace buttress::simulation
