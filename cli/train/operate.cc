// The commands that call the coordinator of a run. `buttress status RUN` prints its progress; where
// no coordinator answers, that of the ledger and the steps file. `cordon`, `drain` and `uncordon
// RUN WORKER...` give standing orders to rollout workers. `max-age RUN STEPS` changes how old
// groups may be when they are trained. `stop RUN` asks the learner for a checkpoint and ends the
// run after it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/run_client.h"
#include "cli/train/console.h"
#include "cli/train/late_groups.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/experience/types.h"
#include "lib/ledger/reader.h"
#include "lib/ledger/token_account.h"
#include "lib/measure/steps_file.h"
#include "lib/rpc/run_state.h"

namespace buttress {
namespace {

constexpr std::int64_t kGiveUpMs = 5000;

// "none", "cordon", "drain".
const char* OrderText(v1::WorkerOrder order) {
  switch (order) {
    case v1::WORKER_ORDER_NONE:
      return "none";
    case v1::WORKER_ORDER_CORDON:
      return "cordon";
    case v1::WORKER_ORDER_DRAIN:
      return "drain";
    default:
      return "unknown";
  }
}

std::string WorkerLine(const v1::WorkerStatus& worker) {
  std::string line = fmt::format("worker {}: ", worker.worker_id());
  if (worker.registered()) {
    line +=
        fmt::format("{} leases, version {}:{}, last contact {:.1f} s ago, metrics at {}",
                    worker.leases(), worker.loaded_version().learner_epoch(),
                    worker.loaded_version().step(), static_cast<double>(worker.silent_ms()) / 1000,
                    worker.metrics_address().empty() ? "-" : worker.metrics_address());
  } else {
    line += "not registered";
  }
  if (worker.order() == v1::WORKER_ORDER_NONE) return line;
  const std::string& reason = worker.order_reason();
  return line + "; order " + OrderText(worker.order()) + (reason.empty() ? "" : ": " + reason);
}

CollapseCounts CountsOf(const v1::CollapseCounts& counts) {
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  return {number(counts.groups()),    number(counts.all_correct()),
          number(counts.all_wrong()), number(counts.other_constant()),
          number(counts.mixed()),     number(counts.unscorable())};
}

// "ACR 0.2500 = 1 of 4 groups (all-correct 1, all-wrong 0, other 0); unscorable 0".
std::string CollapseText(const CollapseCounts& c) {
  return fmt::format(
      "ACR {} = {} of {} groups (all-correct {}, all-wrong {}, other {}); unscorable {}",
      AcrText(c, 4), c.constant(), c.constant() + c.mixed, c.all_correct, c.all_wrong,
      c.other_constant, c.unscorable);
}

std::map<std::string, CollapseCounts> BySource(const v1::GetRunStatusResponse& run) {
  std::map<std::string, CollapseCounts> sources;
  for (const auto& [source, counts] : run.collapse_by_source()) sources[source] = CountsOf(counts);
  return sources;
}

SkippedPrompts SkippedPromptsOf(const v1::GetRunStatusResponse& run) {
  SkippedPrompts skipped;
  for (const auto& [source, counts] : run.skipped_by_source()) {
    for (const auto& [reason, prompts] : counts.reasons()) {
      if (prompts > 0) skipped[source][reason] = prompts;
    }
  }
  return skipped;
}

TokenAccount AccountFrom(const v1::GetRunStatusResponse& run) {
  const v1::TokenAccount& tokens = run.tokens();
  const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
  return {number(tokens.generated()), number(tokens.trained()), number(tokens.masked()),
          number(tokens.stale()),     number(tokens.cut()),     number(tokens.parked())};
}

// "tokens: 1000 generated = 800 trained + 50 masked + 60 stale + 30 cut + 60 parked", with its line
// feed.
std::string TokensText(const TokenAccount& tokens) {
  return fmt::format(
      "tokens: {} generated = {} trained + {} masked + {} stale + {} cut + {} parked\n",
      tokens.generated, tokens.trained, tokens.masked, tokens.stale, tokens.cut, tokens.parked);
}

nlohmann::ordered_json TokensJson(const TokenAccount& tokens) {
  return {{"generated", tokens.generated}, {"trained", tokens.trained}, {"masked", tokens.masked},
          {"stale", tokens.stale},         {"cut", tokens.cut},         {"parked", tokens.parked}};
}

// "controls of math: 2 of 12 failed, ALARM; last: the answer \boxed{7} is judged wrong", with its
// line feed.
std::string ControlText(const v1::ControlTally& tally) {
  const std::string name = tally.source().empty() ? "controls" : "controls of " + tally.source();
  if (tally.controls() == 0) return name + ": no control possible\n";
  std::string text = fmt::format("{}: {} of {} failed{}", name, tally.failed(), tally.controls(),
                                 tally.alarm() ? ", ALARM" : "");
  if (tally.has_newest_failure()) {
    const v1::ControlVerdict& failure = tally.newest_failure();
    const std::string& reason = failure.reason();
    text += fmt::format("; last: {} answer {} is judged {}{}", failure.gold() ? "the" : "a spoiled",
                        failure.response(), OutcomeName(static_cast<Outcome>(failure.outcome())),
                        reason.empty() ? "" : " (" + reason + ")");
  }
  return text + "\n";
}

nlohmann::ordered_json ControlsJson(const v1::GetRunStatusResponse& run) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const v1::ControlTally& tally : run.controls()) {
    json[tally.source()] = {{"controls", tally.controls()},
                            {"failed", tally.failed()},
                            {"statistic", tally.statistic()},
                            {"alarm", tally.alarm()}};
  }
  return json;
}

