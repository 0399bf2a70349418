#include "cli/explain/report_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "lib/explain/conclusion.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

// `part` of `whole` groups.
struct GroupShare {
  std::int64_t part = 0;
  std::int64_t whole = 0;

  double value() const { return Share(part, whole); }

  std::string text() const { return whole == 0 ? "-" : fmt::format("{:.3f}", value()); }
};

// A share of the groups of both reports.
struct ShareRow {
  std::string name;
  GroupShare first, second;

  bool known() const { return first.whole > 0 && second.whole > 0; }

  double difference() const { return second.value() - first.value(); }

  // Newcombe's interval of the difference of two shares (Statistics in Medicine 17, 1998, method
  // 10), 95 %. Groups count as independent.
  ShareInterval interval() const {
    const double a = first.value(), b = second.value();
    const ShareInterval of_a = WilsonInterval(a, static_cast<double>(first.whole));
    const ShareInterval of_b = WilsonInterval(b, static_cast<double>(second.whole));
    return {difference() - std::hypot(b - of_b.low, of_a.high - a),
            difference() + std::hypot(of_b.high - b, a - of_a.low)};
  }
};

// A mean over a tenth of the steps of each report.
struct MeanRow {
  std::string name;
  std::optional<double> first, second;
};

std::vector<ShareRow> SharesOf(const Report& first, const Report& second) {
  const auto acr = [](const Report& r) {
    return GroupShare{r.counts.constant(), r.counts.constant() + r.counts.mixed};
  };
  const auto row = [&](std::string name, std::int64_t a, std::int64_t b) {
    return ShareRow{std::move(name), {a, first.counts.groups}, {b, second.counts.groups}};
  };
  const CollapseCounts &a = first.counts, &b = second.counts;
  std::vector<ShareRow> rows = {{"acr", acr(first), acr(second)}};
  if (first.has_verdicts && second.has_verdicts) {
    rows.push_back(row("all correct", a.all_correct, b.all_correct));
    rows.push_back(row("all wrong", a.all_wrong, b.all_wrong));
  }
  rows.push_back(row("unscorable groups", a.unscorable, b.unscorable));
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (first.all.causes[i] + second.all.causes[i] == 0) continue;
    rows.push_back(row("cause: " + std::string(InfoOf(static_cast<Cause>(i)).name),
                       first.all.causes[i], second.all.causes[i]));
  }
  return rows;
}

// The mean of what `value` gives of the first or the last tenth of the steps.
template <class Value>
std::optional<double> TenthMean(const Report& report, bool last, Value value) {
  const std::size_t steps = report.steps.size(), tenth = (steps + 9) / 10;
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = last ? steps - tenth : 0; i < (last ? steps : tenth); ++i) {
    const std::optional<double> found = value(report.steps[i]);
    if (!found) continue;
    sum += *found;
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

std::vector<MeanRow> MeansOf(const Report& first, const Report& second) {
  std::vector<MeanRow> rows;
  const auto add = [&](const std::string& name, auto value) {
    for (const bool last : {false, true}) {
      rows.push_back({name + (last ? ", last tenth" : ", first tenth"),
                      TenthMean(first, last, value), TenthMean(second, last, value)});
    }
  };
  add("raw reward", [](const StepPoint& p) { return p.raw_reward_mean; });
  add("accuracy", [](const StepPoint& p) { return p.accuracy; });
  // Tokens of one and bytes of the other are no pair.
  if (first.lengths_are_tokens == second.lengths_are_tokens)
    add(first.lengths_are_tokens ? "tokens" : "bytes of text",
        [](const StepPoint& p) { return p.length_mean; });
  add("truncated",
      [](const StepPoint& p) { return std::optional(Share(p.truncated, p.completions)); });
  add("surprisal", [](const StepPoint& p) { return p.surprisal_mean; });
  std::erase_if(rows, [](const MeanRow& row) { return !row.first && !row.second; });
  return rows;
}

std::string DescribeCompared(const char* label, const ComparedReport& compared) {
  const Conclusion conclusion = Conclude(compared.report);
  std::string text =
      fmt::format("{}: {}: {}\n", label, compared.head.path, compared.head.description);
  for (const std::string& remark : compared.head.remarks) text += "  note: " + remark + "\n";
  return text + fmt::format("  conclusion: {}, {}\n", conclusion.name, conclusion.evidence);
}

std::string MeanText(const std::optional<double>& value) {
  return value ? fmt::format("{:.{}f}", *value, std::abs(*value) < 100 ? 3 : 1) : "-";
}

std::string DifferenceText(const ShareRow& row) {
  if (!row.known()) return "-";
  const ShareInterval interval = row.interval();
  const bool chance = interval.low <= 0 && interval.high >= 0;
  return fmt::format("{:+.3f} ({:+.3f} to {:+.3f}){}", row.difference(), interval.low,
                     interval.high, chance ? "" : " *");
}

std::string DifferenceText(const MeanRow& row) {
  return row.first && row.second ? fmt::format("{:+.3f}", *row.second - *row.first) : "-";
}

std::string SizeNote(const Report& first, const Report& second) {
  if (first.remedies.size == second.remedies.size) return "";
  return fmt::format(
      "note: A has groups of {}, B of {}: ACR falls with the size whatever the prompts, so the "
      "rates below differ for that reason as well\n",
      first.remedies.size, second.remedies.size);
}

}  // namespace

