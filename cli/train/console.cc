#include "cli/train/console.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/train/summary.h"
#include "cli/understand/samples.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/config/load_credentials.h"
#include "lib/config/run_folder.h"
#include "lib/config/sources.h"
#include "lib/http/http_client.h"
#include "lib/ledger/reader.h"
#include "lib/measure/alarms.h"
#include "lib/rpc/coordinator_client.h"

namespace buttress {
namespace {

constexpr std::int64_t kScrapeMs = 1000;

// Whether workers hold leases and none of their engines has a completion. False where that cannot
// be told, as behind TLS.
bool OnlyScoring(const v1::GetRunStatusResponse& run, const Credentials& credentials) {
  if (!credentials.empty()) return false;
  std::vector<HttpRequest> requests;
  for (const v1::WorkerStatus& worker : run.workers()) {
    if (worker.leases() == 0 || worker.metrics_address().empty()) continue;
    HttpRequest& request = requests.emplace_back();
    request.url = "http://" + worker.metrics_address() + "/metrics";
    request.deadlines = {kScrapeMs, kScrapeMs, kScrapeMs, kScrapeMs};
  }
  if (requests.empty()) return false;
  for (const Result<HttpReply>& reply : HttpClient().Fetch(std::move(requests))) {
    constexpr std::string_view kSeries = "\nbuttress_worker_requests_in_flight ";
    if (!reply.ok()) return false;
    const std::size_t at = reply->body.find(kSeries);
    if (at == std::string::npos || std::atof(reply->body.c_str() + at + kSeries.size()) > 0)
      return false;
  }
  return true;
}

RunView Look(const CoordinatorClientOptions& options) {
  RunView view;
  auto run = CoordinatorClient(options).GetRunStatus();
  if (!run.ok()) return view;
  view.answered = true;
  view.run = *std::move(run);
  view.scoring = OnlyScoring(view.run, options.credentials);
  return view;
}

std::uint64_t CountOf(const v1::GetRunStatusResponse& run, const std::string& state) {
  const auto found = run.groups().find(state);
  return found == run.groups().end() ? 0 : found->second;
}

namespace fs = std::filesystem;

constexpr std::size_t kLongestBytes = 64 << 10;  // read of one log at once
constexpr int kLinesOfNotice = 40;

std::vector<fs::path> LogsOf(const std::string& folder) {
  std::vector<fs::path> logs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".log") logs.push_back(entry.path());
  }
  std::ranges::sort(logs);
  return logs;
}

// Whether `line` begins as a line of lib/base/report/log.h does: "2026-01-01T00:00:00.000Z W ".
bool IsLogLine(std::string_view line) {
  return line.size() > 27 && line[4] == '-' && line[10] == 'T' && line[23] == 'Z' &&
         line[24] == ' ' && line[26] == ' ';
}

// What follows time, level, role, step and version.
std::string_view MessageOf(std::string_view line) {
  line.remove_prefix(std::min(line.find(' ', 27), line.size() - 1) + 1);
  while (line.starts_with("step=") || line.starts_with("version="))
    line.remove_prefix(std::min(line.find(' '), line.size() - 1) + 1);
  return line;
}

// "reward function raised NameError" of "reward function raised NameError: name 'x' is not ...".
std::string KindOf(std::string_view role, std::string_view message) {
  std::size_t end = message.find_first_of("0123456789\":;(=");
  if (end != std::string_view::npos && message[end] == '=') end = message.rfind(' ', end);
  const std::string_view kind = role.substr(0, role.find_first_of("-/"));
  return std::string(kind) + ": " + std::string(message.substr(0, end));
}

bool IsSaidElsewhere(std::string_view message) {
  return message.starts_with("alarm alarm=") || message.starts_with("learner leaves ");
}

constexpr double kShownWait = 0.1;  // of the step

// The value in the format `format`, or "-" if it was not measured.
std::string Text(const char* format, double value) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "-";
}

std::string LeftText(double seconds_left) {
  if (seconds_left < 0) return "?";
  const auto seconds = static_cast<std::int64_t>(seconds_left);
  return seconds < 3600 ? fmt::format("{}m{:02}s", seconds / 60, seconds % 60)
                        : fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
}

