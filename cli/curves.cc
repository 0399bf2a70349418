#include "cli/curves.h"

#include "cli/svg_plot.h"

namespace buttress {

std::string CurvesSvg(const std::string& title, const std::vector<StepRecord>& records) {
  const auto curve = [&](const char* name, const char* color, double StepRecord::*value) {
    PlotSeries series{name, color, {}};
    for (const StepRecord& record : records)
      series.points.emplace_back(static_cast<double>(record.step), record.*value);
    return series;
  };
  return PlotsSvg(title, {{.title = "reward (mean of the step)",
                           .stacked = {},
                           .lines = {curve("reward", "#1a7f37", &StepRecord::reward_mean)},
                           .top = 1},
                          {.title = "advantage collapse rate",
                           .stacked = {},
                           .lines = {curve("ACR", "#222", &StepRecord::acr),
                                     curve("all correct", "#1a7f37", &StepRecord::acr_all_correct),
                                     curve("all wrong", "#cf222e", &StepRecord::acr_all_wrong),
                                     curve("other constant", "#8250df", &StepRecord::acr_other)},
                           .top = 1},
                          {.title = "entropy (nats a token)",
                           .stacked = {},
                           .lines = {curve("entropy", "#0969da", &StepRecord::entropy)},
                           .top = 0}});
}

}  // namespace buttress
