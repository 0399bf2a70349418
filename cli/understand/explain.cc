// `buttress explain PATH`: reports why groups gave no signal, for run folders and for dumps of
// other trainers.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/explain/condition.h"
#include "cli/explain/report.h"
#include "cli/explain/report_comparison.h"
#include "cli/explain/step_source.h"
#include "cli/output.h"
#include "cli/python/python_program.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"

namespace buttress {
namespace {

constexpr int kMostSteps = 2'000'000'000;  // and tokens, of an option
constexpr std::string_view kNoGroups = " holds no group with a reward yet";

struct ExplainFlags {
  std::vector<std::string> paths;
  std::string html;
  StepSourceOptions source;
  CauseRules rules;
  std::vector<std::string> fail_if;
  std::int64_t watch = 0;
  bool compare = false;
  bool json = false;

  const std::string& path() const { return paths[0]; }
};

// Shows progress on stderr: one changing line on a terminal, one line per minute elsewhere.
class Progress {
 public:
  void Show(double share, std::int64_t step) {
    const double now = MonotonicSeconds();
    if (now - last_ < (terminal_ ? 0.5 : 60)) return;
    last_ = now;
    shown_ = true;
    std::fprintf(stderr,
                 terminal_ ? "\rexplain: %3.0f %%, step %lld " : "explain: %3.0f %%, step %lld\n",
                 100 * share, static_cast<long long>(step));
  }

  ~Progress() {
    if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  double last_ = MonotonicSeconds();
  bool shown_ = false;
};

Result<ComparedReport> ReadReport(const std::string& path, const ExplainFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<StepSource> source,
                            OpenSteps(path, flags.source));
  std::function<void(const CollapsedGroup&)> on_collapsed;
  if (flags.json && !flags.compare)
    on_collapsed = [](const CollapsedGroup& group) {
      std::fputs(CollapsedGroupJson(group).c_str(), stdout);
    };
  PostMortem post_mortem(flags.rules, on_collapsed);
  Progress progress;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupFacts> groups, source->Next());
    if (groups.empty()) break;
    BUTTRESS_RETURN_IF_ERROR(post_mortem.Add(groups));
    progress.Show(source->progress(), groups[0].step);
  }
  ComparedReport read = {{path, source->description(), source->remarks()},
                         post_mortem.Finish(source->misjudged_sources())};
  if (read.report.all.groups == 0)
    return InvalidArgument(fmt::format("{}{}{}{}", fmt::join(read.head.remarks, "; "),
                                       read.head.remarks.empty() ? "" : "; ", path, kNoGroups));
  return read;
}

// Returns the path of the page with plots, or "" for no page. Only a run folder gets a page by
// default; the folder of a dump belongs to another program.
std::string PagePath(const ExplainFlags& flags) {
  if (flags.html == "none") return "";
  if (!flags.html.empty() || flags.json) return flags.html;
  const std::string run = RunFolderOf(flags.path());
  return run.empty() ? "" : JoinPath(run, "explain.html");
}

// kFailedPrecondition names the first condition that holds (ConditionHolds); the names of all are
// checked before.
Status Check(const std::vector<Condition>& conditions, const nlohmann::ordered_json& summary) {
  Status first;
  for (const Condition& condition : conditions) {
    BUTTRESS_ASSIGN_OR_RETURN(const bool holds, Holds(condition, summary));
    if (holds && first.ok()) first = ConditionHolds(condition.text);
  }
  return first;
}

Status ExplainGroups(const ExplainFlags& flags, const std::vector<Condition>& conditions) {
  BUTTRESS_ASSIGN_OR_RETURN(const ComparedReport read, ReadReport(flags.path(), flags));
  const auto& [head, report] = read;
  std::fputs((flags.json ? ReportJson(head, report) : ReportText(head, report)).c_str(), stdout);
  const std::string page = PagePath(flags);
  if (!page.empty()) {
    BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(page, ReportHtml(head, report)));
    std::fprintf(flags.json ? stderr : stdout, "\npage with plots: %s\n", page.c_str());
  }
  std::fflush(stdout);
  if (conditions.empty()) return OkStatus();
  return Check(conditions, nlohmann::ordered_json::parse(ReportJson(head, report))["summary"]);
}

Status CompareGroups(const ExplainFlags& flags, const std::vector<Condition>& conditions) {
  BUTTRESS_ASSIGN_OR_RETURN(const ComparedReport first, ReadReport(flags.paths[0], flags));
  BUTTRESS_ASSIGN_OR_RETURN(const ComparedReport second, ReadReport(flags.paths[1], flags));
  const nlohmann::ordered_json json = ReportComparisonJson(first, second);
  std::fputs((flags.json ? JsonLine(json) : ReportComparisonText(first, second)).c_str(), stdout);
  std::fflush(stdout);
  return Check(conditions, json);
}

