#include "lib/policy/weights/stored_units.h"

#include <torch/types.h>

#include <exception>
#include <utility>

#include "lib/policy/exception_status.h"

namespace buttress {

StoredUnits::StoredUnits(const std::vector<ParameterUnit>& units, StoredParameters values)
    : units_(units), values_(std::move(values)), holds_(units.size()) {
  std::size_t next = 0;
  for (const ParameterUnit& unit : units) {
    first_.push_back(next);
    next += unit.parameters.size();
  }
}

StoredUnits::~StoredUnits() { Drop(); }

void StoredUnits::Prefetch(std::size_t unit) {
  if (holds_[unit] > 0 || (ahead_ && ahead_->unit == unit)) return;
  Drop();
  const at::Tensor& flat = units_[unit].flat;
  TakeMemory(flat);
  const at::Tensor host =
      flat.is_cpu()
          ? flat
          : at::empty({flat.numel()}, flat.options().device(at::kCPU).pinned_memory(true));
  ahead_ =
      Ahead{unit, host, std::async(std::launch::async, [=, this] { return Read(unit, host); })};
}

void StoredUnits::Gather(std::size_t unit) {
  if (holds_[unit] == 0) {
    Prefetch(unit);
    Ahead ahead = *std::exchange(ahead_, std::nullopt);
    const Status status = ahead.read.get();
    if (!status.ok()) {
      ReleaseMemory(units_[unit].flat);
      throw StatusError(status.Annotate("weights of " + units_[unit].name));
    }
    if (!units_[unit].flat.is_cpu())
      at::Tensor(units_[unit].flat).copy_(ahead.host, /*non_blocking=*/true);
  }
  ++holds_[unit];
}

void StoredUnits::Release(std::size_t unit) {
  if (--holds_[unit] == 0) ReleaseMemory(units_[unit].flat);
}

void StoredUnits::Drop() {
  if (!ahead_) return;
  ahead_->read.wait();
  ReleaseMemory(units_[ahead_->unit].flat);
  ahead_.reset();
}

// Fills `host` with the values of the unit. Runs on a thread of its own.
Status StoredUnits::Read(std::size_t unit, const at::Tensor& host) const {
  const at::NoGradGuard no_grad;
  try {
    std::size_t index = first_[unit];
    for (const at::Tensor& values : ViewsOf(units_[unit], host))
      BUTTRESS_RETURN_IF_ERROR(values_.CopyTo(index++, values));
  } catch (const std::exception& e) {
    return StatusOf(e, "set local.learner.reference: device");
  }
  return OkStatus();
}

}  // namespace buttress
