#include "cli/curves.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace buttress {
namespace {

constexpr double kWidth = 900, kPanelHeight = 200, kGap = 56, kLeft = 64, kRight = 150, kTop = 60;

struct Curve {
  const char* name;
  const char* color;
  std::function<double(const StepRecord&)> value;
};

struct Panel {
  const char* title;
  std::vector<Curve> curves;
  double top;      // of the value axis; 0 = the largest value
};

std::string Text(double x, double y, const char* anchor, const std::string& text, const char* style) {
  char head[160];
  std::snprintf(head, sizeof head, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" %s>", x, y, anchor, style);
  std::string escaped;
  for (const char c : text) escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return head + escaped + "</text>\n";
}

std::string Polyline(const std::vector<std::pair<double, double>>& points, const char* color, double width, double opacity) {
  std::string text = "<polyline fill=\"none\" stroke=\"" + std::string(color) + "\" points=\"";
  char point[48];
  for (const auto& [x, y] : points) {
    std::snprintf(point, sizeof point, "%.1f,%.1f ", x, y);
    text += point;
  }
  char style[80];
  std::snprintf(style, sizeof style, "\" stroke-width=\"%.1f\" stroke-opacity=\"%.2f\"/>\n", width, opacity);
  return text + style;
}

std::vector<double> Smoothed(const std::vector<double>& values, std::size_t window) {
  std::vector<double> smoothed(values.size());
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    if (i >= window) sum -= values[i - window];
    smoothed[i] = sum / static_cast<double>(std::min(i + 1, window));
  }
  return smoothed;
}

double NiceCeiling(double value) {
  if (value <= 0) return 1;
  const double unit = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 2.5, 5.0, 10.0}) {
    if (value <= step * unit) return step * unit;
  }
  return 10 * unit;
}

std::string DrawPanel(const Panel& panel, const std::vector<StepRecord>& records, double y0) {
  const double x1 = kWidth - kRight, y1 = y0 + kPanelHeight;
  const auto first = static_cast<double>(records.front().step);
  const double span = std::max(1.0, static_cast<double>(records.back().step) - first);
  double top = panel.top;
  if (top == 0) {
    for (const Curve& curve : panel.curves) {
      for (const StepRecord& record : records) top = std::max(top, curve.value(record));
    }
    top = NiceCeiling(top);
  }
  const auto x = [&](const StepRecord& r) { return kLeft + (static_cast<double>(r.step) - first) / span * (x1 - kLeft); };
  const auto y = [&](double v) { return y1 - std::clamp(v / top, 0.0, 1.0) * kPanelHeight; };
  std::string svg = Text(kLeft, y0 - 10, "start", panel.title, "font-weight=\"bold\"");
  char buffer[200];
  for (int tick = 0; tick <= 4; ++tick) {
    const double value = top * tick / 4;
    std::snprintf(buffer, sizeof buffer, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft,
                  x1, y(value), y(value));
    svg += buffer;
    std::snprintf(buffer, sizeof buffer, "%.3g", value);
    svg += Text(kLeft - 8, y(value) + 4, "end", buffer, "fill=\"#555\"");
    std::snprintf(buffer, sizeof buffer, "%.0f", first + span * tick / 4);
    svg += Text(kLeft + (x1 - kLeft) * tick / 4, y1 + 16, "middle", buffer, "fill=\"#555\"");
  }
  double legend = y0 + 12;
  const std::size_t window = std::max<std::size_t>(1, records.size() / 50);
  for (const Curve& curve : panel.curves) {
    std::vector<double> values;
    for (const StepRecord& record : records) values.push_back(curve.value(record));
    const std::vector<double> means = Smoothed(values, window);
    std::vector<std::pair<double, double>> raw, smooth;
    for (std::size_t i = 0; i < records.size(); ++i) {
      raw.emplace_back(x(records[i]), y(values[i]));
      smooth.emplace_back(x(records[i]), y(means[i]));
    }
    svg += Polyline(raw, curve.color, 0.7, 0.25) + Polyline(smooth, curve.color, 2, 1);
    std::snprintf(buffer, sizeof buffer, "fill=\"%s\"", curve.color);
    svg += Text(x1 + 10, legend, "start", curve.name, buffer);
    legend += 18;
  }
  return svg;
}

}  // namespace

std::string CurvesSvg(const std::string& title, const std::vector<StepRecord>& records) {
  const Panel panels[] = {
      {"reward (mean of the step)", {{"reward", "#1a7f37", [](const StepRecord& r) { return r.reward_mean; }}}, 1},
      {"advantage collapse rate",
       {{"ACR", "#222", [](const StepRecord& r) { return r.acr; }},
        {"all correct", "#1a7f37", [](const StepRecord& r) { return r.acr_all_correct; }},
        {"all wrong", "#cf222e", [](const StepRecord& r) { return r.acr_all_wrong; }},
        {"other constant", "#8250df", [](const StepRecord& r) { return r.acr_other; }}},
       1},
      {"entropy (nats a token)", {{"entropy", "#0969da", [](const StepRecord& r) { return r.entropy; }}}, 0},
  };
  const double height = kTop + std::size(panels) * (kPanelHeight + kGap) + 10;
  char head[220];
  std::snprintf(head, sizeof head,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                kWidth, height, kWidth, height);
  std::string svg = head + Text(kLeft, 26, "start", title, "font-size=\"16\" font-weight=\"bold\"");
  double y = kTop;
  for (const Panel& panel : panels) {
    if (!records.empty()) svg += DrawPanel(panel, records, y);
    y += kPanelHeight + kGap;
  }
  svg += Text((kLeft + kWidth - kRight) / 2, height - 6, "middle", "optimizer step", "fill=\"#555\"");
  return svg + "</svg>\n";
}

}  // namespace buttress
