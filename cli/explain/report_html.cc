#include <fmt/core.h>

#include <algorithm>

#include "cli/explain/report.h"
#include "cli/output.h"
#include "cli/svg_plot.h"
#include "lib/explain/conclusion.h"
#include "lib/explain/post_mortem.h"

namespace buttress {
namespace {

// Colors by cause: muted for difficulty, bright for faults.
constexpr std::array<const char*, kCauses> kColors = {
    "#57ab5a", "#c9786b", "#d4a72c", "#6e7781", "#8250df", "#bf3989", "#0969da",
    "#cf222e", "#1b7c83", "#afb8c1", "#8ddb8c", "#e3b5ab", "#79c0ff", "#d2a8ff",
    "#ffa657", "#a0522d", "#b35900", "#5e4db2", "#99582a"};

std::string Name(std::size_t cause) { return std::string(InfoOf(static_cast<Cause>(cause)).name); }

std::string Dot(std::size_t cause) {
  return fmt::format("<span class=\"dot\" style=\"background:{}\"></span>", kColors[cause]);
}

std::string Cell(const std::string& text) {
  return "<td class=\"wide\">" + EscapeXml(text) + "</td>";
}

std::string NumberCell(const std::string& text) { return "<td class=\"n\">" + text + "</td>"; }

std::string Tile(const std::string& value, const std::string& name) {
  return "<div class=\"tile\"><b>" + value + "</b><span>" + EscapeXml(name) + "</span></div>\n";
}

std::string Tiles(const Report& report) {
  const CollapseCounts& c = report.counts;
  std::string html = "<div class=\"tiles\">\n" + Tile(AcrText(c, 3), "ACR, observed");
  if (report.with_history > 0) {
    const std::string meaning =
        report.expected_informs
            ? fmt::format("{:.3f} to {:.3f}; {:.3f} observed there: {}", report.expected.low,
                          report.expected.high, report.observed_acr, DescribeExcess(report.excess))
            : "no information: earlier visits do not predict these groups";
    html += Tile(fmt::format("{:.3f}", report.expected.rate), "expected, " + meaning);
  }
  const auto share = [&](std::int64_t groups, const char* name) {
    return Tile(fmt::format("{:.1f} %", 100 * Share(groups, c.groups)), name);
  };
  html += Tile(std::to_string(c.groups), "groups");
  html += report.has_verdicts
              ? share(c.all_correct, "all correct") + share(c.all_wrong, "all wrong") +
                    share(c.other_constant, "other constant")
              : share(c.other_constant, "equal rewards, without a verdict");
  html += Tile(std::to_string(c.unscorable), "unscorable groups") +
          Tile(std::to_string(report.rounding_only), "differ by rounding only") +
          Tile(fmt::format("{:.3f}", report.acr_100), "ACR-100") +
          Tile(fmt::format("{:.3f}", report.sigma_acr), "sigma-ACR");
  return html + "</div>\n";
}

std::string CauseTable(const Report& report) {
  std::string html =
      "<table><tr><th>cause</th><th class=\"n\">groups</th><th class=\"n\">share</th><th "
      "class=\"bars\" style=\"width:min(300px,calc(30vw - 60px))\"></th><th>meaning</th></tr>\n";
  std::int64_t most = 1;
  for (const std::int64_t count : report.all.causes) most = std::max(most, count);
  for (std::size_t i = 0; i < kCauses; ++i) {
    const std::int64_t count = report.all.causes[i];
    if (count == 0) continue;
    html += "<tr><td class=\"name\">" + Dot(i) + Name(i) + "</td>" +
            NumberCell(std::to_string(count)) +
            NumberCell(fmt::format("{:.1f} %", 100 * Share(count, report.all.collapsed))) +
            fmt::format(
                "<td class=\"bars\"><div class=\"bar\" "
                "style=\"width:{:.1f}%;background:{}\"></div></td>",
                100 * Share(count, most), kColors[i]) +
            Cell(std::string(InfoOf(static_cast<Cause>(i)).meaning)) + "</tr>\n";
  }
  return html + "</table>\n";
}

std::vector<Plot> Plots(const Report& report) {
  Plot acr{.title = "advantage collapse rate",
           .lines = {{"observed", "#222"},
                     {"expected", "#d97706"},
                     {"all correct", "#1a7f37"},
                     {"all wrong", "#cf222e"}},
           .top = 1};
  Plot causes{.title = "share of groups without a signal, by cause", .top = 1};
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (report.all.causes[i] > 0) causes.stacked.push_back({Name(i), kColors[i]});
  }
  Plot reward{.title = "raw reward and accuracy (means of the step)",
              .lines = {{"raw reward", "#1a7f37"}, {"accuracy", "#0969da"}}};
  Plot length{.title = report.lengths_are_tokens ? "length (tokens)" : "length (bytes of text)",
              .lines = {{"mean length", "#0969da"}}};
  Plot surprisal{.title = "surprisal of the samples (nats per token), an estimate of the entropy",
                 .lines = {{"surprisal", "#8250df"}}};
  Plot similarity{
      .title =
          "similarity within a group (share of common runs of three words), truncated completions",
      .lines = {{"similarity", "#bf3989"}, {"truncated", "#d4a72c"}},
      .top = 1};
  for (const StepPoint& p : report.steps) {
    const auto step = static_cast<double>(p.step);
    const std::int64_t classed = p.counts.constant() + p.counts.mixed;
    if (classed > 0) acr.lines[0].points.emplace_back(step, p.counts.acr());
    // With a history for less than half of the prompts, the expected rate does not describe the
    // step.
    if (2 * p.with_history >= classed && classed > 0)
      acr.lines[1].points.emplace_back(step, p.expected_acr);
    if (report.has_verdicts && classed > 0) {
      acr.lines[2].points.emplace_back(step, Share(p.counts.all_correct, classed));
      acr.lines[3].points.emplace_back(step, Share(p.counts.all_wrong, classed));
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < kCauses; ++i) {
      if (report.all.causes[i] > 0)
        causes.stacked[at++].points.emplace_back(step, Share(p.causes[i], p.counts.groups));
    }
    if (p.raw_reward_mean) reward.lines[0].points.emplace_back(step, *p.raw_reward_mean);
    if (p.accuracy) reward.lines[1].points.emplace_back(step, *p.accuracy);
    if (p.length_mean) length.lines[0].points.emplace_back(step, *p.length_mean);
    if (p.surprisal_mean) surprisal.lines[0].points.emplace_back(step, *p.surprisal_mean);
    if (p.similarity) similarity.lines[0].points.emplace_back(step, *p.similarity);
    if (p.similarity)
      similarity.lines[1].points.emplace_back(step, Share(p.truncated, p.completions));
  }
  return {acr, causes, reward, length, surprisal, similarity};
}

std::string TallyTable(const char* what, const std::map<std::string, Tally>& tallies) {
  if (tallies.size() < 2) return "";
  std::vector<std::pair<std::string, Tally>> worst(tallies.begin(), tallies.end());
  std::ranges::stable_sort(worst, std::greater<>(), [](const auto& t) {
    const GroupCounts recent = t.second.Recent();
    return Share(recent.collapsed, recent.groups);
  });
  if (worst.size() > 30) worst.resize(30);
  std::string html = fmt::format(
      "<h2>By {}</h2>\n<table><tr><th>{}</th><th class=\"n\">groups</th><th class=\"n\">without a "
      "signal</th><th class=\"n\">of late</th><th>mostly</th></tr>\n",
      what, what);
  for (const auto& [name, tally] : worst) {
    const GroupCounts recent = tally.Recent();
    const auto largest =
        static_cast<std::size_t>(std::ranges::max_element(tally.causes) - tally.causes.begin());
    html += "<tr>" + Cell(name.empty() ? "(none)" : name) +
            NumberCell(std::to_string(tally.groups)) +
            NumberCell(fmt::format("{:.1f} %", 100 * Share(tally.collapsed, tally.groups))) +
            NumberCell(ShareText(recent.collapsed, recent.groups)) + "<td>" +
            (tally.collapsed == 0 ? "" : Dot(largest) + Name(largest)) + "</td></tr>\n";
  }
  return html + "</table>\n";
}

std::string PromptTable(const Report& report) {
  if (report.worst_prompts.empty()) return "";
  std::string html =
      "<h2>Worst prompts</h2>\n<table><tr><th>prompt</th><th>source</th><th "
      "class=\"n\">groups</th><th class=\"n\">without a signal</th>"
      "<th class=\"n\">success rate</th></tr>\n";
  for (const auto& [id, record] : report.worst_prompts) {
    html += "<tr>" + Cell(id) + Cell(record.source) + NumberCell(std::to_string(record.groups)) +
            NumberCell(std::to_string(record.collapsed)) +
            NumberCell(
                record.history.scored == 0
                    ? "-"
                    : fmt::format("{:.2f}", Share(record.history.correct, record.history.scored))) +
            "</tr>\n";
  }
  return html + "</table>\n";
}

std::string SizeRows(const std::string& source, const std::vector<SizeRemedy>& sizes) {
  std::string html;
  for (const SizeRemedy& size : sizes) {
    html += "<tr>" + Cell(source) + NumberCell(std::to_string(size.size)) +
            NumberCell(fmt::format("{:.3f}", size.expected_acr)) +
            NumberCell(fmt::format("{:.2f}", size.signal_per_token)) + "</tr>\n";
  }
  return html;
}

std::string RemedyTable(const Report& report) {
  const RemedyReport& r = report.remedies;
  std::string html =
      "<h2>Other estimators on the same groups</h2>\n<p class=\"note\">Signal to noise is that of "
      "the gradient per sampled token, by that of grpo, on prompts of this difficulty and with "
      "open gates.</p>\n<table><tr><th>estimator</th><th class=\"n\">signal to noise</th><th "
      "class=\"n\">groups with an advantage</th>"
      "<th class=\"n\">constant groups with one</th><th class=\"n\">push on them</th>"
      "<th class=\"n\">mean |A|</th></tr>\n";
  for (const EstimatorRemedy& e : r.estimators) {
    html += "<tr>" + Cell(e.name) +
            NumberCell(e.signal_per_token ? fmt::format("{:.2f}", *e.signal_per_token) : "-") +
            NumberCell(fmt::format("{:.1f} %", 100 * Share(e.with_advantage, r.groups))) +
            NumberCell(std::to_string(e.collapsed_with_advantage)) +
            NumberCell(fmt::format("{:+.3f}", e.push())) +
            NumberCell(fmt::format("{:.3f}", e.mean_absolute(r.completions))) + "</tr>\n";
  }
  html += "</table>\n<p>Resampling as in DAPO draws " +
          fmt::format("{:.2f}", r.draws_for_full_batch) + " prompts per informative group. ";
  if (r.skip.skipped > 0) {
    html += fmt::format(
        "Skipping prompts whose last group was constant saves {} of {} visits; {:.0f} % of "
        "those that were saved were constant again. ",
        r.skip.skipped, r.skip.visits, 100 * Share(r.skip.rightly, r.skip.skipped));
  }
  if (r.sizes.empty()) return html + "</p>\n";
  html +=
      "</p>\n<h2>Other group sizes</h2>\n<p class=\"note\">By the difficulty of the recent "
      "prompts. "
      "Signal to noise is that of the gradient per sampled token, by that of groups of " +
      std::to_string(r.size) +
      ".</p>\n<table><tr><th>source</th><th class=\"n\">size</th><th class=\"n\">ACR</th>"
      "<th class=\"n\">signal to noise</th></tr>\n" +
      SizeRows("all", r.sizes);
  for (const auto& [source, sizes] : r.source_sizes) html += SizeRows(source, sizes);
  return html + "</table>\n";
}

std::string Examples(const Report& report) {
  std::string html = "<h2>Groups without a signal</h2>\n<p class=\"note\">At most " +
                     std::to_string(PostMortem::kExamples) +
                     " of each cause; <code>--json</code> prints all.</p>\n";
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (report.all.causes[i] == 0) continue;
    html += "<details><summary>" + Dot(i) + Name(i) + fmt::format(" ({})", report.all.causes[i]) +
            "</summary>\n<p class=\"note\">Fix: " +
            EscapeXml(std::string(InfoOf(static_cast<Cause>(i)).fix)) +
            ".</p>\n<table><tr><th "
            "class=\"n\">step</th><th>where</th><th>prompt</th><th>evidence</th></tr>\n";
    for (const CollapsedGroup& group : report.examples) {
      if (static_cast<std::size_t>(group.diagnosis.cause) != i) continue;
      html += "<tr>" + NumberCell(std::to_string(group.step)) + Cell(group.where) +
              Cell(group.prompt_id) + Cell(group.diagnosis.evidence) + "</tr>\n";
    }
    html += "</table></details>\n";
  }
  return html;
}

}  // namespace

