// A copy of the parameters in host memory. Torch.
#pragma once

#include <c10/core/Event.h>

#include <optional>

#include "learner/optimizer.h"

namespace buttress {

// On a device the copy goes to pinned memory in a stream of its own, while the device computes on.
// On the CPU it is complete when Start returns. One thread may wait for it and another block on it.
class ParameterCopy {
 public:
  // Copies the values that the work enqueued in the current stream leaves. The parameters must live
  // as long as the copy is in progress. Throws what LibTorch throws.
  static ParameterCopy Start(const NamedTensors& parameters);

  // Lets work that is enqueued from now on, in the current stream, wait for the copy. REQUIRES: the
  // parameters do not change between Start and this call.
  void BlockStream() const;

  // Waits until the copy is complete and returns it, on the CPU.
  const NamedTensors& Wait() const;

 private:
  NamedTensors copies_;
  std::optional<c10::Event> done_;  // on a device
};

}  // namespace buttress
