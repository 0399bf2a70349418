// Copies small tensors of the host to the device of a model.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// Returns `tensor` on `device`. From the CPU to a GPU it goes through pinned memory, so that the
// host does not wait for what the GPU still computes.
inline at::Tensor ToDevice(const at::Tensor& tensor, at::Device device) {
  if (device.is_cpu() || !tensor.is_cpu()) return tensor.to(device);
  return tensor.pin_memory().to(tensor.options().device(device), /*non_blocking=*/true);
}

}  // namespace buttress