// The link of the run's page; empty where this machine cannot read it.
std::string PageLink(const LocalSettings& local) {
  const Result<std::string> link = ReadFile(PageLinkPath(local.out));
  return link.ok() ? link->substr(0, link->find('\n')) : "";
}

// The newest steps of a run as far as this machine has them: those of the learner, or those that
// the coordinator received.
class NewestSteps {
 public:
  explicit NewestSteps(const std::string& out) {
    for (const std::string& path : {JoinPath(out, "steps.jsonl"), ReceivedStepsPath(out)}) {
      auto steps = ReadNewestSteps(path, kPaceSteps);
      if (steps.ok() && !steps->empty()) {
        steps_ = *std::move(steps);
        return;
      }
    }
  }

  // The line of `buttress launch`, with its line feed; empty without steps or a known total.
  std::string Text(std::int64_t total_steps) const {
    if (steps_.empty() || total_steps <= 0) return "";
    return StepLine(MeanOfNewest(steps_), total_steps, SecondsLeft(steps_, total_steps)) + "\n";
  }

  // The same numbers; null without steps.
  nlohmann::ordered_json Json(std::int64_t total_steps) const {
    if (steps_.empty()) return nullptr;
    const StepMeasurements mean = MeanOfNewest(steps_);
    const double left = SecondsLeft(steps_, total_steps);
    return {{"step", mean.step},
            {"raw_reward_mean", mean.raw_reward_mean},
            {"accuracy", mean.accuracy},
            {"acr", mean.acr},
            {"entropy", mean.entropy},
            {"tokens_per_second", mean.tokens_per_second},
            {"seconds_left", left < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(left)}};
  }

 private:
  std::vector<StepMeasurements> steps_;
};

void PrintText(const v1::GetRunStatusResponse& run, const NewestSteps& steps,
               const std::optional<LateGroups>& late, const std::string& page) {
  fmt::print("{}: {}, step {} of {}, checkpoint of step {}, version {}:{}\n", run.run_name(),
             RunStateText(run), run.step(), run.total_steps(), run.checkpoint_step(),
             run.version().learner_epoch(), run.version().step());
  fmt::print("{}", steps.Text(static_cast<std::int64_t>(run.total_steps())));
  if (!run.paused().empty()) fmt::print("{}\n", run.paused());
  if (!run.standby().empty()) fmt::print("{}\n", run.standby());
  if (!run.end_reason().empty()) fmt::print("the learner ended it: {}\n", run.end_reason());
  fmt::print("groups: {}; dropped: {}\n", CountsText(run.groups()), CountsText(run.dropped()));
  fmt::print("{}\n", CollapseText(CountsOf(run.collapse())));
  if (run.collapse_by_source_size() > 1) {
    for (const auto& [source, counts] : BySource(run))
      fmt::print("  source {}: {}\n", source, CollapseText(counts));
  }
  fmt::print("{}", TokensText(AccountFrom(run)));
  fmt::print("age of groups: at most {} steps\n", run.max_age());
  if (run.kept_tokens() + run.continued_tokens() > 0) {
    fmt::print("unfinished completions: {} tokens kept, {} continued by another lease\n",
               run.kept_tokens(), run.continued_tokens());
  }
  if (run.planned_length() > 0) {
    fmt::print(
        "tokens a completion: {:.1f} of those drawn for the newest plans, {:.1f} of those "
        "in them\n",
        run.drawn_length(), run.planned_length());
  }
  if (late) fmt::print("{}", late->Text());
  fmt::print("{}", SkippedText(SkippedPromptsOf(run)));
  for (const v1::ControlTally& tally : run.controls()) fmt::print("{}", ControlText(tally));
  for (const v1::WorkerStatus& worker : run.workers()) fmt::print("{}\n", WorkerLine(worker));
  fmt::print("starts: coordinator {}, learner {}\n", run.coordinator_epoch(), run.learner_epoch());
  if (!page.empty()) fmt::print("page, a link for one browser: {}\n", page);
}

