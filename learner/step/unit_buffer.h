// One buffer for what goes with the parameters of a unit: gradients, moments, masters. Torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lib/policy/transformer.h"

namespace buttress {

struct UnitBuffer {
  at::Tensor flat;                // one value for each value of the unit's parameters
  std::vector<at::Tensor> views;  // by parameter, in its shape
};

// Returns zeros on the device of the unit.
UnitBuffer MakeUnitBuffer(const ParameterUnit& unit, at::ScalarType dtype);

}  // namespace buttress
