#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/compare/comparison.h"
#include "cli/output.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLabelColumns = 30, kSettingColumns = 110;

// "1.2 M"
std::string Short(double number) {
  constexpr std::array<const char*, 4> kUnits = {"", " k", " M", " G"};
  std::size_t unit = 0;
  while (number >= 1000 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}", number, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string Number(double value, double scale, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", scale * value, digits) : "-";
}

std::string FromTo(double first, double last, double scale, int digits) {
  return Number(first, scale, digits) + " to " + Number(last, scale, digits);
}

// The end of a long text, whose beginning many runs have in common.
std::string EndOf(const std::string& text, std::size_t columns) {
  return text.size() <= columns ? text : ".." + text.substr(text.size() - columns + 2);
}

using Row = std::vector<std::string>;

// The first cell is aligned on the left, the others on the right.
std::string Table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i])
                     : fmt::format("  {:>{}}", row[i], widths[i]);
    text += '\n';
  }
  return text;
}

std::string RunsTable(const std::vector<ComparedRun>& runs) {
  std::vector<Row> rows = {
      {"run", "steps", "raw reward", "accuracy %", "held-out %", "ACR", "tokens", "seconds"}};
  for (const ComparedRun& run : runs) {
    const Learned& learned = run.learned;
    const double before = run.before ? run.before->accuracy : std::nan("");
    const double after = run.after ? run.after->accuracy : std::nan("");
    rows.push_back({EndOf(run.label, kLabelColumns),
                    fmt::format("{}{}", run.steps.size(), run.finished ? "" : "+"),
                    FromTo(learned.reward.first, learned.reward.last, 1, 3),
                    FromTo(learned.accuracy.first, learned.accuracy.last, 100, 1),
                    FromTo(before, after, 100, 1), AcrText(run.report.counts, 3), Short(run.tokens),
                    Number(run.seconds, 1, 0)});
  }
  std::string text = Table(rows);
  if (!std::ranges::all_of(runs, &ComparedRun::finished)) text += "+: not finished\n";
  return text + "from, to: first and last tenth of the steps; held-out: before and after\n";
}

std::string SettingsText(const std::vector<DifferingSetting>& settings) {
  if (settings.empty()) return "no setting of `run` differs\n";
  std::string text = "settings that differ, in the order of the runs\n";
  for (const DifferingSetting& setting : settings) {
    std::string line = "  " + setting.key + ":";
    for (const std::string& value : setting.values)
      line += (&value == &setting.values[0] ? " " : " | ") + (value.empty() ? "-" : value);
    text += (line.size() > kSettingColumns ? line.substr(0, kSettingColumns) + ".." : line) + "\n";
  }
  return text;
}

std::string SeedsText(const Comparison& comparison) {
  std::string text;
  const auto endpoints = Endpoints();
  for (const SeedGroup& group : comparison.seeds) {
    text += fmt::format("{}: mean over {} seeds (95 % interval)\n", group.label, group.runs.size());
    for (std::size_t i = 0; i < endpoints.size(); ++i)
      text += fmt::format("  {:<29} {}\n", endpoints[i].label,
                          EndpointText(endpoints[i], group.endpoints[i], false));
  }
  if (comparison.seed_differences.empty()) return text;
  text += fmt::format("{} minus {}\n", comparison.seeds[1].label, comparison.seeds[0].label);
  for (std::size_t i = 0; i < endpoints.size(); ++i)
    text += fmt::format("  {:<29} {}\n", endpoints[i].label,
                        EndpointText(endpoints[i], comparison.seed_differences[i], true));
  return text;
}

ordered_json ToJson(const std::optional<Accuracy>& accuracy) {
  if (!accuracy) return nullptr;
  return {{"accuracy", accuracy->accuracy}, {"prompts", accuracy->prompts}};
}

ordered_json ToJson(const ComparedRun& run) {
  ordered_json causes = ordered_json::object();
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (run.report.all.causes[i] > 0)
      causes[std::string(InfoOf(static_cast<Cause>(i)).name)] = run.report.all.causes[i];
  }
  return {{"run", run.label},
          {"folder", run.folder},
          {"seed", run.config.run.seed},
          {"steps", run.steps.size()},
          {"finished", run.finished},
          {"learned", LearnedJson(run.learned)},
          {"held_out_before", ToJson(run.before)},
          {"held_out_after", ToJson(run.after)},
          {"groups", CountsJson(run.report.counts)},
          {"causes", causes},
          {"tokens", run.tokens},
          {"trained_tokens", run.trained_tokens},
          {"seconds", run.seconds}};
}

