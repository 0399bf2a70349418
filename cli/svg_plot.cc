#include "cli/svg_plot.h"

#include <absl/strings/str_replace.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace buttress {
namespace {

constexpr double kWidth = 900, kPanelHeight = 200, kGap = 56, kLeft = 64, kRight = 170, kTop = 30;
constexpr double kRightEdge = kWidth - kRight;
constexpr std::size_t kMaxPoints = 600;  // of a line; more points would share pixels

constexpr const char* kStyle = R"css(
body { font: 14px/1.5 system-ui, sans-serif; color: #1f2328; max-width: 1020px; margin: 32px auto;
  padding: 0 16px; }
h1, h2, p, li, summary, .tile { overflow-wrap: anywhere; }
h1 { font-size: 22px; margin-bottom: 2px; }
h2 { font-size: 17px; margin: 34px 0 8px; border-bottom: 1px solid #d8dee4; padding-bottom: 4px; }
p.about, .note { color: #59636e; margin: 2px 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0; }
.tile { border: 1px solid #d8dee4; border-radius: 6px; padding: 8px 14px; min-width: 108px; }
.tile b { display: block; font-size: 21px; font-weight: 600; }
.tile span { color: #59636e; font-size: 12px; }
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; color: #59636e; font-size: 12px; }
td, th { padding: 4px 10px 4px 0; border-bottom: 1px solid #eaeef2; vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; padding-right: 18px; }
td.n { font-variant-numeric: tabular-nums; }
td.name { white-space: nowrap; }
td.wide { overflow-wrap: anywhere; }
.bar { height: 12px; border-radius: 2px; min-width: 2px; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
svg { width: 100%; height: auto; }
pre, .plots { overflow-x: auto; }
details { margin: 8px 0; }
summary { cursor: pointer; font-weight: 600; }
@media (max-width: 700px) {
  body { margin: 12px auto; padding: 0 12px; }
  ul { padding-left: 20px; }
  table { display: block; overflow-x: auto; }
  td.wide { min-width: 150px; }
  .bars { display: none; }
  td.n, th.n { padding-right: 10px; }
  .plots svg { min-width: 700px; }
}
)css";

using Points = std::vector<std::pair<double, double>>;

std::string Text(double x, double y, const char* anchor, const std::string& text,
                 const std::string& style) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" ", x, y, anchor) + style +
         ">" + EscapeXml(text) + "</text>\n";
}

std::string PointList(const Points& points) {
  std::string text;
  for (const auto& [x, y] : points) text += fmt::format("{:.1f},{:.1f} ", x, y);
  return text;
}

std::string Polyline(const Points& points, const std::string& color, double width, double opacity) {
  return "<polyline fill=\"none\" stroke=\"" + color + "\" points=\"" + PointList(points) +
         fmt::format("\" stroke-width=\"{:.1f}\" stroke-opacity=\"{:.2f}\"/>\n", width, opacity);
}

Points Smoothed(const Points& points, std::size_t window) {
  Points smoothed = points;
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    sum += points[i].second;
    if (i >= window) sum -= points[i - window].second;
    smoothed[i].second = sum / static_cast<double>(std::min(i + 1, window));
  }
  return smoothed;
}

// Averages neighbours so that at most kMaxPoints remain.
Points Thinned(const Points& points) {
  const std::size_t bucket = (points.size() + kMaxPoints - 1) / kMaxPoints;
  if (bucket <= 1) return points;
  Points thinned;
  for (std::size_t begin = 0; begin < points.size(); begin += bucket) {
    const std::size_t end = std::min(points.size(), begin + bucket);
    double x = 0, y = 0;
    for (std::size_t i = begin; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    const auto count = static_cast<double>(end - begin);
    thinned.emplace_back(x / count, y / count);
  }
  return thinned;
}

double NiceCeiling(double value) {
  if (value <= 0) return 1;
  const double unit = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    if (value <= step * unit) return step * unit;
  }
  return 10 * unit;
}

// The axes of one plot.
struct Frame {
  double first = 0, span = 1;  // steps
  double top = 1;              // value
  double y0 = 0;

  double x(double step) const { return kLeft + (step - first) / span * (kRightEdge - kLeft); }

  double y(double value) const {
    return y0 + kPanelHeight * (1 - std::clamp(value / top, 0.0, 1.0));
  }

  Points Place(const Points& points) const {
    Points placed;
    for (const auto& [step, value] : points) placed.emplace_back(x(step), y(value));
    return placed;
  }
};

bool IsEmpty(const Plot& plot) {
  const auto none = [](const PlotSeries& series) { return series.points.empty(); };
  return std::ranges::all_of(plot.lines, none) && std::ranges::all_of(plot.stacked, none);
}

Frame MakeFrame(const Plot& plot, double y0) {
  Frame frame;
  double last = -1e300, most = 0;
  frame.first = 1e300;
  std::vector<double> heights;
  for (const PlotSeries& series : plot.stacked) {
    heights.resize(std::max(heights.size(), series.points.size()));
    for (std::size_t i = 0; i < series.points.size(); ++i)
      most = std::max(most, heights[i] += series.points[i].second);
  }
  for (const auto* list : {&plot.stacked, &plot.lines}) {
    for (const PlotSeries& series : *list) {
      for (const auto& [step, value] : series.points) {
        frame.first = std::min(frame.first, step);
        last = std::max(last, step);
        if (list == &plot.lines) most = std::max(most, value);
      }
    }
  }
  frame.span = std::max(1.0, last - frame.first);
  frame.top = plot.top > 0 ? plot.top : NiceCeiling(most);
  frame.y0 = y0;
  return frame;
}

std::string DrawGrid(const Plot& plot, const Frame& frame) {
  std::string svg = Text(kLeft, frame.y0 - 10, "start", plot.title, "font-weight=\"bold\"");
  for (int tick = 0; tick <= 4; ++tick) {
    const double value = frame.top * tick / 4;
    svg += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
        kRightEdge, frame.y(value), frame.y(value));
    svg +=
        Text(kLeft - 8, frame.y(value) + 4, "end", fmt::format("{:.4g}", value), "fill=\"#555\"");
  }
  double shown = -1;
  for (int tick = 0; tick <= 4; ++tick) {
    const double step = std::round(frame.first + frame.span * tick / 4);
    if (step == shown) continue;
    shown = step;
    svg += Text(frame.x(step), frame.y0 + kPanelHeight + 16, "middle", fmt::format("{:.0f}", step),
                "fill=\"#555\"");
  }
  return svg;
}

std::string DrawStack(const Plot& plot, const Frame& frame) {
  std::string svg;
  std::vector<double> below;
  for (const PlotSeries& series : plot.stacked) {
    Points points = Thinned(series.points);
    if (points.size() == 1)
      points.emplace_back(frame.first + frame.span, points[0].second);  // one step becomes a bar
    below.resize(std::max(below.size(), points.size()));
    Points outline, floor;
    for (std::size_t i = 0; i < points.size(); ++i) {
      floor.emplace_back(frame.x(points[i].first), frame.y(below[i]));
      below[i] += points[i].second;
      outline.emplace_back(frame.x(points[i].first), frame.y(below[i]));
    }
    std::ranges::reverse(floor);
    outline.insert(outline.end(), floor.begin(), floor.end());
    svg += "<polygon fill=\"" + series.color + "\" fill-opacity=\"0.85\" points=\"" +
           PointList(outline) + "\"/>\n";
  }
  return svg;
}

std::string DrawPlot(const Plot& plot, double y0) {
  const Frame frame = MakeFrame(plot, y0);
  std::string svg = DrawGrid(plot, frame) + DrawStack(plot, frame);
  for (const PlotSeries& series : plot.lines) {
    const std::size_t window = std::max<std::size_t>(1, series.points.size() / 50);
    if (window > 1) svg += Polyline(frame.Place(Thinned(series.points)), series.color, 0.7, 0.25);
    svg += Polyline(frame.Place(Thinned(Smoothed(series.points, window))), series.color, 2, 1);
    if (series.points.size() == 1) {
      const auto [x, y] = frame.Place(series.points)[0];
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y,
                         series.color);
    }
  }
  double legend = y0 + 12;
  const auto name = [&](const PlotSeries& series, bool area) {
    if (series.points.empty()) return;
    if (area)
      svg +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                      kRightEdge + 12, legend - 9, series.color);
    svg += Text(kRightEdge + (area ? 28 : 12), legend, "start", series.name,
                area ? "fill=\"#222\"" : "fill=\"" + series.color + "\"");
    legend += 18;
  };
  for (const PlotSeries& series : plot.lines) name(series, false);
  for (auto series = plot.stacked.rbegin(); series != plot.stacked.rend(); ++series)
    name(*series, true);
  return svg;
}

}  // namespace

std::string HtmlPage(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>" +
         EscapeXml(title) + "</title><style>" + kStyle + "</style></head><body>\n" + body +
         "</body></html>\n";
}

std::string EscapeXml(const std::string& text) {
  std::string escaped =
      absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
  std::ranges::replace_if(
      escaped, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return escaped;
}

std::string PlotsSvg(const std::vector<Plot>& plots) {
  const auto shown = std::ranges::count_if(plots, [](const Plot& plot) { return !IsEmpty(plot); });
  const double height = kTop + static_cast<double>(shown) * (kPanelHeight + kGap) + 10;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" viewBox=\"0 0 "
      "{:.0f} {:.0f}\" ",
      kWidth, height, kWidth, height);
  svg +=
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n";
  double y = kTop;
  for (const Plot& plot : plots) {
    if (IsEmpty(plot)) continue;
    svg += DrawPlot(plot, y);
    y += kPanelHeight + kGap;
  }
  svg += Text((kLeft + kRightEdge) / 2, height - 6, "middle", "step", "fill=\"#555\"");
  return svg + "</svg>\n";
}

}  // namespace buttress