// "  waits 34 % (groups)", with the largest of what the learner waited for.
std::string WaitText(const StepMeasurements& step) {
  const std::array<std::pair<const char*, double>, 3> causes = {
      {{"groups", step.seconds_wait + step.seconds_fetch},
       {"publishing", step.seconds_wait_weights},
       {"peers", step.seconds_wait_peers}}};
  const double share = step.seconds_waited() / step.seconds_step;
  if (!(share >= kShownWait)) return "";
  const auto largest = std::ranges::max_element(causes, {}, [](auto& c) { return c.second; });
  return fmt::format("  waits {:.0f} % ({})", 100 * share, largest->first);
}

// Joins the fields with two spaces. Where that is too wide, the last field that is not the one at
// `kept` is left out, again and again.
std::string Joined(std::vector<std::string> fields, std::size_t kept, std::size_t columns) {
  while (true) {
    std::string line = fmt::format("{}", fmt::join(fields, "  "));
    if (line.size() <= columns || fields.size() < 3) return line;
    const std::size_t last = fields.size() - 1;
    fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(last == kept ? last - 1 : last));
    if (last == kept) --kept;
  }
}

constexpr double kFileSeconds = 5, kTerminalSeconds = 30;  // between lines of steps that stay
constexpr std::size_t kShownSteps = 10;                    // in their means
constexpr std::size_t kAlarmColumns = 100;

// The console is never silent for ten seconds: the run is asked a while before what it waits for.
constexpr double kAskAfterSeconds = 6, kTellAfterSeconds = 9;

}  // namespace

std::string WaitingFor(const RunView& view, std::int64_t prompts, bool launches_vllm) {
  const v1::GetRunStatusResponse& run = view.run;
  const std::uint64_t next = run.step() + 1;
  if (!view.answered) return "the coordinator, which does not answer";
  if (!run.paused().empty()) return run.paused();
  if (run.learner_epoch() == 0) return "the learner to load the model and register";
  if (run.step() == run.total_steps()) return "the learner to write the last checkpoint and model";
  if (CountOf(run, "batched") > 0) return fmt::format("the learner, which trains step {}", next);
  if (run.workers().empty()) {
    return launches_vllm ? "a vLLM server to load the model; logs/vllm-*.log say how far it is"
                         : "a rollout worker to load the model and register";
  }
  const std::uint64_t leased = CountOf(run, "leased");
  const char* what = view.scoring  ? "with run.reward.verifier"
                     : leased == 0 ? "leased; workers wait for weights or places"
                                   : "sampled or scored";
  return fmt::format("groups of step {}: {} of {} are ready, {} are {}", next,
                     CountOf(run, "ready"), prompts, leased == 0 ? CountOf(run, "pending") : leased,
                     leased == 0 ? "not " + std::string(what) : what);
}

LogNotices::LogNotices(std::string folder) : folder_(std::move(folder)) {
  for (const fs::path& log : LogsOf(folder_)) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(log, error);
    if (!error) read_bytes_[log.string()] = bytes;
  }
}

std::vector<std::string> LogNotices::Poll() {
  std::vector<std::string> notices;
  for (const fs::path& log : LogsOf(folder_)) Read(log.string(), log.stem().string(), notices);
  return notices;
}

void LogNotices::Read(const std::string& path, const std::string& role,
                      std::vector<std::string>& notices) {
  std::uint64_t& begin = read_bytes_[path];
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(begin));
  std::string text(kLongestBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  text.resize(text.rfind('\n') + 1);  // an unfinished line waits; npos + 1 is 0
  begin += text.size();
  int room = 0;  // lines that may still belong to the last notice
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    if (line.starts_with("-----")) room = 0;  // mpirun's banner belongs to nobody
    if (!IsLogLine(line)) {
      if (--room >= 0) notices.back().append("\n    ").append(line);
      continue;
    }
    room = 0;
    if (line[25] != 'W' && line[25] != 'E') continue;
    const std::string_view message = MessageOf(line);
    if (IsSaidElsewhere(message) || !known_.insert(KindOf(role, message)).second) continue;
    notices.push_back(role + ": " + std::string(message));
    room = kLinesOfNotice;
  }
}

std::string StepLine(const StepMeasurements& step, std::int64_t total_steps, double seconds_left,
                     std::size_t columns) {
  std::vector<std::string> fields = {
      fmt::format("step {:.0f}/{} {:3.0f}%", step.step, total_steps,
                  100.0 * step.step / static_cast<double>(total_steps)),
      "raw reward " + Text("{:.3f}", step.raw_reward_mean),
      "accuracy " + Text("{:.2f}", step.accuracy), "acr " + Text("{:.2f}", step.acr),
      "entropy " + Text("{:.3g}", step.entropy)};
  const std::size_t left = fields.size();
  fields.push_back("left " + LeftText(seconds_left));
  if (step.unscorable > 0)
    fields.push_back(fmt::format("unscorable {:.0f}%", 100 * step.unscorable / step.completions));
  fields.push_back(Text("{:.0f}", step.tokens_per_second) + " tok/s");
  return Joined(std::move(fields), left, columns);
}

