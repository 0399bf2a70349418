#include "learner/step/unit_buffer.h"

#include <torch/types.h>

#include <cstdint>

namespace buttress {

UnitBuffer MakeUnitBuffer(const ParameterUnit& unit, at::ScalarType dtype) {
  std::int64_t elements = 0;
  for (const auto& [name, parameter] : unit.parameters) elements += parameter.numel();
  const at::TensorOptions options = unit.parameters.front().second.options();
  UnitBuffer buffer;
  buffer.flat = at::zeros({elements}, options.dtype(dtype).requires_grad(false));
  std::int64_t begin = 0;
  for (const auto& [name, parameter] : unit.parameters) {
    buffer.views.push_back(buffer.flat.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
    begin += parameter.numel();
  }
  return buffer;
}

}  // namespace buttress
