#include <algorithm>
#include <cmath>

#include "cli/track/tracker.h"

namespace buttress {
namespace {

void AddIfMeasured(std::vector<Scalar>& scalars, std::string name, double value, double step) {
  if (std::isfinite(value)) scalars.push_back({std::move(name), value, step});
}

}  // namespace

std::vector<Scalar> ScalarsOf(const StepMeasurements& step) {
  std::vector<Scalar> scalars;
  for (const Measurement& row : MeasurementTable()) {
    if (row.name == "step" || row.name == "time_unix" || row.name == "eval.step") continue;
    std::string name(row.name);
    std::ranges::replace(name, '.', '/');
    const double of = row.name.starts_with("eval.") ? step.eval_step : step.step;
    AddIfMeasured(scalars, std::move(name), step.*row.value, of);
  }
  for (const SourceMeasurements& source : step.sources) {
    const std::string folder = "sources/" + source.source + "/";
    AddIfMeasured(scalars, folder + "acr", source.acr(), step.step);
    AddIfMeasured(scalars, folder + "reward_mean", source.reward_mean(), step.step);
    AddIfMeasured(scalars, folder + "accuracy", source.accuracy(), step.step);
    AddIfMeasured(scalars, folder + "groups", static_cast<double>(source.collapse.groups),
                  step.step);
  }
  return scalars;
}

std::vector<Scalar> ScalarsOf(const EvalRow& row) {
  const auto step = static_cast<double>(row.step);
  std::vector<Scalar> scalars;
  AddIfMeasured(scalars, "eval/accuracy", row.accuracy, step);
  AddIfMeasured(scalars, "eval/reward_mean", row.reward_mean, step);
  AddIfMeasured(scalars, "eval/completions", static_cast<double>(row.completions), step);
  AddIfMeasured(scalars, "eval/truncated_share", row.truncated_share(), step);
  return scalars;
}

}  // namespace buttress
