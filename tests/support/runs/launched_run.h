// `buttress launch` of the tiny run as a child process, looked at from outside.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/ledger/audit.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/token_account.h"
#include "lib/measure/steps_file.h"
#include "tests/support/runs/quickstart_run.h"

namespace buttress {

class LaunchedRun {
 public:
  LaunchedRun(int steps, std::vector<std::string> more = {}) {
    out_ = JoinPath(dir_.path(), "run");
    yaml_ = JoinPath(dir_.path(), "run.yaml");
    more_ = std::move(more);
    EXPECT_TRUE(WriteFileAtomic(yaml_, TinyRunYaml(out_, steps)).ok());
  }

  ~LaunchedRun() { KillDescendants(); }

  void Start(const std::vector<std::string>& also = {}) {
    SetChildSubreaper();
    std::vector<std::string> argv = {SiblingProgram("buttress"), "launch", yaml_};
    argv.insert(argv.end(), more_.begin(), more_.end());
    argv.insert(argv.end(), also.begin(), also.end());
    auto process = Process::Start(argv, log());
    ASSERT_TRUE(process.ok()) << process.status().ToString();
    process_ = *process;
  }

  // The same on a terminal of `columns`. `script`, which makes it, is process(), and copies to the
  // log what is written to it.
  void StartOnTerminal(int columns) {
    SetChildSubreaper();
    std::string command = "TERM=xterm; export TERM; stty cols " + std::to_string(columns) +
                          "; exec '" + SiblingProgram("buttress") + "' launch '" + yaml_ + "'";
    for (const std::string& argument : more_) command += " '" + argument + "'";
    auto process = Process::Start({"script", "-qefc", command, "/dev/null"}, log());
    ASSERT_TRUE(process.ok()) << process.status().ToString();
    process_ = *process;
  }

  // Exit code, or -1 if it did not end in time.
  int Wait(std::int64_t timeout_ms) {
    return WaitUntil(timeout_ms, [this] { return !process_->Running(); }) ? process_->exit_code()
                                                                          : -1;
  }

  bool WaitForStep(std::int64_t step, std::int64_t timeout_ms) {
    return WaitUntil(timeout_ms, [&] {
      auto steps = ReadSteps(JoinPath(out_, "steps.jsonl"));
      return (steps.ok() && !steps->empty() && steps->back().step >= static_cast<double>(step)) ||
             !process_->Running();
    });
  }

  // Processes of the run whose program has this name.
  std::vector<pid_t> Pids(const std::string& program) const {
    std::vector<pid_t> pids;
    for (const ProcessInfo& info : Descendants()) {
      if (info.name == program) pids.push_back(info.pid);
    }
    return pids;
  }

  std::string Text() const {
    std::string text = TextOf(log());
    for (const char* role : {"coordinator", "worker-w0", "learner"}) {
      text += std::string("\n--- ") + role + "\n" +
              TextOf(JoinPath(out_, std::string("logs/") + role + ".log"));
    }
    return text;
  }

  Process& process() { return *process_; }

  const std::string& out() const { return out_; }

  const std::string& yaml() const { return yaml_; }

  std::string log() const { return JoinPath(dir_.path(), "launch.log"); }

 private:
  TempDir dir_;
  std::string out_;
  std::string yaml_;
  std::vector<std::string> more_;
  std::optional<Process> process_;
};

// Every step once, in order, from 1 to `steps`.
inline void ExpectStepsInOrder(const LaunchedRun& run, std::int64_t steps) {
  auto records = ReadSteps(JoinPath(run.out(), "steps.jsonl"));
  ASSERT_TRUE(records.ok()) << records.status().ToString();
  ASSERT_EQ(static_cast<std::int64_t>(records->size()), steps);
  for (std::int64_t i = 0; i < steps; ++i)
    EXPECT_EQ((*records)[static_cast<std::size_t>(i)].step, static_cast<double>(i + 1));
}

// Every drawn prompt is settled or dropped, each once, and the counters of the summary are those of
// the ledger, whose account of tokens closes.
inline void ExpectAccountsBalance(const LaunchedRun& run, std::int64_t trained_groups) {
  auto reader = LedgerReader::Open(JoinPath(run.out(), "ledger.db"));
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  auto audit = AuditLedger(**reader);
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  EXPECT_EQ(audit->violations(), std::vector<std::string>());
  for (const auto& [state, count] : audit->groups) {
    EXPECT_TRUE(state == "settled" || state == "dropped" || count == 0)
        << count << " groups are left " << state;
  }
  EXPECT_EQ(audit->groups["settled"], trained_groups);
  EXPECT_EQ(audit->recounted, audit->reported);
  auto snapshot = (*reader)->Load();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  const TokenAccount tokens = AccountOf(*snapshot);
  EXPECT_EQ(tokens.difference(), 0);
  EXPECT_EQ(tokens.parked, 0);
  double in_steps = 0;  // as the learner counted them
  for (const StepMeasurements& step : *ReadSteps(JoinPath(run.out(), "steps.jsonl")))
    in_steps += step.generated_tokens;
  EXPECT_EQ(static_cast<double>(tokens.trained + tokens.masked), in_steps);
  const auto summary =
      nlohmann::json::parse(TextOf(JoinPath(run.out(), "summary.json")), nullptr, false);
  ASSERT_TRUE(summary.is_object());
  EXPECT_EQ(summary["groups_accepted"], audit->recounted.groups);
  EXPECT_EQ(summary["groups_collapsed"], audit->recounted.constant());
  EXPECT_GE(audit->recounted.groups, trained_groups);
}

}  // namespace buttress
