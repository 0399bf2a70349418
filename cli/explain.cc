// `buttress explain PATH`: why groups gave no signal, in our own runs and in those of other
// trainers.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/explain/report.h"
#include "cli/explain/step_source.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"

namespace buttress {
namespace {

struct ExplainFlags {
  std::string path;
  std::string html;
  StepSourceOptions source;
  CauseRules rules;
  bool json = false;
};

// On a terminal one line that changes, else a line a minute.
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

Result<Report> ReadAll(StepSource& source, const ExplainFlags& flags) {
  std::function<void(const CollapsedGroup&)> on_collapsed;
  if (flags.json)
    on_collapsed = [](const CollapsedGroup& group) {
      std::fputs(CollapsedGroupJson(group).c_str(), stdout);
    };
  PostMortem post_mortem(flags.rules, on_collapsed);
  Progress progress;
  while (true) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupFacts> groups, source.Next());
    if (groups.empty()) return post_mortem.Finish();
    BUTTRESS_RETURN_IF_ERROR(post_mortem.Add(groups));
    progress.Show(source.progress(), groups[0].step);
  }
}

// Where the page with plots goes; empty: nowhere. A run has a folder of its own, a dump lies in
// another program's.
std::string PagePath(const ExplainFlags& flags) {
  if (flags.html == "none") return "";
  if (!flags.html.empty() || flags.json) return flags.html;
  const std::string run = RunFolderOf(flags.path);
  return run.empty() ? "" : JoinPath(run, "explain.html");
}

Status Run(const ExplainFlags& flags) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<StepSource> source,
                            OpenSteps(flags.path, flags.source));
  BUTTRESS_ASSIGN_OR_RETURN(const Report report, ReadAll(*source, flags));
  if (report.all.groups == 0)
    return InvalidArgument(flags.path + ": no group with a reward in it yet");
  const ReportHead head = {flags.path, source->description(), source->remarks()};
  std::fputs((flags.json ? ReportJson(head, report) : ReportText(head, report)).c_str(), stdout);
  const std::string page = PagePath(flags);
  if (page.empty()) return OkStatus();
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(page, ReportHtml(head, report)));
  std::fprintf(flags.json ? stderr : stdout, "\npage with plots: %s\n", page.c_str());
  return OkStatus();
}

}  // namespace

std::function<Status()> AddExplain(CLI::App& app) {
  const auto flags = std::make_shared<ExplainFlags>();
  app.add_option("path", flags->path,
                 "run folder or ledger.db; folder or file of JSONL: verl's rollout_data_dir, TRL's "
                 "completions, or rows with prompt, completion, reward")
      ->required();
  app.add_option(
      "--html", flags->html,
      "page with plots; 'none' for no page [explain.html in a run folder; none of a dump, "
      "or with --json]");
  app.add_flag("--json", flags->json,
               "one object for each group without a signal, then {\"summary\": ...}");
  app.add_option("--reward", flags->source.rewards,
                 "TRL: a column of the reward (may stand several times) [all with numbers]");
  app.add_option("--max-tokens", flags->source.max_tokens,
                 "the token limit of the run: completions of that length were cut");
  app.add_option("--stale-after", flags->rules.stale_steps,
                 "steps behind which weights count as stale")
      ->capture_default_str();
  app.add_flag("--skip-bad", flags->source.skip_bad,
               "leave bad rows out instead of ending with a list of them");
  return [flags] { return Run(*flags); };
}

}  // namespace buttress
