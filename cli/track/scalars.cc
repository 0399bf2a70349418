#include <algorithm>
#include <cmath>

#include "cli/track/tracker.h"

namespace buttress {
namespace {

void AddIfMeasured(std::vector<Scalar>& scalars, std::string name, double value) {
  if (std::isfinite(value)) scalars.push_back({std::move(name), value});
}

}  // namespace

std::vector<Scalar> ScalarsOf(const StepMeasurements& step) {
  std::vector<Scalar> scalars;
  for (const Measurement& row : MeasurementTable()) {
    if (row.name == "step" || row.name == "time_unix") continue;
    std::string name(row.name);
    std::ranges::replace(name, '.', '/');
    AddIfMeasured(scalars, std::move(name), step.*row.value);
  }
  for (const SourceMeasurements& source : step.sources) {
    const std::string folder = "sources/" + source.source + "/";
    AddIfMeasured(scalars, folder + "acr", source.acr());
    AddIfMeasured(scalars, folder + "reward_mean", source.reward_mean());
    AddIfMeasured(scalars, folder + "accuracy", source.accuracy());
    AddIfMeasured(scalars, folder + "groups", static_cast<double>(source.collapse.groups));
  }
  return scalars;
}

}  // namespace buttress
