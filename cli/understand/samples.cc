// `buttress samples RUN`: prints what the policy wrote in the newest steps of a run.
#include "cli/understand/samples.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/run_client.h"
#include "lib/base/text/unicode.h"
#include "lib/experience/episode_ends.h"
#include "lib/experience/episodes.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLeastColumns = 20;

// Marks that change the direction of what follows, and those that separate lines.
bool IsHidden(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

// Returns the number of bytes of the next line, at most `most` code points of `text`.
std::size_t LineBytes(std::string_view text, std::size_t most) {
  std::size_t at = 0, space = 0;
  for (std::size_t points = 0; at < text.size() && points < most; ++points) {
    if (text[at] == ' ') space = at + 1;
    at += CodePointAt(text, at).length;
  }
  return at < text.size() && space > 0 ? space : at;
}

void AppendWrapped(std::string_view line, std::string_view indent, std::size_t most,
                   std::string& out) {
  do {
    const std::size_t bytes = LineBytes(line, most);
    out += indent;
    out += line.substr(0, bytes);
    out += '\n';
    line.remove_prefix(bytes);
  } while (!line.empty());
}

// "= answer 1.000 + 0.2 * format 0.500", or "" without components.
std::string SumText(const v1::GroupHead& head, std::size_t i) {
  std::string text;
  if (!IsScorable(head, i)) return text;
  for (std::size_t c = 0; c < ComponentsOf(head, i).size(); ++c) {
    const auto at = static_cast<int>(c);
    const double weight = at < head.component_weights_size() ? head.component_weights(at) : 1;
    text += c == 0 ? "= " : " + ";
    if (weight != 1) text += fmt::format("{:g} * ", weight);
    text += fmt::format("{} {:.3f}", Printable(head.component_names(at)), ComponentsOf(head, i)[c]);
  }
  return text;
}

// "turn 1: reward 0.250, asked after 3 ms, answered in 40 ms, calculator, 1 failed".
std::string TurnText(const Sample& sample, std::size_t t) {
  const v1::Turn& turn = sample.turns[t];
  std::string text =
      fmt::format("turn {}: reward {:.3f}, asked after {} ms, answered in {} ms", t + 1,
                  sample.turn_rewards[t], turn.waited_ms(), turn.sampled_ms());
  for (const std::string& tool : turn.tools())
    text += ", " + (tool.empty() ? "unreadable call" : Printable(tool));
  if (turn.failed_tools() > 0) text += fmt::format(", {} failed", turn.failed_tools());
  return text;
}

std::string Named(const SampleMessage& message) { return message.role + ": " + message.content; }

// The conversation behind the prompt: "|" for the policy, ":" for others.
std::string ConversationText(const Sample& sample, std::size_t columns) {
  std::string text;
  for (const SamplePart& part : sample.parts) {
    const bool ours = part.turn >= 0;
    for (const SampleMessage& message : part.messages)
      text += Wrapped(Printable(ours ? message.content : Named(message)),
                      ours ? "     | " : "     : ", columns);
    if (ours) {
      text += Wrapped(TurnText(sample, static_cast<std::size_t>(part.turn)), "       ", columns);
    }
  }
  return text;
}

std::string HeadOf(const SampledGroup& group, std::size_t i) {
  const v1::GroupHead& columns = *group.head;
  const Sample& sample = group.samples[i];
  std::string head = fmt::format("  {}  {}  raw reward {:.3f}", i,
                                 OutcomeName(OutcomeOf(columns, i)), RewardsOf(columns)[i]);
  head += fmt::format("  {} tokens", columns.lengths(static_cast<int>(i)));
  if (IsTruncated(columns, i)) head += "  truncated";
  const auto at = static_cast<int>(i);
  if (!columns.episode_ends().empty())
    head += fmt::format("  end {}", EpisodeEndName(columns.episode_ends(at)));
  if (!IsRoot(columns, i)) head += fmt::format("  branch of {}", columns.parents(at));
  if (!sample.answer.empty()) head += "  answer " + Printable(sample.answer);
  if (!sample.unscorable.empty()) head += "  (" + Printable(sample.unscorable) + ")";
  return head;
}

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
  if (flags.run.json) return PrintJson(SamplesJson(group));
  std::printf("%s\n", SamplesText(group, flags.layout).c_str());
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

std::string Printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = CodePointAt(text, at);
    at += point.length;
    if (point.value != U'\n' && IsHidden(point.value)) {
      out += fmt::format("<U+{:04X}>", static_cast<std::uint32_t>(point.value));
    } else {
      AppendUtf8(point.value, out);
    }
  }
  return out;
}

