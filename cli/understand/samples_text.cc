#include "cli/understand/samples_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text/unicode.h"

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

std::string HeadOf(const SampledGroup& group, std::size_t i) {
  const v1::GroupHead& columns = *group.head;
  const Sample& sample = group.samples[i];
  const double raw = RawRewardsOf(columns)[i], reward = RewardsOf(columns)[i];
  std::string head =
      fmt::format("  {}  {}  reward {:.3f}", i, OutcomeName(OutcomeOf(columns, i)), reward);
  if (raw != reward) head += fmt::format(" (raw {:.3f})", raw);
  head += fmt::format("  {} tokens", columns.lengths(static_cast<int>(i)));
  if (IsTruncated(columns, i)) head += "  truncated";
  if (!sample.answer.empty()) head += "  answer " + Printable(sample.answer);
  if (!sample.unscorable.empty()) head += "  (" + Printable(sample.unscorable) + ")";
  return head;
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
  const auto correct = std::ranges::count(group.head->outcomes(), v1::OUTCOME_CORRECT);
  std::string head =
      fmt::format("step {}, group {}: {}, {} of {} correct; prompt {}", group.group.step,
                  group.group.group_id, CollapseClassName(ClassOf(*group.head)), correct,
                  group.samples.size(), Printable(group.group.prompt.prompt_id));
  if (!group.group.prompt.source.empty()) head += " of " + Printable(group.group.prompt.source);
  std::string text = Wrapped(head, "", layout.columns);
  if (!group.why_no_texts.empty()) text += Wrapped(group.why_no_texts, "  ", layout.columns);
  if (group.prompt) text += Wrapped(Printable(*group.prompt), "  > ", layout.columns);
  const std::size_t shown = layout.completions == 0
                                ? group.samples.size()
                                : std::min(layout.completions, group.samples.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Sample& sample = group.samples[i];
    text += Wrapped(HeadOf(group, i), "", layout.columns);
    if (sample.text) text += Wrapped(Printable(*sample.text), "     | ", layout.columns);
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
  if (!group.why_no_texts.empty()) json["why_no_texts"] = group.why_no_texts;
  for (std::size_t i = 0; i < group.samples.size(); ++i) {
    const Sample& sample = group.samples[i];
    const v1::GroupHead& head = *group.head;
    const auto finish = static_cast<FinishReason>(head.finish_reasons(static_cast<int>(i)));
    ordered_json row = {{"outcome", OutcomeName(OutcomeOf(head, i))},
                        {"reward", RewardsOf(head)[i]},
                        {"raw_reward", RawRewardsOf(head)[i]},
                        {"tokens", head.lengths(static_cast<int>(i))},
                        {"finish", FinishName(finish)},
                        {"truncated", IsTruncated(head, i)},
                        {"text", nullptr}};
    if (sample.text) row["text"] = *sample.text;
    if (!sample.answer.empty()) row["answer"] = sample.answer;
    if (!sample.unscorable.empty()) row["unscorable"] = sample.unscorable;
    json["completions"].push_back(std::move(row));
  }
  return json;
}

}  // namespace buttress
