#include "cli/train/curves.h"

#include <cmath>

#include "cli/svg_plot.h"

namespace buttress {

std::string CurvesSvg(const std::string& title, const std::vector<StepMeasurements>& steps) {
  const auto curve = [&](const char* name, const char* color, double StepMeasurements::*value) {
    PlotSeries series{name, color, {}};
    for (const StepMeasurements& step : steps) {
      if (std::isfinite(step.*value)) series.points.emplace_back(step.step, step.*value);
    }
    return series;
  };
  return PlotsSvg(title,
                  {{.title = "reward (mean of the step)",
                    .stacked = {},
                    .lines = {curve("reward", "#1a7f37", &StepMeasurements::reward_mean)},
                    .top = 1},
                   {.title = "advantage collapse rate",
                    .stacked = {},
                    .lines = {curve("ACR", "#222", &StepMeasurements::acr),
                              curve("effective", "#bf8700", &StepMeasurements::acr_effective),
                              curve("expected", "#0969da", &StepMeasurements::acr_expected),
                              curve("all correct", "#1a7f37", &StepMeasurements::acr_all_correct),
                              curve("all wrong", "#cf222e", &StepMeasurements::acr_all_wrong),
                              curve("other constant", "#8250df", &StepMeasurements::acr_other)},
                    .top = 1},
                   {.title = "entropy (nats per token)",
                    .stacked = {},
                    .lines = {curve("entropy", "#0969da", &StepMeasurements::entropy)},
                    .top = 0},
                   {.title = "accepted tokens per second",
                    .stacked = {},
                    .lines = {curve("busy", "#999", &StepMeasurements::speed_busy),
                              curve("wall clock", "#0969da", &StepMeasurements::speed_wall),
                              curve("fresh", "#1a7f37", &StepMeasurements::speed_fresh)},
                    .top = 0},
                   {.title = "age of the accepted tokens (versions)",
                    .stacked = {},
                    .lines = {curve("mean", "#0969da", &StepMeasurements::token_age_mean),
                              curve("p99", "#cf222e", &StepMeasurements::token_age_p99)},
                    .top = 0}});
}

}  // namespace buttress
