// What holds the conversations of episodes: an environment of this program, or an agent.
#pragma once

#include <memory>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/episodes/environment.h"
#include "rollout_worker/episodes/live_episode.h"

namespace buttress {

// Thread-safe.
class EpisodeRunner {
 public:
  virtual ~EpisodeRunner() = default;

  // Runs an episode to its end, and returns soon once it is over or its time is. What is neither
  // ended nor failed then is done.
  virtual void Run(LiveEpisode& episode) = 0;
};

// run.env.kind: builtin. `run_seed` and the group of an episode make the seed of its environment.
std::unique_ptr<EpisodeRunner> MakeBuiltinRunner(std::unique_ptr<EnvironmentFactory> factory,
                                                 std::uint64_t run_seed);

// Returns the program of run.env.command; kInvalidArgument if it is not there.
Result<std::string> AgentProgram(const EnvConfig& env);

// run.env.kind: exec, a program for each episode in a process group of its own, which is killed
// with the episode, and with this process; and http, a call of run.env.url. Both reach the policy
// through an AgentGateway. The reason of an episode that fails is the agent's own: the last line
// that it wrote to stderr, or its reply. kInvalidArgument for a program that is not there,
// kUnavailable if the port is taken. `tokenizer` must outlive it.
Result<std::unique_ptr<EpisodeRunner>> MakeAgentRunner(const EnvConfig& env,
                                                       const EpisodesConfig& config,
                                                       const Tokenizer& tokenizer);

}  // namespace buttress