std::string StepDetails(const StepMeasurements& step) {
  std::string text =
      fmt::format("  all-correct {} all-wrong {} other {}", Text("{:.2f}", step.acr_all_correct),
                  Text("{:.2f}", step.acr_all_wrong), Text("{:.2f}", step.acr_other));
  if (step.groups_replaced > 0 || step.groups_masked > 0) {
    text += fmt::format("  drawn {:.0f} ({:.0f} replaced, {:.0f} masked)", step.groups,
                        step.groups_replaced, step.groups_masked);
    if (step.drawn_per_kept > 1) text += fmt::format("  tokens x{:.2f}", step.drawn_per_kept);
  }
  return text + fmt::format("  kl {}  fresh {}/s  age {}{}", Text("{:.1e}", step.kl),
                            Text("{:.0f}", step.speed_fresh), Text("{:.1f}", step.token_age_mean),
                            WaitText(step));
}

StepMeasurements MeanOfNewest(const std::vector<StepMeasurements>& steps) {
  StepMeasurements mean = steps.back();
  const std::size_t count = std::min(kShownSteps, steps.size());
  constexpr double StepMeasurements::*kFields[] = {&StepMeasurements::raw_reward_mean,
                                                   &StepMeasurements::accuracy,
                                                   &StepMeasurements::acr,
                                                   &StepMeasurements::entropy,
                                                   &StepMeasurements::tokens_per_second,
                                                   &StepMeasurements::unscorable,
                                                   &StepMeasurements::completions};
  for (const auto field : kFields) {
    double sum = 0, measured = 0;
    for (auto step = steps.end() - static_cast<std::ptrdiff_t>(count); step != steps.end();
         ++step) {
      if (!std::isfinite((*step).*field)) continue;
      sum += (*step).*field;
      ++measured;
    }
    mean.*field = StepMeasurements::Ratio(sum, measured);
  }
  return mean;
}

double SecondsLeft(const std::vector<StepMeasurements>& steps, std::int64_t total_steps) {
  if (steps.size() < 2) return -1;
  const StepMeasurements& last = steps.back();
  const StepMeasurements& first = steps[steps.size() - std::min(kPaceSteps, steps.size())];
  if (last.step <= first.step) return -1;
  const double pace = (last.time_unix - first.time_unix) / (last.step - first.step);
  return pace * (static_cast<double>(total_steps) - last.step);
}

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

void Console::Print(const std::string& line, Terminal::Tone tone) {
  terminal_.Print(line, tone);
  said_seconds_ = MonotonicSeconds();
}

double Console::SilentSeconds() const { return MonotonicSeconds() - said_seconds_; }

void Console::SayWaiting(const std::string& what) {
  if (SilentSeconds() <= kTellAfterSeconds) return;
  if (has_open_step_) {
    KeepStep();
    if (!terminal_.live()) return;
  }
  const std::string line =
      fmt::format("launch: {:.0f} s after {}: waits for {}", MonotonicSeconds() - step_seconds_,
                  took_steps() ? fmt::format("step {}", step_) : "the start", what);
  if (!terminal_.live()) return Say(line);
  terminal_.Show(line);
  said_seconds_ = MonotonicSeconds();
}

Status Console::Follow(std::int64_t from) {
  notices_ = std::make_unique<LogNotices>(JoinPath(out_, "logs"));
  BUTTRESS_ASSIGN_OR_RETURN(credentials_,
                            LoadCredentials(config_.local.security, Program::kStatus));
  std::remove(PageLinkPath(out_).c_str());
  ReadNewEvals().status().IgnoreError();
  // The learner cuts off the steps behind its checkpoint, so what is read here is passed over.
  BUTTRESS_RETURN_IF_ERROR(steps_tail_.Next().status());
  from_ = step_ = from;
  if (from > 0) {
    const std::int64_t total = StepsOfRun(out_, config_.run);
    Say(from < total ? fmt::format("launch: continues at step {} of {} from the checkpoint of step "
                                   "{}",
                                   from + 1, total, from)
                     : fmt::format("launch: all {} steps are trained; the results are not written "
                                   "yet",
                                   total));
  }
  step_seconds_ = said_seconds_ = MonotonicSeconds();
  return OkStatus();
}

