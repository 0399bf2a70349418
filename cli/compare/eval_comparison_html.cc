#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/compare/eval_comparison.h"
#include "cli/svg_plot.h"

namespace buttress {
namespace {

constexpr std::array<const char*, 6> kEvalColors = {"#0969da", "#cf222e", "#1a7f37",
                                                    "#8250df", "#bf8700", "#1b7c83"};
constexpr double kWidth = 900, kHeight = 360, kLeft = 60, kRight = 880, kTop = 20, kBottom = 320;

// The plot of rates over k, on a logarithmic axis.
struct RateAxes {
  double log_k = 1;  // at the right edge; 0: all rates are of one completion

  // Intervals of several results stand next to one another.
  double X(std::int64_t k, std::size_t result) const {
    const double share = log_k > 0 ? std::log2(static_cast<double>(k)) / log_k * 0.9 + 0.05 : 0.5;
    return kLeft + share * (kRight - kLeft) + 7 * static_cast<double>(result);
  }

  static double Y(double rate) { return kBottom - rate * (kBottom - kTop); }
};

std::string SvgLine(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string SvgText(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"#555\">{}</text>\n",
                     x, y, anchor, text);
}

// The rates of a result as a line with the interval of each; maj@k is dashed.
std::string RateLine(const EvalComparison& comparison, const RateAxes& axes, std::size_t result,
                     bool maj) {
  const std::string color = kEvalColors[result % kEvalColors.size()];
  const std::string style = fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", color,
                                        maj ? " stroke-dasharray=\"5 4\"" : "");
  std::string svg;
  double before_x = -1, before_y = 0;
  for (const ComparedRate& rate : comparison.rates) {
    if (rate.name != "accuracy" && rate.name != (maj ? "maj" : "pass")) continue;
    const Estimate& estimate = rate.of[result];
    const double x = axes.X(rate.k, result), y = RateAxes::Y(estimate.mean);
    if (before_x >= 0) svg += SvgLine(before_x, before_y, x, y, style);
    svg += SvgLine(x, RateAxes::Y(estimate.low), x, RateAxes::Y(estimate.high),
                   "stroke=\"" + color + "\"");
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y, color);
    before_x = x;
    before_y = y;
  }
  return svg;
}

std::string RatesSvg(const EvalComparison& comparison) {
  const bool several = comparison.rates.size() > 1;
  const RateAxes axes{std::log2(static_cast<double>(comparison.rates.back().k))};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n",
      kWidth, kHeight);
  for (int tick = 0; tick <= 4; ++tick) {
    const double y = RateAxes::Y(0.25 * tick);
    svg += SvgLine(kLeft, y, kRight, y, "stroke=\"#ddd\"");
    svg += SvgText(kLeft - 8, y + 4, "end", fmt::format("{} %", 25 * tick));
  }
  for (const ComparedRate& rate : comparison.rates) {
    if (rate.name != "maj")
      svg += SvgText(axes.X(rate.k, 0), kBottom + 18, "middle",
                     several ? fmt::format("k = {}", rate.k) : "accuracy");
  }
  for (std::size_t i = 0; i < comparison.evals.size(); ++i) {
    svg += RateLine(comparison, axes, i, false);
    if (several) svg += RateLine(comparison, axes, i, true);
  }
  return svg + "</svg>\n";
}

}  // namespace

std::string EvalComparisonHtml(const EvalComparison& comparison) {
  std::string html = "<h1>Results of evaluations</h1>\n";
  for (std::size_t i = 0; i < comparison.evals.size(); ++i)
    html += fmt::format(
        "<p class=\"about\"><span class=\"dot\" style=\"background:{}\"></span>{}</p>\n",
        kEvalColors[i % kEvalColors.size()], EscapeXml(comparison.evals[i].path));
  html += RatesSvg(comparison);
  if (comparison.rates.size() > 1)
    html +=
        "<p class=\"note\">pass@k (line) and maj@k (dashed) over k; both are the accuracy at k = "
        "1. Bars are intervals of 95 %.</p>\n";
  html += "<h2>Table</h2>\n<pre>";
  const std::string text = EvalComparisonText(comparison);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    html += EscapeXml(text.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return HtmlPage("results of evaluations", html + "</pre>\n");
}

}  // namespace buttress
