// The plot that ends a run: reward, ACR split by kind, and entropy over steps, as SVG.
#pragma once

#include <string>
#include <vector>

#include "lib/measure/measurements.h"

namespace buttress {

// Three panels under one another; every curve is the mean over a window of steps, the thin line
// behind it the steps themselves.
std::string CurvesSvg(const std::string& title, const std::vector<StepMeasurements>& steps);

}  // namespace buttress
