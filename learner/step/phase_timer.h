// A timer of the phases of a step. Torch.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

namespace buttress {

// Times phases on the CPU by the clock, and on a device by events in its current stream, because
// the host only enqueues the work there. Not thread-safe.
class PhaseTimer {
 public:
  // Measures a phase: the time of its life, or on a device the time that its work takes there. Its
  // timer outlives it.
  class Span {
   public:
    // Adds to `seconds`: at the end on the CPU, and in Settle on a device.
    Span(PhaseTimer& timer, double& seconds);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    PhaseTimer& timer_;
    double& seconds_;
    double started_ = 0;               // on the CPU
    std::optional<c10::Event> begin_;  // on a device
  };

  explicit PhaseTimer(c10::Device device) : device_(device) {}

  // Waits until the device has done the work of its current stream. Returns at once on the CPU.
  void WaitForDevice() const;

  // Waits until the device has done the phases that have ended, and adds their seconds.
  void Settle();

  // Forgets the phases that Settle has not added.
  void Reset() { phases_.clear(); }

 private:
  struct Phase {
    c10::Event begin;
    c10::Event end;
    double* seconds;
  };

  c10::Event Now() const;

  const c10::Device device_;
  std::vector<Phase> phases_;
};

}  // namespace buttress