nlohmann::ordered_json JsonOf(const v1::WorkerStatus& worker) {
  return {{"worker", worker.worker_id()},
          {"registered", worker.registered()},
          {"leases", worker.leases()},
          {"learner_epoch", worker.loaded_version().learner_epoch()},
          {"step", worker.loaded_version().step()},
          {"silent_seconds", static_cast<double>(worker.silent_ms()) / 1000},
          {"metrics", worker.metrics_address()},
          {"order", OrderText(worker.order())},
          {"reason", worker.order_reason()}};
}

nlohmann::ordered_json ClassesJson(const CollapseCounts& counts) {
  nlohmann::ordered_json json = CountsJson(counts);
  json.erase("acr");
  return json;
}

nlohmann::ordered_json SourcesJson(const v1::GetRunStatusResponse& run) {
  nlohmann::ordered_json sources = nlohmann::ordered_json::object();
  for (const auto& [source, counts] : BySource(run)) {
    sources[source] = ClassesJson(counts);
    sources[source]["acr"] = AcrJson(counts);
  }
  return sources;
}

void PrintRunJson(const v1::GetRunStatusResponse& run, const NewestSteps& steps,
                  const std::optional<LateGroups>& late, const std::string& page) {
  const std::map<std::string, std::uint64_t> groups(run.groups().begin(), run.groups().end());
  const std::map<std::string, std::uint64_t> dropped(run.dropped().begin(), run.dropped().end());
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (const v1::WorkerStatus& worker : run.workers()) workers.push_back(JsonOf(worker));
  nlohmann::ordered_json row = {
      {"run", run.run_name()},
      {"run_id", run.run_id()},
      {"state", RunStateText(run)},
      {"paused", run.paused()},
      {"standby", run.standby()},
      {"end_reason", run.end_reason()},
      {"step", run.step()},
      {"steps", run.total_steps()},
      {"checkpoint_step", run.checkpoint_step()},
      {"newest_steps", steps.Json(static_cast<std::int64_t>(run.total_steps()))},
      {"version",
       {{"learner_epoch", run.version().learner_epoch()}, {"step", run.version().step()}}},
      {"groups", groups},
      {"dropped", dropped},
      {"acr", AcrJson(CountsOf(run.collapse()))},
      {"collapse", ClassesJson(CountsOf(run.collapse()))},
      {"tokens", TokensJson(AccountFrom(run))},
      {"drawn_length", run.drawn_length()},
      {"planned_length", run.planned_length()},
      {"late_groups", late ? late->Json() : nlohmann::ordered_json()},
      {"max_age", run.max_age()},
      {"kept_tokens", run.kept_tokens()},
      {"continued_tokens", run.continued_tokens()},
      {"sources", SourcesJson(run)},
      {"skipped", SkippedPromptsOf(run)},
      {"controls", ControlsJson(run)},
      {"workers", workers},
      {"coordinator_epoch", run.coordinator_epoch()},
      {"learner_epoch", run.learner_epoch()},
      {"page", nullptr}};
  if (!page.empty()) row["page"] = page;
  PrintJson(row);
}

