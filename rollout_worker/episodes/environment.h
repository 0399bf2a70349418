// The environments that a worker runs itself (run.env.kind: builtin).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/chat/message.h"
#include "lib/config/run_config.h"
#include "rollout_worker/episodes/episode.h"

namespace buttress {

// What the environment says to an answer of the policy.
struct EnvironmentReply {
  // Messages (user, tool) that follow the answer; empty where the episode has ended.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  double turn_reward = 0;  // for the answer
  // Of the episode, should it end here; absent: as before, and without any the verifier decides.
  std::optional<double> reward;
  std::vector<std::string> tools = {};  // that were called, by name; empty: it cannot be read
  std::int32_t failed_tools = 0;        // of them

  bool ended() const { return messages.empty(); }
};

// One episode. Not thread-safe.
class Environment {
 public:
  virtual ~Environment() = default;

  // The messages that begin the conversation, and the tools that the policy has (a list of
  // descriptions as OpenAI's, or null).
  virtual nlohmann::ordered_json messages() const = 0;

  virtual nlohmann::ordered_json tools() const { return nullptr; }

  // May take as long as its tools, within `deadline_ms` from now. An error fails the episode; what
  // the policy did wrong is told to the policy instead.
  virtual Result<EnvironmentReply> Reply(const AssistantMessage& answer,
                                         std::int64_t deadline_ms) = 0;
};

// Makes the environments of run.env.name. Thread-safe.
class EnvironmentFactory {
 public:
  virtual ~EnvironmentFactory() = default;

  // `seed` is that of the group, whose episodes all have the same task. kInvalidArgument for a row
  // that the environment cannot use.
  virtual Result<std::unique_ptr<Environment>> Make(const EpisodeTask& task,
                                                    std::uint64_t seed) const = 0;

  // Reads what `run.env` names, such as the file that is searched, and checks it.
  static Result<std::unique_ptr<EnvironmentFactory>> Create(const RunSettings& run);
};

}  // namespace buttress
