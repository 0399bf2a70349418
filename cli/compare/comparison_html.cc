#include <fmt/core.h>

#include <array>
#include <cmath>

#include "cli/compare/comparison.h"
#include "cli/output.h"
#include "cli/svg_plot.h"

namespace buttress {
namespace {

constexpr std::array<const char*, 10> kRunColors = {"#0969da", "#cf222e", "#1a7f37", "#8250df",
                                                    "#bf8700", "#bf3989", "#1b7c83", "#6e7781",
                                                    "#953800", "#57ab5a"};

struct ComparedCurve {
  const char* title;
  double StepMeasurements::*value;
  double top;  // 0: the largest value
};

constexpr ComparedCurve kCurves[] = {
    {"raw reward (mean of the step)", &StepMeasurements::drawn_raw_reward_mean, 0},
    {"accuracy", &StepMeasurements::accuracy, 0},
    {"advantage collapse rate", &StepMeasurements::acr, 1},
    {"entropy (nats per token)", &StepMeasurements::entropy, 0}};

std::string Curves(const std::vector<ComparedRun>& runs) {
  std::vector<Plot> plots;
  for (const auto& [title, value, top] : kCurves) {
    Plot& plot = plots.emplace_back(Plot{.title = title, .top = top});
    for (std::size_t i = 0; i < runs.size(); ++i) {
      PlotSeries& line =
          plot.lines.emplace_back(PlotSeries{runs[i].label, kRunColors[i % kRunColors.size()]});
      for (const StepMeasurements& step : runs[i].steps) {
        if (std::isfinite(step.*value)) line.points.emplace_back(step.step, step.*value);
      }
    }
  }
  return "<div class=\"plots\">" + PlotsSvg(plots) + "</div>\n";
}

// A row. Names and numbers stay on one line.
std::string Cells(const std::vector<std::string>& cells, const char* kind) {
  constexpr std::size_t kLong = 12;
  std::string html = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i)
    html += fmt::format("<{0} class=\"{1}\">{2}</{0}>", kind,
                        i == 0 || cells[i].size() <= kLong ? "name" : "wide", EscapeXml(cells[i]));
  return html + "</tr>\n";
}

std::string Scaled(double value, double scale, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", scale * value, digits) : "-";
}

// "25.3 to 61.0: +35.7 (+30.2 to +41.1), rose"
std::string ChangeCell(const Change& change, double scale, int digits) {
  if (!std::isfinite(change.first)) return "-";
  std::string text =
      Scaled(change.first, scale, digits) + " to " + Scaled(change.last, scale, digits);
  if (std::isfinite(change.low))
    text += fmt::format(": {:+.{}f} ({:+.{}f} to {:+.{}f}), {}", scale * change.difference, digits,
                        scale * change.low, digits, scale * change.high, digits,
                        ChangeVerdictName(change.verdict));
  return text;
}

std::string RunsHtml(const std::vector<ComparedRun>& runs) {
  std::string html =
      "<table>" + Cells({"run", "steps", "raw reward", "accuracy %", "held-out %", "after training",
                         "ACR", "tokens", "trained tokens", "seconds"},
                        "th");
  for (const ComparedRun& run : runs) {
    html += Cells(
        {run.label + (run.finished ? "" : " (not finished)"), std::to_string(run.steps.size()),
         ChangeCell(run.learned.reward, 1, 3), ChangeCell(run.learned.accuracy, 100, 1),
         run.learned.held_out ? ChangeCell(*run.learned.held_out, 100, 1) : "-",
         run.after ? run.after->Text() : "-", AcrText(run.report.counts, 3),
         fmt::format("{:.0f}", run.tokens), fmt::format("{:.0f}", run.trained_tokens),
         fmt::format("{:.0f}", run.seconds)},
        "td");
  }
  return html +
         "</table>\n<p class=\"note\">Raw reward and accuracy: the first against the last "
         "tenth of the steps; held-out: before against after; intervals of 95 %.</p>\n";
}

std::string SettingsHtml(const Comparison& comparison) {
  if (comparison.settings.empty()) return "<p>No setting of <code>run</code> differs.</p>\n";
  std::vector<std::string> head = {"setting"};
  for (const ComparedRun& run : comparison.runs) head.push_back(run.label);
  std::string html = "<table>" + Cells(head, "th");
  for (const DifferingSetting& setting : comparison.settings) {
    std::vector<std::string> cells = {setting.key};
    cells.insert(cells.end(), setting.values.begin(), setting.values.end());
    html += Cells(cells, "td");
  }
  return html + "</table>\n";
}

std::string SeedsHtml(const Comparison& comparison) {
  if (comparison.seeds.empty()) return "";
  std::vector<std::string> head = {"mean and 95 % interval over seeds"};
  for (const SeedGroup& group : comparison.seeds)
    head.push_back(fmt::format("{}, {} runs", group.label, group.runs.size()));
  const bool difference = !comparison.seed_differences.empty();
  if (difference) head.emplace_back("second minus first");
  std::string html = "<h2>Over seeds</h2>\n<table>" + Cells(head, "th");
  for (std::size_t i = 0; i < Endpoints().size(); ++i) {
    const Endpoint& endpoint = Endpoints()[i];
    std::vector<std::string> cells = {std::string(endpoint.label)};
    for (const SeedGroup& group : comparison.seeds)
      cells.push_back(EndpointText(endpoint, group.endpoints[i], false));
    if (difference) cells.push_back(EndpointText(endpoint, comparison.seed_differences[i], true));
    html += Cells(cells, "td");
  }
  return html + "</table>\n";
}

std::string CausesHtml(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> head = {"cause"};
  for (const ComparedRun& run : runs) head.push_back(run.label);
  std::string html = "<table>" + Cells(head, "th");
  for (std::size_t cause = 0; cause < kCauses; ++cause) {
    std::vector<std::string> cells = {std::string(InfoOf(static_cast<Cause>(cause)).name)};
    bool any = false;
    for (const ComparedRun& run : runs) {
      const std::int64_t groups = run.report.all.causes[cause];
      any = any || groups > 0;
      const auto all = static_cast<double>(std::max<std::int64_t>(1, run.report.all.groups));
      cells.push_back(
          fmt::format("{} ({:.1f} %)", groups, 100 * static_cast<double>(groups) / all));
    }
    if (any) html += Cells(cells, "td");
  }
  return html + "</table>\n";
}

}  // namespace

std::string ComparisonHtml(const Comparison& comparison) {
  std::string html = fmt::format("<h1>Comparison of {} runs</h1>\n", comparison.runs.size());
  for (const ComparedRun& run : comparison.runs)
    html += "<p class=\"about\">" + EscapeXml(run.label + ": " + run.folder) + "</p>\n";
  html += "<h2>Endpoints and cost</h2>\n" + RunsHtml(comparison.runs);
  if (const std::string held_out = HeldOutText(comparison); !held_out.empty())
    html += "<p>" + EscapeXml(held_out) + ".</p>\n";
  html += SeedsHtml(comparison) + "<h2>Settings that differ</h2>\n" + SettingsHtml(comparison) +
          "<h2>Over time</h2>\n" + Curves(comparison.runs) +
          "<h2>Groups without a signal, by cause</h2>\n" + CausesHtml(comparison.runs);
  return HtmlPage("comparison of runs", html);
}

}  // namespace buttress