// Prints what `ledger` and the steps file hold of a run whose coordinator does not answer.
Status PrintLedger(LedgerReader& ledger, const std::string& out, bool json, const Status& why) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, ledger.Run());
  if (!run) return why;
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<EarlyEndRow> end, ledger.EarlyEnd());
  const Result<RunConfig> config = LoadRunConfig(StoredConfigPath(out), {});
  const std::int64_t total = config.ok() ? StepsOfRun(out, config->run) : 0;
  const NewestSteps steps(out);
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerSnapshot snapshot, ledger.Load());
  const TokenAccount tokens = AccountOf(snapshot);
  BUTTRESS_ASSIGN_OR_RETURN(const LateGroups late, ReadLateGroups(ledger, kPaceSteps));
  const char* state = run->finished ? "finished" : end ? "ended" : "not running";
  if (json) {
    PrintJson({{"run", run->run_name},
               {"run_id", run->run_id},
               {"state", state},
               {"end_reason", end ? end->reason : ""},
               {"step", run->committed_step},
               {"steps", total},
               {"checkpoint_step", run->checkpoint_step},
               {"tokens", TokensJson(tokens)},
               {"late_groups", late.Json()},
               {"newest_steps", steps.Json(total)}});
    return OkStatus();
  }
  fmt::print("{}: {}, step {}{}, checkpoint of step {}\n{}", run->run_name, state,
             run->committed_step, total > 0 ? fmt::format(" of {}", total) : "",
             run->checkpoint_step, steps.Text(total));
  if (end) fmt::print("the learner ended it: {}\n", end->reason);
  fmt::print("{}{}", TokensText(tokens), late.Text());
  if (!run->finished) fmt::print("no coordinator is up; `buttress launch` continues the run\n");
  return OkStatus();
}

Status PrintStatus(const RunFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const LocalSettings local, LocalOf(flags));
  const auto ledger = LedgerReader::Open(JoinPath(local.out, "ledger.db"), ReaderView::kEachCall);
  // With the ledger at hand, an answer at once is better than one after a restart.
  BUTTRESS_ASSIGN_OR_RETURN(const auto client,
                            ConnectToRun(flags, Program::kStatus, ledger.ok() ? 0 : kGiveUpMs));
  const Result<v1::GetRunStatusResponse> run = client->GetRunStatus();
  if (run.status().code() == StatusCode::kUnavailable && ledger.ok())
    return PrintLedger(**ledger, local.out, flags.json, run.status());
  if (!run.ok()) return run.status();
  const std::string page = PageLink(local);
  const NewestSteps steps(local.out);
  std::optional<LateGroups> late;  // unknown where the ledger cannot be read, as on another machine
  if (ledger.ok()) {
    if (const auto read = ReadLateGroups(**ledger, kPaceSteps); read.ok()) late = *read;
  }
  flags.json ? PrintRunJson(*run, steps, late, page) : PrintText(*run, steps, late, page);
  return OkStatus();
}

constexpr std::int64_t kOrderGiveUpMs = 15000;

struct OrderOptions {
  RunFlags flags;
  std::vector<std::string> workers;
  std::string reason;
};

void Print(const v1::WorkerStatus& worker, bool json) {
  if (json) {
    return PrintJson({{"worker", worker.worker_id()},
                      {"order", OrderText(worker.order())},
                      {"reason", worker.order_reason()},
                      {"leases", worker.leases()},
                      {"registered", worker.registered()}});
  }
  const std::string reason =
      worker.order_reason().empty() ? "" : " (" + worker.order_reason() + ")";
  fmt::print("worker {}: order {}{}, {} leases{}\n", worker.worker_id(), OrderText(worker.order()),
             reason, worker.leases(), worker.registered() ? "" : ", not registered");
}

Status GiveOrders(const OrderOptions& options, v1::WorkerOrder order) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto client,
                            ConnectToRun(options.flags, Program::kOperating, kOrderGiveUpMs));
  for (const std::string& worker : options.workers) {
    v1::OrderWorkerRequest request;
    request.set_worker_id(worker);
    request.set_order(order);
    request.set_reason(options.reason);
    BUTTRESS_ASSIGN_OR_RETURN(const v1::OrderWorkerResponse given, client->OrderWorker(request));
    Print(given.worker(), options.flags.json);
  }
  return OkStatus();
}

std::function<Status()> AddOrder(CLI::App& app, v1::WorkerOrder order) {
  const auto options = std::make_shared<OrderOptions>();
  options->flags.AddTo(app);
  app.add_option("workers", options->workers,
                 "ids of the workers, as `buttress status` prints them")
      ->required();
  if (order != v1::WORKER_ORDER_NONE)
    app.add_option("--reason", options->reason, "why; `buttress status` shows it");
  return [options, order] { return GiveOrders(*options, order); };
}

