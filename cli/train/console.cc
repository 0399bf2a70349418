#include "cli/train/console.h"

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "cli/train/step_line.h"
#include "cli/train/summary.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/config/load_credentials.h"
#include "lib/config/run_folder.h"
#include "lib/config/sources.h"
#include "lib/ledger/reader.h"

namespace buttress {
namespace {

// The console is never silent for ten seconds: the run is asked a while before what it waits for.
constexpr double kAskAfterSeconds = 6, kTellAfterSeconds = 9;

}  // namespace

std::int64_t StepsOfRun(const std::string& out, const RunSettings& run) {
  if (run.epochs == 0) return run.steps;
  const auto reader = LedgerReader::Open(JoinPath(out, "ledger.db"));
  const auto row = reader.ok() ? (*reader)->Run() : reader.status();
  std::uint64_t rows = 0;
  if (row.ok() && *row) {
    for (const SourceRow& source : (*row)->sources) rows += source.dataset.rows;
  }
  return StepsOf(run, rows);
}

Console::Console(const RunConfig& config, bool verbose)
    : config_(config),
      out_(config.local.out),
      verbose_(verbose),
      said_seconds_(MonotonicSeconds()),
      step_seconds_(said_seconds_),
      steps_tail_(JoinPath(out_, "steps.jsonl")) {}

void Console::Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  said_seconds_ = MonotonicSeconds();
}

double Console::SilentSeconds() const { return MonotonicSeconds() - said_seconds_; }

void Console::SayWaiting(const std::string& what) {
  if (SilentSeconds() <= kTellAfterSeconds) return;
  Say(fmt::format("launch: {:.0f} s after {}: waits for {}", MonotonicSeconds() - step_seconds_,
                  step_ > 0 ? fmt::format("step {:.0f}", step_) : "the start", what));
}

Status Console::Follow() {
  notices_ = std::make_unique<LogNotices>(JoinPath(out_, "logs"));
  BUTTRESS_ASSIGN_OR_RETURN(const Credentials credentials,
                            LoadCredentials(config_.local.security, Program::kStatus));
  waiting_ = std::make_unique<WaitingWatch>(config_, credentials);
  step_seconds_ = said_seconds_ = MonotonicSeconds();
  std::remove(PageLinkPath(out_).c_str());
  ReadNewEvals().status().IgnoreError();
  return OkStatus();
}

void Console::ShowNotices() {
  for (const std::string& notice : notices_->Poll()) Say(notice);
}

void Console::ShowPageLink() {
  if (page_told_) return;
  const Result<std::string> link = ReadFile(PageLinkPath(out_));
  if (!link.ok()) return;
  page_told_ = true;
  Say("launch: page of the run, for one browser (`buttress status` has the next link): " +
      link->substr(0, link->find('\n')));
}

Status Console::ShowSteps() {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps, steps_tail_.Next());
  if (!steps.empty() && total_steps_ == 0) total_steps_ = StepsOfRun(out_, config_.run);
  for (const StepMeasurements& step : steps) {
    // A restarted learner repeats the steps after its checkpoint; they are printed once.
    while (!last_steps_.empty() && last_steps_.back().step >= step.step) last_steps_.pop_back();
    last_steps_.push_back(step);
    if (last_steps_.size() > kPaceSteps) last_steps_.erase(last_steps_.begin());
    if (step.step <= step_) continue;
    step_ = step.step;
    Say(StepLine(step, total_steps_, SecondsLeft(last_steps_, total_steps_), verbose_));
    step_seconds_ = MonotonicSeconds();
  }
  return OkStatus();
}

// Returns the evaluations that were written since the last call.
Result<std::vector<EvalRow>> Console::ReadNewEvals() {
  std::vector<EvalRow> rows;
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(EvalsPath(out_), error);
  if (error || bytes == evals_bytes_) return rows;
  evals_bytes_ = bytes;
  BUTTRESS_ASSIGN_OR_RETURN(rows, ReadEvals(out_));
  std::erase_if(rows, [this](const EvalRow& row) { return row.time_unix <= evals_time_; });
  if (!rows.empty()) evals_time_ = rows.back().time_unix;
  return rows;
}

void Console::ShowEvals() {
  const auto rows = ReadNewEvals();
  if (!rows.ok()) return Say("launch: " + rows.status().message());
  for (const EvalRow& row : *rows) Say("launch: " + EvalLine(row));
}

void Console::ShowWaiting() {
  if (SilentSeconds() > kAskAfterSeconds) waiting_->Ask();
  if (SilentSeconds() > kTellAfterSeconds) SayWaiting(waiting_->Text());
}

}  // namespace buttress
