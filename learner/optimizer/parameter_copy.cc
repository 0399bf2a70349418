#include "learner/optimizer/parameter_copy.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

namespace buttress {
namespace {

NamedTensors CopyToPinned(const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  NamedTensors copies;
  for (const auto& [name, tensor] : parameters) {
    const auto options = at::TensorOptions().dtype(tensor.scalar_type()).pinned_memory(true);
    at::Tensor copy = at::empty(tensor.sizes(), options);
    copy.copy_(tensor, /*non_blocking=*/true);
    copies.emplace_back(name, std::move(copy));
  }
  return copies;
}

}  // namespace

ParameterCopy ParameterCopy::Start(const NamedTensors& parameters) {
  ParameterCopy started;
  const at::Device device = parameters.front().second.device();
  if (device.is_cpu()) {
    for (const auto& [name, tensor] : parameters)
      started.copies_.emplace_back(name, tensor.detach());
    return started;
  }
  const c10::impl::VirtualGuardImpl backend(device.type());
  const c10::Stream side = backend.getStreamFromGlobalPool(device);
  c10::Event computed(device.type());
  computed.record(backend.getStream(device));
  computed.block(side);
  const c10::StreamGuard guard(side);
  started.copies_ = CopyToPinned(parameters);
  started.done_.emplace(device.type());
  started.done_->record(side);
  return started;
}

void ParameterCopy::BlockStream() const {
  if (!done_) return;
  done_->block(c10::impl::VirtualGuardImpl(done_->device_type()).getStream(done_->device()));
}

const NamedTensors& ParameterCopy::Wait() const {
  if (done_) done_->synchronize();
  return copies_;
}

}  // namespace buttress
