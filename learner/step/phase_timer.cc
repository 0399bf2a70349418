#include "learner/step/phase_timer.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "lib/base/os/clock.h"

namespace buttress {

PhaseTimer::Span::Span(PhaseTimer& timer, double& seconds) : timer_(timer), seconds_(seconds) {
  if (timer_.device_.is_cpu()) {
    started_ = MonotonicSeconds();
  } else {
    begin_.emplace(timer_.Now());
  }
}

PhaseTimer::Span::~Span() {
  if (timer_.device_.is_cpu()) {
    seconds_ += MonotonicSeconds() - started_;
    return;
  }
  try {
    timer_.phases_.push_back({*std::move(begin_), timer_.Now(), &seconds_});
  } catch (const c10::Error&) {
    // A device that has failed. The next call on it throws as well, where it can be reported.
  }
}

void PhaseTimer::WaitForDevice() const {
  if (!device_.is_cpu()) Now().synchronize();
}

void PhaseTimer::Settle() {
  if (!phases_.empty()) phases_.back().end.synchronize();  // and so all before it in the stream
  for (Phase& phase : phases_) {
    *phase.seconds += phase.begin.elapsedTime(phase.end) / 1000;
  }
  phases_.clear();
}

c10::Event PhaseTimer::Now() const {
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return event;
}

}  // namespace buttress
