#include "cli/understand/samples_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/unicode.h"

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

bool Truncated(const Sample& sample) { return sample.row.finish_reason == FinishReason::kLength; }

std::string HeadOf(std::size_t index, const Sample& sample) {
  std::string head = fmt::format("  {}  {}  reward {:.3f}", index, OutcomeName(sample.row.outcome),
                                 sample.row.reward);
  if (sample.row.raw_reward != sample.row.reward)
    head += fmt::format(" (raw {:.3f})", sample.row.raw_reward);
  head += fmt::format("  {} tokens", sample.row.total_tokens);
  if (Truncated(sample)) head += "  truncated";
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
  const auto correct = std::ranges::count(group.samples, Outcome::kCorrect,
                                          [](const Sample& s) { return s.row.outcome; });
  std::string head =
      fmt::format("step {}, group {}: {}, {} of {} correct; prompt {}", group.group.step,
                  group.group.group_id, CollapseClassName(group.collapse), correct,
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
    text += Wrapped(HeadOf(i, sample), "", layout.columns);
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
                       {"class", CollapseClassName(group.collapse)},
                       {"prompt_tokens", group.prompt_tokens},
                       {"prompt_text", nullptr},
                       {"completions", ordered_json::array()}};
  if (group.prompt) json["prompt_text"] = *group.prompt;
  if (!group.why_no_texts.empty()) json["why_no_texts"] = group.why_no_texts;
  for (const Sample& sample : group.samples) {
    ordered_json row = {{"outcome", OutcomeName(sample.row.outcome)},
                        {"reward", sample.row.reward},
                        {"raw_reward", sample.row.raw_reward},
                        {"tokens", sample.row.total_tokens},
                        {"finish", FinishName(sample.row.finish_reason)},
                        {"truncated", Truncated(sample)},
                        {"text", nullptr}};
    if (sample.text) row["text"] = *sample.text;
    if (!sample.answer.empty()) row["answer"] = sample.answer;
    if (!sample.unscorable.empty()) row["unscorable"] = sample.unscorable;
    json["completions"].push_back(std::move(row));
  }
  return json;
}

}  // namespace buttress
