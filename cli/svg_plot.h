// Plots over steps as SVG: lines, and shares stacked upon one another. One look for every page that
// has plots.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace buttress {

// Values against steps, which rise.
struct PlotSeries {
  std::string name;
  std::string color;
  std::vector<std::pair<double, double>> points;
};

struct Plot {
  std::string title;
  std::vector<PlotSeries> stacked;  // areas from 0 up, at the same steps
  std::vector<PlotSeries>
      lines;       // a mean over a window of steps, the thin line behind it the steps themselves
  double top = 0;  // of the value axis; 0: the largest value
};

// <svg> of a fixed size with the plots under one another; plots without points are left out.
std::string PlotsSvg(const std::string& title, const std::vector<Plot>& plots);

// For text inside XML and HTML.
std::string EscapeXml(const std::string& text);

}  // namespace buttress
