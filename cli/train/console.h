// The output of `buttress launch` while a run is at work: finished steps, evaluations, alarms,
// warnings of its processes, the link of its page, and what the run waits for when nothing else
// happens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "cli/train/terminal.h"
#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/eval_files.h"
#include "lib/measure/measurements.h"
#include "lib/measure/steps_file.h"

namespace buttress {

// What the coordinator and the workers say of a run.
struct RunView {
  bool answered = false;  // the coordinator did
  v1::GetRunStatusResponse run;
  bool scoring = false;  // no engine has a completion: all are with the verifiers
};

// "the learner, which trains step 4", or the like. `prompts` is P, `launches_vllm` whether the run
// starts vLLM servers. Pure.
std::string WaitingFor(const RunView& view, std::int64_t prompts, bool launches_vllm = false);

// Follows the logs of a folder. The first warning or error of each kind is a notice, with the lines
// that belong to it, such as a traceback; those like it are only in the log. A kind is the role and
// the message up to its first number, quote, colon or field. Alarms, which the steps hold, and the
// reason with which a learner leaves, which its exit status repeats, are no notices. Not
// thread-safe.
class LogNotices {
 public:
  // Passes over what the logs of `folder` hold already.
  explicit LogNotices(std::string folder);

  // Returns the notices of the lines that were completed since the last call, in the order of logs
  // and lines, each with "ROLE: " before it. Logs that cannot be read have none.
  std::vector<std::string> Poll();

 private:
  void Read(const std::string& path, const std::string& role, std::vector<std::string>& notices);

  const std::string folder_;
  std::map<std::string, std::uint64_t> read_bytes_;  // by path
  std::set<std::string> known_;
};

// "step 12/40  30%  raw reward 0.410  accuracy 0.39  acr 0.44  entropy 1.2  left 1m32s  812 tok/s",
// with "-" for what was not measured, such as an ACR where nothing was scored, and "unscorable 25%"
// where it applies. What does not fit into `columns` is left out, the time left last. A negative
// `seconds_left` means "not known yet".
std::string StepLine(const StepMeasurements& step, std::int64_t total_steps, double seconds_left,
                     std::size_t columns = 120);

// What --verbose adds to it: the classes of collapse, KL, fresh tokens per second, age of the
// tokens, the groups and tokens drawn for those that are kept, and, from a tenth of the step, what
// the learner waited for.
std::string StepDetails(const StepMeasurements& step);

// The newest step with what StepLine shows as means of the ten newest, as on the page of the run.
// REQUIRES: `steps` is not empty.
StepMeasurements MeanOfNewest(const std::vector<StepMeasurements>& steps);

// How many of the newest steps give the pace.
inline constexpr std::size_t kPaceSteps = 50;

// Returns the seconds to the last step at the pace of the newest steps; -1 with fewer than two.
double SecondsLeft(const std::vector<StepMeasurements>& steps, std::int64_t total_steps);

// Returns the length of the run in `out` under the settings `run`; its ledger has the rows that
// run.epochs counts, so it is 0 before the coordinator's first write.
std::int64_t StepsOfRun(const std::string& out, const RunSettings& run);

// On a terminal each step replaces the live line, and a line stays every half a minute; otherwise a
// line is printed every few seconds. The first and the last step have a line that stays. Not
// thread-safe.
class Console {
 public:
  // `config` outlives the console. `verbose` prints a long line for each step.
  Console(const RunConfig& config, bool verbose);

  void Say(const std::string& line) { Print(line, Terminal::Tone::kPlain); }

  // Says what should be looked at.
  void Warn(const std::string& line) { Print(line, Terminal::Tone::kWarning); }

  // Names what the run waits for, if nothing was printed for a while.
  void SayWaiting(const std::string& what);

  // Begins to follow the run, which continues from the checkpoint of step `from` (0: begins), and
  // says where it continues. What an earlier start has left in its folder is passed over.
  Status Follow(std::int64_t from);

  // The calls below print what has happened since the last one. REQUIRES: Follow() was called.
  void ShowNotices();
  void ShowPageLink();
  Status ShowSteps();
  void ShowEvals();
  void ShowWaiting();

  // The same as ShowSteps, with a line of the newest step that stays.
  Status ShowLastStep();

  // The newest step that is trained, as far as it is known here; 0 before the first.
  std::int64_t step() const { return step_; }

  // Whether a step was trained since Follow().
  bool took_steps() const { return step_ > from_; }

 private:
  void Print(const std::string& line, Terminal::Tone tone);
  double SilentSeconds() const;
  bool AddStep(const StepMeasurements& step);
  void KeepStep();
  void ShowAlarms(const StepMeasurements& step);
  void AskRun();
  Result<std::vector<EvalRow>> ReadNewEvals();

  const RunConfig& config_;
  const std::string& out_;
  const bool verbose_;
  Terminal terminal_{stdout};
  double said_seconds_;
  double step_seconds_;                  // the last step was read
  double kept_seconds_ = -1e9;           // the last step was printed as a line that stays
  std::unique_ptr<LogNotices> notices_;  // from Follow on
  Credentials credentials_;              // from Follow on
  std::future<RunView> asked_;           // what the run waits for
  bool page_told_ = false;
  StepsTail steps_tail_;
  std::vector<StepMeasurements> last_steps_;  // since Follow, kPaceSteps at most
  std::int64_t from_ = 0;
  std::int64_t step_ = 0;
  bool has_open_step_ = false;  // the newest step has no line that stays
  std::array<bool, kAlarms> alarm_told_{};
  std::int64_t total_steps_ = 0;    // 0 before the first step
  std::uintmax_t evals_bytes_ = 0;  // of eval.jsonl when it was read last
  double evals_time_ = 0;           // of the newest evaluation that was printed
};

}  // namespace buttress
