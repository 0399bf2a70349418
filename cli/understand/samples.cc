// `buttress samples RUN`: prints what the policy wrote in the newest steps of a run.
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/run_client.h"
#include "cli/understand/samples_text.h"

namespace buttress {
namespace {

constexpr CollapseClass kClasses[] = {CollapseClass::kMixed, CollapseClass::kAllCorrect,
                                      CollapseClass::kAllWrong, CollapseClass::kOtherConstant,
                                      CollapseClass::kUnscorable};

struct SamplesFlags {
  RunFlags run;
  std::uint64_t step = 0;   // 0: the newest ones
  std::uint64_t last = 1;   // steps
  std::uint64_t group = 0;  // 0: those of the steps
  std::string collapse;     // class; empty: all
  std::string model;
  std::size_t groups = 8;  // shown of a step; 0: all
  SamplesLayout layout;
};

// "all-correct" and "all_correct" are one class.
Result<std::optional<CollapseClass>> ClassFrom(std::string name) {
  std::ranges::replace(name, '-', '_');
  if (name.empty()) return std::optional<CollapseClass>();
  for (const CollapseClass collapse : kClasses) {
    if (CollapseClassName(collapse) == name) return std::optional(collapse);
  }
  return InvalidArgument("--class " + name +
                         ": expected mixed, all-correct, all-wrong, other-constant or unscorable");
}

std::size_t ColumnsOfTerminal() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return SamplesLayout().columns;
}

void Print(const SamplesFlags& flags, const SampledGroup& group) {
  const std::string text =
      flags.run.json ? SamplesJson(group).dump(-1, ' ', false,
                                               nlohmann::ordered_json::error_handler_t::replace)
                     : SamplesText(group, flags.layout);
  std::printf("%s\n", text.c_str());
}

Status PrintGroup(const SamplesFlags& flags, SampleReader& reader) {
  const std::uint64_t ids[] = {flags.group};
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<SampledGroup> groups, reader.Groups(ids));
  if (groups.empty())
    return InvalidArgument(fmt::format("no group {} was accepted in this run", flags.group));
  Print(flags, groups.front());
  return OkStatus();
}

Status PrintStep(const SamplesFlags& flags, SampleReader& reader, std::uint64_t step,
                 std::optional<CollapseClass> collapse) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> ids, reader.ledger().DrawnFor(step));
  const std::size_t most =
      flags.groups == 0 || flags.run.json ? ids.size() : std::min(flags.groups, ids.size());
  std::size_t shown = 0, more = 0;
  // One group at a time, because a step may have thousands and a text may be long.
  for (const std::uint64_t id : ids) {
    if (!collapse && shown == most) {
      more = ids.size() - shown;
      break;
    }
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<SampledGroup> group, reader.Groups({&id, 1}));
    if (group.empty() || (collapse && ClassOf(*group.front().head) != *collapse)) continue;
    if (shown == most) {
      ++more;
      continue;
    }
    Print(flags, group.front());
    ++shown;
  }
  if (flags.run.json) return OkStatus();
  if (more > 0) fmt::print("... {} more groups of step {}; --groups 0 shows all\n", more, step);
  if (shown == 0) fmt::print("step {}: no such groups\n", step);
  return OkStatus();
}

Status PrintSteps(const SamplesFlags& flags, SampleReader& reader,
                  std::optional<CollapseClass> collapse) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<RunRow> run, reader.ledger().Run());
  const std::uint64_t planned = run ? run->planned_step : 0;
  if (planned == 0) return FailedPrecondition("the run has no step with samples yet");
  if (flags.step > planned) {
    return InvalidArgument(
        fmt::format("--step {}: the newest step with samples is {}", flags.step, planned));
  }
  const std::uint64_t to = flags.step == 0 ? planned : flags.step;
  const std::uint64_t steps = flags.step == 0 ? std::min(flags.last, planned) : 1;
  for (std::uint64_t step = to - steps + 1; step <= to; ++step)
    BUTTRESS_RETURN_IF_ERROR(PrintStep(flags, reader, step, collapse));
  return OkStatus();
}

Status PrintSamples(SamplesFlags& flags) {
  flags.layout.columns = ColumnsOfTerminal();
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<CollapseClass> collapse, ClassFrom(flags.collapse));
  BUTTRESS_ASSIGN_OR_RETURN(const LocalSettings local, LocalOf(flags.run));
  const std::unique_ptr<Tokenizer> tokenizer = LoadRunTokenizer(local.out, flags.model);
  BUTTRESS_ASSIGN_OR_RETURN(const auto reader, SampleReader::Open(local.out, tokenizer.get()));
  return flags.group > 0 ? PrintGroup(flags, *reader) : PrintSteps(flags, *reader, collapse);
}

}  // namespace

std::function<Status()> AddSamples(CLI::App& app) {
  const auto flags = std::make_shared<SamplesFlags>();
  flags->run.AddTo(app);
  auto* const step = app.add_option("--step", flags->step, "the groups drawn for this step")
                         ->check(CLI::PositiveNumber);
  app.add_option("--last", flags->last, "those of so many of the newest steps")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->excludes(step);
  app.add_option("--group", flags->group, "this group alone")->excludes(step);
  app.add_option("--class", flags->collapse,
                 "only groups of this class: mixed, all-correct, all-wrong, other-constant or "
                 "unscorable");
  app.add_option("--groups", flags->groups, "groups shown of a step; 0: all")
      ->capture_default_str();
  app.add_option("--completions", flags->layout.completions,
                 "completions shown of a group; 0: all. --json has all of both")
      ->capture_default_str();
  app.add_option("--model", flags->model,
                 "model folder whose tokenizer decodes the tokens [that of the run]");
  return [flags] { return PrintSamples(*flags); };
}

}  // namespace buttress
