// Names in the folder of a run.
#pragma once

#include <string>
#include <string_view>

namespace buttress {

// The configuration that the coordinator started with, as PrintRunConfig writes it: for commands
// that are given the folder alone.
inline std::string StoredConfigPath(const std::string& out) { return out + "/config.yaml"; }

// The steps that the learner sent to a coordinator that does not see its steps.jsonl.
inline std::string ReceivedStepsPath(const std::string& out) {
  return out + "/received_steps.jsonl";
}

// What each start of the run was made of (coordinator/versions_file.h).
inline std::string VersionsPath(const std::string& out) { return out + "/versions.json"; }

// The folder of what reward functions in Python print.
inline std::string RewardOutputPath(const std::string& out) { return out + "/rewards"; }

// The link of the run's page, with a key that counts once.
inline std::string PageLinkPath(const std::string& out) { return out + "/coordinator.page"; }

// The file by which a worker asks for the restart of a vLLM server that the run has started, by its
// port on this machine: `buttress vllm-server` removes the file and ends the server, which the
// supervisor of the run then starts again.
inline std::string VllmRestartPath(const std::string& out, std::string_view port) {
  return out + "/vllm-restart-" + std::string(port);
}

}  // namespace buttress
