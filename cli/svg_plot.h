// Plots over steps as SVG: lines, and stacked areas; and the pages of reports with such plots.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace buttress {

// Values at increasing steps: (step, value).
struct PlotSeries {
  std::string name;
  std::string color;
  std::vector<std::pair<double, double>> points = {};
};

struct Plot {
  std::string title;
  std::vector<PlotSeries> stacked = {};  // areas on top of one another, at the same steps
  // Each line is drawn twice: thick, a running mean over a window of steps; thin, the values.
  std::vector<PlotSeries> lines = {};
  double top = 0;  // upper end of the value axis; 0: the largest value, rounded up
};

// Returns an <svg> element of fixed width with the plots below one another. Plots without points
// are left out.
std::string PlotsSvg(const std::vector<Plot>& plots);

// Returns a page without external addresses, in the style of reports: classes `tiles`, `tile`,
// `about`, `note`, `bar`, `dot`, `plots`, and of cells `n` (number), `name`, `bars` and `wide`. It
// fits the screen of a phone: what is wider, tables and `plots`, scrolls by itself.
std::string HtmlPage(const std::string& title, const std::string& body);

// Escapes text for XML and HTML.
std::string EscapeXml(const std::string& text);

}  // namespace buttress