std::string ReportHtml(const ReportHead& head, const Report& report) {
  std::string html = "<h1>Why groups gave no signal</h1>\n<p class=\"about\">" +
                     EscapeXml(head.path) + ": " + EscapeXml(head.description) + "</p>\n";
  for (const std::string& remark : head.remarks)
    html += "<p class=\"note\">Note: " + EscapeXml(remark) + ".</p>\n";
  const Conclusion conclusion = Conclude(report);
  html +=
      "<p><b>" + EscapeXml(conclusion.name) + "</b>: " + EscapeXml(conclusion.evidence) + "</p>\n";
  html += Tiles(report) + "<h2>What to do next</h2>\n<ul>\n";
  for (const std::string& step : NextSteps(report)) html += "<li>" + EscapeXml(step) + "</li>\n";
  html += "</ul>\n";
  if (report.all.collapsed > 0) html += "<h2>Causes</h2>\n" + CauseTable(report);
  html += "<h2>Over time</h2>\n<div class=\"plots\">" + PlotsSvg(Plots(report)) + "</div>\n" +
          TallyTable("source", report.sources) + TallyTable("sampler", report.samplers) +
          PromptTable(report) + RemedyTable(report);
  if (report.all.collapsed > 0) html += Examples(report);
  return HtmlPage("explain " + head.path, html);
}

}  // namespace buttress