ordered_json ToJson(const std::vector<RunsMean>& means) {
  ordered_json json = ordered_json::object();
  for (std::size_t i = 0; i < means.size(); ++i) {
    json[std::string(Endpoints()[i].name)] = {{"mean", means[i].mean},
                                              {"low", means[i].low},
                                              {"high", means[i].high},
                                              {"runs", means[i].runs}};
  }
  return json;
}

ordered_json ToJson(const std::optional<PairedHeldOut>& held_out) {
  if (!held_out) return nullptr;
  const Change& change = held_out->change;
  return {{"first", change.first},
          {"second", change.last},
          {"difference", change.difference},
          {"low", change.low},
          {"high", change.high},
          {"only_first", held_out->only_first},
          {"only_second", held_out->only_second}};
}

}  // namespace

std::string EndpointText(const Endpoint& endpoint, const RunsMean& mean, bool sign) {
  if (!std::isfinite(mean.mean)) return "-";
  const double scale = endpoint.percent ? 100 : 1;
  const auto number = [&](double value) {
    return sign ? fmt::format("{:+.{}f}", scale * value, endpoint.percent ? 1 : 3)
                : Number(value, scale, endpoint.percent ? 1 : 3);
  };
  std::string text = number(mean.mean) + (endpoint.percent ? " %" : "");
  if (std::isfinite(mean.low))
    text += fmt::format(" ({} to {})", number(mean.low), number(mean.high));
  return text;
}

std::string CausesText(const Report& report) {
  std::vector<std::pair<std::int64_t, std::string_view>> causes;
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (report.all.causes[i] > 0)
      causes.emplace_back(report.all.causes[i], InfoOf(static_cast<Cause>(i)).name);
  }
  std::ranges::stable_sort(causes, std::greater<>(), &decltype(causes)::value_type::first);
  std::string text;
  for (const auto& [groups, name] : causes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, groups);
  return text.empty() ? "none" : text;
}

std::string HeldOutText(const Comparison& comparison) {
  if (comparison.runs.size() != 2) return "";
  const std::string &first = comparison.runs[0].label, &second = comparison.runs[1].label;
  if (!comparison.held_out)
    return "held-out prompts are not compared one by one: " + comparison.why_not_paired;
  const auto& [change, only_first, only_second] = *comparison.held_out;
  const std::string verdict = change.verdict == ChangeVerdict::kRose   ? second + " is better"
                              : change.verdict == ChangeVerdict::kFell ? first + " is better"
                                                                       : "within chance";
  return fmt::format(
      "held-out after training, {} minus {}, prompt by prompt: {:+.1f} % ({:+.1f} to {:+.1f}): {}; "
      "{} prompts better in {}, {} in {}",
      second, first, 100 * change.difference, 100 * change.low, 100 * change.high, verdict,
      only_first, first, only_second, second);
}

std::string ComparisonText(const Comparison& comparison) {
  std::string text = RunsTable(comparison.runs) + "\n" + SettingsText(comparison.settings) +
                     "\ngroups without a signal, by cause\n";
  for (const ComparedRun& run : comparison.runs)
    text += fmt::format("  {}: {}\n", EndOf(run.label, kLabelColumns), CausesText(run.report));
  if (const std::string held_out = HeldOutText(comparison); !held_out.empty())
    text += "\n" + held_out + "\n";
  if (const std::string seeds = SeedsText(comparison); !seeds.empty()) text += "\n" + seeds;
  return text;
}

ordered_json ComparisonJson(const Comparison& comparison) {
  ordered_json json = {{"runs", ordered_json::array()},
                       {"settings", ordered_json::array()},
                       {"held_out", ToJson(comparison.held_out)},
                       {"seeds", ordered_json::array()},
                       {"seed_differences", ToJson(comparison.seed_differences)}};
  for (const ComparedRun& run : comparison.runs) json["runs"].push_back(ToJson(run));
  for (const DifferingSetting& setting : comparison.settings)
    json["settings"].push_back({{"key", setting.key}, {"values", setting.values}});
  for (const SeedGroup& group : comparison.seeds) {
    ordered_json& row = json["seeds"].emplace_back(ToJson(group.endpoints));
    row["label"] = group.label;
    for (const std::size_t i : group.runs) row["of"].push_back(comparison.runs[i].label);
  }
  return json;
}

}  // namespace buttress
