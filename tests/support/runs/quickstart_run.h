// A run of the real programs in a folder of its own: a tiny countdown task and model, made once a
// test binary by the programs themselves.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "cli/process.h"
#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {

// Runs a program to its end and returns its exit code; the output goes to `log`.
inline int RunToEnd(const std::vector<std::string>& argv, const std::string& log,
                    std::int64_t timeout_ms) {
  auto process = Process::Start(argv, log);
  if (!process.ok()) return -1;
  if (!WaitUntil(timeout_ms, [&] { return !process->Running(); })) {
    process->Signal(SIGKILL);
    return -1;
  }
  return process->exit_code();
}

inline std::string TextOf(const std::string& path) {
  auto text = ReadFile(path);
  return text.ok() ? *text : "(no " + path + ")";
}

// Problems and a cold-start model, shared by the tests of a binary.
class TinyTask {
 public:
  static const TinyTask& Get() {
    static const TinyTask task;
    return task;
  }

  const std::string& folder() const { return dir_.path(); }

  // Error text if the folder could not be made.
  const std::string& error() const { return error_; }

 private:
  TinyTask() {
    const std::string buttress = SiblingProgram("buttress"), d = dir_.path(),
                      log = JoinPath(d, "log");
    const std::vector<std::vector<std::string>> commands = {
        {buttress,      "task", "countdown", "--out",    d,         "--numbers", "4",
         "--operators", "+-",   "--use-all", "--format", "compact", "--train",   "2000",
         "--held-out",  "50",   "--sft",     "4000",     "--seed",  "1"},
        {buttress, "new-model", "--out", d + "/new", "--characters", "0123456789+-:>", "--layers",
         "2", "--hidden", "64", "--heads", "2", "--intermediate", "128"},
        {buttress, "sft", "--model", d + "/new", "--data", d + "/sft.jsonl", "--out", d + "/model",
         "--steps", "40", "--batch", "64", "--lr", "3e-3", "--warmup", "5", "--seed", "1"},
    };
    for (const auto& command : commands) {
      if (RunToEnd(command, log, 120000) != 0) {
        error_ = command[1] + " failed: " + TextOf(log);
        return;
      }
    }
  }

  TempDir dir_;
  std::string error_;
};

// The YAML of a run of `steps` steps in `out`. The model hardly learns, which does not end the run.
inline std::string TinyRunYaml(const std::string& out, int steps) {
  const std::string& task = TinyTask::Get().folder();
  return "run:\n  name: tiny\n  steps: " + std::to_string(steps) +
         "\n  checkpoint_interval: 5\n  lease_ms: 3000\n  data: {prompts: " + task +
         "/train.jsonl, held_out: " + task + "/held_out.jsonl}\n  model: {path: " + task +
         "/model}\n  sampling: {group_size: 4, max_tokens: 8}\n  batch: {prompts: 8, max_age: 1}\n"
         "  reward: {verifier: countdown, use_all: true}\n  algorithm: {advantage: avspo, "
         "avspo: {mode: opposite}}\n  optim: {lr: 3e-4}\n"
         "local:\n  out: " +
         out +
         "\n  learner: {collective_timeout_ms: 20000, stop_when: {uninformative_steps: 0}}\n  "
         "launch: {workers: 2, learner_ranks: 2}\n";
}

}  // namespace buttress
