// The output of `buttress launch` while a run is at work: finished steps, evaluations, warnings of
// its processes, the link of its page, and what the run waits for when nothing else happens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/train/log_notices.h"
#include "cli/train/waiting.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/eval_file.h"
#include "lib/measure/steps_file.h"

namespace buttress {

// Returns the length of the run in `out` under the settings `run`; its ledger has the rows that
// run.epochs counts, so it is 0 before the coordinator's first write.
std::int64_t StepsOfRun(const std::string& out, const RunSettings& run);

// Not thread-safe.
class Console {
 public:
  // `config` outlives the console. `verbose` prints the long line of each step.
  Console(const RunConfig& config, bool verbose);

  void Say(const std::string& line);

  // Names what the run waits for, if nothing was printed for a while.
  void SayWaiting(const std::string& what);

  // Begins to follow the run, and passes over what an earlier start has left in its folder.
  Status Follow();

  // The calls below print what has happened since the last one. REQUIRES: Follow() was called.
  void ShowNotices();
  void ShowPageLink();
  Status ShowSteps();
  void ShowEvals();
  void ShowWaiting();

  // The newest step that was printed; 0 before the first.
  double step() const { return step_; }

 private:
  double SilentSeconds() const;
  Result<std::vector<EvalRow>> ReadNewEvals();

  const RunConfig& config_;
  const std::string& out_;
  const bool verbose_;
  double said_seconds_;
  double step_seconds_;                    // the last step was printed
  std::unique_ptr<LogNotices> notices_;    // from Follow on
  std::unique_ptr<WaitingWatch> waiting_;  // from Follow on
  bool page_told_ = false;
  StepsTail steps_tail_;
  std::vector<StepMeasurements> last_steps_;  // kPaceSteps at most
  double step_ = 0;
  std::int64_t total_steps_ = 0;    // 0 before the first step
  std::uintmax_t evals_bytes_ = 0;  // of eval.jsonl when it was read last
  double evals_time_ = 0;           // of the newest evaluation that was printed
};

}  // namespace buttress