void Console::ShowNotices() {
  for (const std::string& notice : notices_->Poll()) Warn(notice);
}

void Console::ShowPageLink() {
  if (page_told_) return;
  const Result<std::string> link = ReadFile(PageLinkPath(out_));
  if (!link.ok()) return;
  page_told_ = true;
  Say("launch: page of the run, for one browser (`buttress status` has the next link): " +
      link->substr(0, link->find('\n')));
}

// Returns false for a step that was trained before this launch, or that a learner which was started
// again repeats.
bool Console::AddStep(const StepMeasurements& step) {
  const auto number = static_cast<std::int64_t>(step.step);
  if (number <= from_) return false;
  while (!last_steps_.empty() && last_steps_.back().step >= step.step) last_steps_.pop_back();
  last_steps_.push_back(step);
  if (last_steps_.size() > kPaceSteps) last_steps_.erase(last_steps_.begin());
  if (number <= step_) return false;
  step_ = number;
  step_seconds_ = MonotonicSeconds();
  return has_open_step_ = true;
}

Status Console::ShowSteps() {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps, steps_tail_.Next());
  if (!steps.empty() && total_steps_ == 0) total_steps_ = StepsOfRun(out_, config_.run);
  for (const StepMeasurements& step : steps) {
    if (!AddStep(step)) continue;
    if (verbose_) KeepStep();
    ShowAlarms(step);
  }
  if (!has_open_step_) return OkStatus();
  const double seconds = terminal_.live() ? kTerminalSeconds : kFileSeconds;
  if (step_ == total_steps_ || MonotonicSeconds() - kept_seconds_ >= seconds) {
    KeepStep();
  } else if (!steps.empty()) {
    terminal_.Show(StepLine(MeanOfNewest(last_steps_), total_steps_,
                            SecondsLeft(last_steps_, total_steps_), terminal_.columns()),
                   Terminal::Tone::kStep);
    if (terminal_.live()) said_seconds_ = MonotonicSeconds();
  }
  return OkStatus();
}

// Prints the newest step as a line that stays.
void Console::KeepStep() {
  const double left = SecondsLeft(last_steps_, total_steps_);
  terminal_.Clear();
  Print(verbose_
            ? StepLine(last_steps_.back(), total_steps_, left) + StepDetails(last_steps_.back())
            : StepLine(MeanOfNewest(last_steps_), total_steps_, left, terminal_.columns()),
        Terminal::Tone::kStep);
  kept_seconds_ = MonotonicSeconds();
  has_open_step_ = false;
}

Status Console::ShowLastStep() {
  BUTTRESS_RETURN_IF_ERROR(ShowSteps());
  if (has_open_step_) KeepStep();
  return OkStatus();
}

// An alarm that begins again was explained before.
void Console::ShowAlarms(const StepMeasurements& step) {
  for (const Alarm alarm : step.alarms) {
    if (std::exchange(alarm_told_[static_cast<std::size_t>(alarm)], true)) continue;
    const AlarmWords words = WordsOf(alarm);
    constexpr std::string_view kIndent = "    ";
    std::string text = Wrapped(fmt::format("alarm {}, from step {:.0f} on: {} {}", AlarmName(alarm),
                                           step.step, words.meaning, words.advice),
                               kIndent, std::min(kAlarmColumns, terminal_.columns()));
    text.pop_back();  // the last line feed
    Warn(text.substr(kIndent.size()));
  }
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

// Asks on a thread of its own, unless a question is open.
void Console::AskRun() {
  if (asked_.valid()) return;
  CoordinatorClientOptions options = CoordinatorClientOptionsFrom(config_.local, credentials_);
  options.give_up_after_ms = 1;  // one attempt
  asked_ = std::async(std::launch::async, [options] { return Look(options); });
}

// A coordinator that has not answered the last question yet is what the run waits for.
void Console::ShowWaiting() {
  if (SilentSeconds() > kAskAfterSeconds) AskRun();
  if (SilentSeconds() <= kTellAfterSeconds) return;
  RunView view;
  if (asked_.valid() && asked_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    view = asked_.get();
  SayWaiting(WaitingFor(view, config_.run.batch.prompts, config_.local.worker.vllm.launch.on()));
}

}  // namespace buttress