std::string Wrapped(std::string_view text, std::string_view indent, std::size_t columns) {
  const std::size_t most = std::max(columns, indent.size() + kLeastColumns) - indent.size();
  std::string out;
  while (true) {
    const std::size_t end = text.find('\n');
    AppendWrapped(text.substr(0, end), indent, most, out);
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::string SamplesText(const SampledGroup& group, const SamplesLayout& layout) {
  const auto correct = OwnHistoryOf(*group.head).correct;
  std::string head =
      fmt::format("step {}, group {}: {}, {} of {} correct; prompt {}", group.group.step,
                  group.group.group_id, CollapseClassName(ClassOf(*group.head)), correct,
                  Episodes(*group.head), Printable(group.group.prompt.prompt_id));
  if (!group.group.prompt.source.empty()) head += " of " + Printable(group.group.prompt.source);
  std::string text = Wrapped(head, "", layout.columns);
  if (!group.why_no_texts.empty()) text += Wrapped(group.why_no_texts, "  ", layout.columns);
  for (const SampleMessage& message : group.prompt_messages)
    text += Wrapped(Printable(Named(message)), "  > ", layout.columns);
  if (group.prompt && group.prompt_messages.empty())
    text += Wrapped(Printable(*group.prompt), "  > ", layout.columns);
  const std::size_t shown = layout.completions == 0
                                ? group.samples.size()
                                : std::min(layout.completions, group.samples.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Sample& sample = group.samples[i];
    text += Wrapped(HeadOf(group, i), "", layout.columns);
    const std::string sum = SumText(*group.head, i);
    if (!sum.empty()) text += Wrapped(sum, "     ", layout.columns);
    if (!sample.parts.empty()) {
      text += ConversationText(sample, layout.columns);
    } else if (sample.text) {
      text += Wrapped(Printable(*sample.text), "     | ", layout.columns);
    }
  }
  if (shown < group.samples.size())
    text += fmt::format("  ... {} more; --completions 0 shows all\n", group.samples.size() - shown);
  return text;
}

ordered_json SamplesJson(const SampledGroup& group) {
  ordered_json json = {{"step", group.group.step},
                       {"group", group.group.group_id},
                       {"prompt", group.group.prompt.prompt_id},
                       {"source", group.group.prompt.source},
                       {"worker", group.group.worker_id},
                       {"class", CollapseClassName(ClassOf(*group.head))},
                       {"prompt_tokens", group.head->prompt_tokens()},
                       {"prompt_text", nullptr},
                       {"completions", ordered_json::array()}};
  if (group.prompt) json["prompt_text"] = *group.prompt;
  if (!group.prompt_messages.empty()) json["prompt_messages"] = MessagesJson(group.prompt_messages);
  if (!group.why_no_texts.empty()) json["why_no_texts"] = group.why_no_texts;
  for (std::size_t i = 0; i < group.samples.size(); ++i) {
    const Sample& sample = group.samples[i];
    const v1::GroupHead& head = *group.head;
    const auto finish = static_cast<FinishReason>(head.finish_reasons(static_cast<int>(i)));
    ordered_json row = {{"outcome", OutcomeName(OutcomeOf(head, i))},
                        {"raw_reward", RewardsOf(head)[i]},
                        {"components", ComponentsJson(head, i)},
                        {"tokens", head.lengths(static_cast<int>(i))},
                        {"finish", FinishName(finish)},
                        {"truncated", IsTruncated(head, i)},
                        {"text", nullptr}};
    if (sample.text) row["text"] = *sample.text;
    AddEpisodeJson(group, i, row);
    if (!sample.answer.empty()) row["answer"] = sample.answer;
    if (!sample.unscorable.empty()) row["unscorable"] = sample.unscorable;
    json["completions"].push_back(std::move(row));
  }
  return json;
}

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
