// Copies small tensors of the host to the device of a model.
#pragma once

#include <ATen/core/Tensor.h>

namespace buttress {

// Returns `host`, a tensor on the CPU, on `device`. To a GPU it goes through pinned memory, so that
// the host does not wait for what the GPU still computes.
inline at::Tensor ToDevice(const at::Tensor& host, at::Device device) {
  if (!device.is_cuda()) return host.to(device);
  return host.pin_memory().to(host.options().device(device), /*non_blocking=*/true);
}

}  // namespace buttress