struct MaxAgeOptions {
  RunFlags flags;
  std::optional<std::uint32_t> max_age;
  bool configured = false;
};

Status OrderMaxAge(const MaxAgeOptions& options) {
  if (options.max_age.has_value() == options.configured)
    return InvalidArgument("expected a number of steps, or --configured");
  BUTTRESS_ASSIGN_OR_RETURN(const auto client,
                            ConnectToRun(options.flags, Program::kOperating, kOrderGiveUpMs));
  v1::OrderMaxAgeRequest request;
  if (options.max_age) request.set_max_age(*options.max_age);
  BUTTRESS_ASSIGN_OR_RETURN(const v1::OrderMaxAgeResponse now, client->OrderMaxAge(request));
  if (options.flags.json) {
    PrintJson({{"max_age", now.max_age()}, {"before", now.max_age_before()}});
  } else {
    fmt::print("groups may be {} steps old when they are trained; before: {}\n", now.max_age(),
               now.max_age_before());
  }
  return OkStatus();
}

constexpr std::int64_t kStopGiveUpMs = 15000;
constexpr std::int64_t kPollMs = 1000;

struct StopOptions {
  RunFlags flags;
  double timeout_seconds = 600;
};

void Print(const v1::StopRunResponse& stop, bool json) {
  if (json) {
    return PrintJson({{"state", RunStateText(stop.run_state())},
                      {"step", stop.step()},
                      {"checkpoint_step", stop.checkpoint_step()}});
  }
  fmt::print("the run is {} at step {}; the checkpoint is of step {}\n",
             RunStateText(stop.run_state()), stop.step(), stop.checkpoint_step());
}

// The coordinator forgets the request when it restarts, so the request is repeated until the end.
Status Stop(const StopOptions& options) {
  BUTTRESS_ASSIGN_OR_RETURN(const auto client,
                            ConnectToRun(options.flags, Program::kOperating, kStopGiveUpMs));
  const std::int64_t deadline_ms =
      RealClock().MonotonicMs() + static_cast<std::int64_t>(1000 * options.timeout_seconds);
  v1::StopRunRequest request;
  v1::StopRunResponse stop;
  do {
    const std::int64_t left_ms = deadline_ms - RealClock().MonotonicMs();
    request.set_wait_ms(static_cast<std::uint32_t>(std::clamp<std::int64_t>(left_ms, 1, kPollMs)));
    BUTTRESS_ASSIGN_OR_RETURN(stop, client->StopRun(request));
    if (stop.run_state() != v1::RUN_STATE_STOPPING) {
      Print(stop, options.flags.json);
      return OkStatus();
    }
  } while (RealClock().MonotonicMs() < deadline_ms);
  return DeadlineExceeded(fmt::format(
      "the learner wrote no checkpoint within {:g} s: the last one is of step {}, and step {} is "
      "committed; the stop is still in force, so call it again to wait longer, or look at the "
      "learner's log",
      options.timeout_seconds, stop.checkpoint_step(), stop.step()));
}

}  // namespace

std::function<Status()> AddStatus(CLI::App& app) {
  const auto flags = std::make_shared<RunFlags>();
  flags->AddTo(app);
  return [flags] { return PrintStatus(*flags); };
}

std::function<Status()> AddCordon(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_CORDON); }

std::function<Status()> AddDrain(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_DRAIN); }

std::function<Status()> AddUncordon(CLI::App& app) { return AddOrder(app, v1::WORKER_ORDER_NONE); }

std::function<Status()> AddMaxAge(CLI::App& app) {
  const auto options = std::make_shared<MaxAgeOptions>();
  options->flags.AddTo(app);
  app.add_option("steps", options->max_age,
                 "steps that a group may be old when it is trained, in place of "
                 "run.batch.max_age; restarts of the run keep it");
  app.add_flag("--configured", options->configured, "go back to run.batch.max_age");
  return [options] { return OrderMaxAge(*options); };
}

std::function<Status()> AddStop(CLI::App& app) {
  const auto options = std::make_shared<StopOptions>();
  options->flags.AddTo(app);
  app.add_option("--timeout", options->timeout_seconds, "seconds to wait for the checkpoint")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return [options] { return Stop(*options); };
}

}  // namespace buttress