// What holds no groups may be a log of metrics. What holds damaged ones is not taken for one.
Status ExplainOnce(const ExplainFlags& flags, const std::vector<Condition>& conditions) {
  Status groups = ExplainGroups(flags, conditions);
  const bool none = groups.code() == StatusCode::kNotFound || groups.message().ends_with(kNoGroups);
  groups = AsInput(std::move(groups));
  if (!none || !RunFolderOf(flags.path()).empty() || !conditions.empty()) return groups;
  std::vector<std::string> arguments = {flags.path()};
  if (flags.json) arguments.emplace_back("--json");
  const Result<std::string> log = RunPython(kMetricLogProgram, std::move(arguments));
  if (!log.ok())
    return InvalidArgument(
        fmt::format("{}; as a log of metrics: {}", groups.message(), log.status().message()));
  const auto answer = nlohmann::json::parse(*log);
  if (answer.contains("error")) return InvalidArgument(answer["error"].get<std::string>());
  if (!answer.contains("report")) return groups;
  fmt::print("{}", answer["report"].get<std::string>());
  return OkStatus();
}

// Whether a trainer has written nothing to `path` yet.
bool HasNothingYet(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none) || std::filesystem::is_empty(path, none)) return true;
  return std::filesystem::is_directory(path, none) &&
         OpenSteps(path, {}).status().code() == StatusCode::kNotFound;
}

// With --watch, reports again and again until a condition holds or the user interrupts it.
Status Run(const ExplainFlags& flags) {
  std::vector<Condition> conditions;
  for (const std::string& text : flags.fail_if) {
    BUTTRESS_ASSIGN_OR_RETURN(Condition condition, ParseCondition(text));
    conditions.push_back(std::move(condition));
  }
  if (flags.paths.size() != (flags.compare ? 2U : 1U))
    return InvalidArgument(
        fmt::format("{} paths; expected one, or two after --compare", flags.paths.size()));
  if (flags.compare && (flags.watch > 0 || !flags.html.empty()))
    return InvalidArgument("--compare has no page and is made once: leave --html and --watch out");
  if (flags.compare) return AsInput(CompareGroups(flags, conditions));
  if (flags.watch == 0) return ExplainOnce(flags, conditions);
  InstallShutdownHandlers();
  while (true) {
    if (isatty(STDOUT_FILENO) != 0) std::fputs("\033[H\033[2J", stdout);
    const Status status = ExplainOnce(flags, conditions);
    if (ShutdownRequested()) return Cancelled("interrupted");
    if (!status.ok() && !status.message().ends_with(kNoGroups) && !HasNothingYet(flags.path()))
      return status;
    if (!status.ok())
      fmt::print(stderr, "explain: {}; looking again in {} s\n", status.message(), flags.watch);
    if (WaitForShutdown(std::chrono::seconds(flags.watch))) return Cancelled("interrupted");
  }
}

}  // namespace

std::function<Status()> AddExplain(CLI::App& app) {
  const auto flags = std::make_shared<ExplainFlags>();
  app.add_option("path", flags->paths,
                 "run folder, ledger.db, or folder or file of JSONL, Parquet, Arrow or CSV: "
                 "verl's rollout_data_dir, TRL's completions, or rows with prompt, completion and "
                 "reward; or a trainer's log of metrics, such as trainer_state.json")
      ->required();
  app.add_option(
      "--html", flags->html,
      "path of the page with plots, or 'none' [explain.html in a run folder; none for a dump or "
      "with --json]");
  app.add_flag("--compare", flags->compare,
               "two paths instead of one: print their numbers next to each other, with the "
               "difference and its interval (`buttress compare` also compares settings of runs)");
  app.add_flag("--json", flags->json,
               "print one object per group without a signal, then {\"summary\": ...}");
  app.add_option(
      "--reward", flags->source.rewards,
      "column that says what is right; may be repeated: the first that a row has decides, and "
      "of TRL the reward is their sum [the one column with two values, else none]");
  app.add_option("--max-tokens", flags->source.max_tokens,
                 "token limit of the run: completions of that length count as truncated")
      ->check(CLI::Range(1, kMostSteps));
  app.add_option("--stale-after", flags->rules.stale_steps,
                 "age in steps above which weights count as stale")
      ->check(CLI::Range(0, kMostSteps))
      ->capture_default_str();
  app.add_option("--history-steps", flags->rules.history_steps,
                 "age in steps above which an earlier visit of a prompt says nothing about it")
      ->check(CLI::Range(0, kMostSteps))
      ->capture_default_str();
  app.add_option("--fail-if", flags->fail_if,
                 "end with status 1 if a number of the summary (--json) is so: 'acr > 0.6', "
                 "'causes.never right >= 10'; may be repeated");
  app.add_option("--watch", flags->watch,
                 "report again after so many seconds, until a --fail-if holds or Ctrl-C")
      ->check(CLI::Range(1, 86400));
  app.add_flag("--skip-bad", flags->source.skip_bad,
               "leave bad rows out instead of stopping with a list of them");
  return [flags] {
    flags->source.growing = flags->watch > 0;
    return Run(*flags);
  };
}

}  // namespace buttress