std::string ReportComparisonText(const ComparedReport& first, const ComparedReport& second) {
  std::string text = DescribeCompared("A", first) + DescribeCompared("B", second) +
                     SizeNote(first.report, second.report);
  text += fmt::format("\n{:<34} {:>10} {:>10}  B - A\n", "", "A", "B");
  const auto count = [&](const char* name, auto a, auto b) {
    text += fmt::format("{:<34} {:>10} {:>10}\n", name, a, b);
  };
  count("steps", first.report.steps.size(), second.report.steps.size());
  count("groups", first.report.counts.groups, second.report.counts.groups);
  count("completions", first.report.completions, second.report.completions);
  text += "share of the groups, with the 95 % interval of the difference\n";
  for (const ShareRow& row : SharesOf(first.report, second.report)) {
    text += fmt::format("  {:<32} {:>10} {:>10}  {}\n", row.name == "acr" ? "ACR" : row.name,
                        row.first.text(), row.second.text(), DifferenceText(row));
  }
  text += "mean of the steps\n";
  for (const MeanRow& row : MeansOf(first.report, second.report)) {
    text += fmt::format("  {:<32} {:>10} {:>10}  {}\n", row.name, MeanText(row.first),
                        MeanText(row.second), DifferenceText(row));
  }
  return text +
         "*: beyond chance, if groups are independent. Other prompts or steps differ as well: "
         "two dumps say that numbers differ, not why.\n";
}

ordered_json ReportComparisonJson(const ComparedReport& first, const ComparedReport& second) {
  const auto summary = [](const ComparedReport& compared) {
    return ordered_json::parse(ReportJson(compared.head, compared.report))["summary"];
  };
  ordered_json difference;
  for (const ShareRow& row : SharesOf(first.report, second.report)) {
    if (!row.known()) {
      difference[row.name] = {{"value", nullptr}, {"low", nullptr}, {"high", nullptr}};
      continue;
    }
    const ShareInterval interval = row.interval();
    difference[row.name] = {
        {"value", row.difference()}, {"low", interval.low}, {"high", interval.high}};
  }
  for (const MeanRow& row : MeansOf(first.report, second.report)) {
    difference[row.name] = {{"value", row.first && row.second
                                          ? ordered_json(*row.second - *row.first)
                                          : ordered_json()}};
  }
  return {{"first", summary(first)}, {"second", summary(second)}, {"difference", difference}};
}

}  // namespace buttress
