// What a run of TinyTask needs to sample from servers of the program fake_vllm.
#pragma once

#include <string>
#include <vector>

#include "tests/support/runs/quickstart_run.h"

namespace buttress {

class FakeVllmRun {
 public:
  static const FakeVllmRun& Get() {
    static const FakeVllmRun run;
    return run;
  }

  // A folder of a model whose vocabulary has every token that fake_vllm answers with.
  std::string model() const { return JoinPath(dir_.path(), "model"); }

  // Error text if the model could not be made.
  const std::string& error() const { return error_; }

  // "--set", KEY=VALUE, ...: a server on the CPU of each machine. Its log-probs are of no model.
  static std::vector<std::string> Settings(const std::string& model) {
    const std::string vllm = "local.worker.vllm.";
    std::vector<std::string> argv;
    for (const std::string& setting :
         {"run.model.path=" + model, std::string("local.worker.engine=vllm"),
          vllm + "launch.binary=" + SiblingProgram("fake_vllm"), vllm + "revive_ms=50",
          vllm + "health_interval_ms=100", vllm + "canary_nats=1000"})
      argv.insert(argv.end(), {"--set", setting});
    return argv;
  }

 private:
  FakeVllmRun() : error_(TinyTask::Get().error()) {
    if (!error_.empty()) return;
    const std::string buttress = SiblingProgram("buttress"), log = JoinPath(dir_.path(), "log"),
                      bare = JoinPath(dir_.path(), "bare");
    const std::vector<std::vector<std::string>> commands = {
        {buttress, "new-model", "--out", bare, "--characters",
         "0123456789+-:>abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "--layers", "1",
         "--hidden", "32", "--heads", "2", "--intermediate", "64"},
        {buttress, "sft", "--model", bare, "--data", TinyTask::Get().folder() + "/sft.jsonl",
         "--out", model(), "--steps", "1"}};
    for (const auto& command : commands) {
      if (error_.empty() && RunToEnd(command, log, 60000) != 0)
        error_ = command[1] + " failed: " + TextOf(log);
    }
  }

  TempDir dir_;
  std::string error_;
};

}  // namespace buttress
