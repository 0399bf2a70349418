// The reason why a run waits while no step ends, and how it has ended, for `buttress launch`.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "cli/train/supervisor.h"
#include "lib/base/net/credentials.h"
#include "lib/config/run_config.h"
#include "lib/rpc/coordinator_client.h"

namespace buttress {

// What the coordinator and the workers say of a run.
struct RunView {
  bool answered = false;  // the coordinator did
  v1::GetRunStatusResponse run;
  bool scoring = false;  // no engine has a completion: all are with the verifiers
};

// "the learner, which trains step 4", or the like. `prompts` is P. Pure.
std::string WaitingFor(const RunView& view, std::int64_t prompts);

// Asks the run what it waits for, on a thread of its own. Not thread-safe.
class WaitingWatch {
 public:
  WaitingWatch(const RunConfig& config, Credentials credentials);

  // Starts to ask, unless a question is open.
  void Ask();

  // What the run waits for, by the last question; a coordinator that has not answered it yet is
  // what the run waits for.
  std::string Text();

 private:
  const RunConfig& config_;
  const Credentials credentials_;
  std::future<RunView> open_;
};

// Asks the coordinator, once the learner has left with success, how the run ended: the learner does
// so also when an operator has stopped the run, and then it has written no model. A coordinator
// that dies before it has answered is started again by `supervisor`, as during the run. Calls
// `waiting` while there is no answer. `client` attempts each call once. kCancelled after a signal,
// kUnavailable if a coordinator that runs has not answered for a minute, and what
// Supervisor::Tick() returns.
Result<v1::GetRunStatusResponse> AskHowItEnded(CoordinatorClient& client, Supervisor& supervisor,
                                               const std::function<void()>& waiting);

}  // namespace buttress
