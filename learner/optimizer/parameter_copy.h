// The parameters in host memory, for a reader on another thread. Torch.
#pragma once

#include <c10/core/Event.h>

#include <optional>

#include "learner/optimizer/optimizer.h"

namespace buttress {

// On a device they are copied to pinned memory in a stream of its own, while the device computes
// on. On the CPU they are read where they are, which costs no memory, and do not change before the
// reader is done (WeightSync). One thread may wait for the copy and another block on it.
class ParameterCopy {
 public:
  // Copies the values that the work enqueued in the current stream leaves. The parameters must live
  // as long as the copy is in progress. Throws what LibTorch throws.
  static ParameterCopy Start(const NamedTensors& parameters);

  // Lets work that is enqueued from now on, in the current stream, wait for the copy. REQUIRES: the
  // parameters do not change between Start and this call.
  void BlockStream() const;

  // Whether the parameters themselves are read.
  bool in_place() const { return !done_; }

  // Waits until the copy is complete and returns it, on the CPU.
  const NamedTensors& Wait() const;

 private:
  NamedTensors copies_;
  std::optional<c10::Event> done_;  // on a device
};

}  // namespace buttress
