// The operators of the device for tests: the kernels of the CPU, enqueued on the current stream of
// the device with tensors over the bytes behind its addresses.
//
// The shape of a result comes from a run on zeros. An operator whose result is not a tensor, or has
// a shape that depends on values, waits for the stream, as on a GPU.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/device/runtime.h"
#include "tests/support/fakes/cpu_flash_attention.h"

namespace test_device {
namespace {

using torch::jit::Stack;

bool OnDevice(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_privateuseone();
}

Stream& StreamFor(const at::Tensor& tensor) {
  const int device = tensor.device().index();
  return StreamOf(device, CurrentStream(device));
}

// The tensor for a kernel: the bytes behind it. It keeps no reference, so that memory is freed as
// on a GPU, in the order of the stream.
at::Tensor Behind(const at::Tensor& tensor) {
  return torch::from_blob(HostOf(tensor.data_ptr()), tensor.sizes(), tensor.strides(),
                          tensor.options().device(at::kCPU).requires_grad(false));
}

at::Tensor ZerosLike(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU))
      .zero_();
}

at::Tensor EmptyOn(at::Device device, const at::Tensor& like) {
  return at::empty_strided(like.sizes(), like.strides(), like.options().device(device));
}

using Change = std::function<at::Tensor(const at::Tensor&)>;

// Returns the value with its tensors changed.
c10::IValue Changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(change(tensor));
    return tensors;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      tensors.push_back(tensor ? std::optional(change(*tensor)) : std::nullopt);
    return tensors;
  }
  if (value.isDevice()) return at::Device(at::kCPU);
  return value;
}

Stack Changed(const Stack& values, const Change& change) {
  Stack changed;
  for (const c10::IValue& value : values) changed.push_back(Changed(value, change));
  return changed;
}

// Checks that all tensors are on one device, which it returns. Scalars may be on the CPU.
at::Device DeviceOfAll(const c10::OperatorHandle& op, const Stack& arguments) {
  std::optional<at::Device> device;
  const Change check = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || (tensor.is_cpu() && tensor.dim() == 0)) return tensor;
    TORCH_CHECK(tensor.device().is_privateuseone() && (!device || *device == tensor.device()),
                op.schema().name(), ": expected all tensors to be on the same device, but found ",
                device.value_or(at::Device(at::kPrivateUse1)), " and ", tensor.device());
    device = tensor.device();
    return tensor;
  };
  Changed(arguments, check);
  TORCH_CHECK(device, op.schema().name(), " has no tensor on the device");
  return *device;
}

// Calls the kernel of the CPU and returns its results.
Stack OnCpu(const c10::OperatorHandle& op, Stack arguments) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  op.callBoxed(&arguments);
  return arguments;
}

// Copies what a kernel has returned to the memory of its results.
void Store(const c10::IValue& result, const std::vector<at::Tensor>& places, std::size_t& next) {
  Changed(result, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const at::Tensor& place = places.at(next++);
    TORCH_CHECK(place.sizes() == tensor.sizes() && place.scalar_type() == tensor.scalar_type(),
                "test device: a result of shape ", tensor.sizes(), " where zeros give ",
                place.sizes(), "; its operator must wait for the stream");
    return place.copy_(tensor);
  });
}

// The argument that a result is an alias of, if it is one.
std::optional<c10::IValue> Written(const c10::FunctionSchema& schema, std::size_t result,
                                   const Stack& arguments) {
  const c10::AliasInfo* const alias = schema.returns()[result].alias_info();
  if (alias == nullptr) return std::nullopt;
  TORCH_CHECK(alias->isWrite(), schema.name(), " returns a view: register it for the test device");
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* const own = schema.arguments()[i].alias_info();
    if (own != nullptr && own->beforeSets() == alias->beforeSets()) return arguments[i];
  }
  TORCH_CHECK(false, schema.name(), ": a result is an alias of no argument");
}

// Operators that the host waits in because the kernel of the CPU needs their values, and that a GPU
// runs late.
bool RunsLateOnGpus(const c10::FunctionSchema& schema) {
  return schema.name().starts_with("aten::_flash_attention_") ||
         schema.name() == "aten::repeat_interleave";  // with its output_size
}

bool Waits(const c10::FunctionSchema& schema) {
  static constexpr std::string_view names[] = {
      "aten::_unique2", "aten::nonzero", "aten::masked_select", "aten::repeat_interleave",
      // Lengths of zero are not those of the rows.
      "aten::_flash_attention_forward", "aten::_flash_attention_backward"};
  return std::find(std::begin(names), std::end(names), schema.name()) != std::end(names) ||
         std::any_of(schema.returns().begin(), schema.returns().end(), [](const auto& result) {
           return result.type()->kind() != c10::TypeKind::TensorType &&
                  result.type()->kind() != c10::TypeKind::ListType;
         });
}

at::Tensor Upload(at::Device device, const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const at::Tensor result = EmptyOn(device, tensor);
  StreamFor(result).Enqueue([to = Behind(result), tensor] { at::Tensor(to).copy_(tensor); });
  return result;
}

void RunAndWait(const c10::OperatorHandle& op, at::Device device, Stack arguments, Stack& results) {
  if (!RunsLateOnGpus(op.schema())) CountHostWait(HostWait::kShape);
  StreamOf(device.index(), CurrentStream(device.index())).Synchronize();
  for (const c10::IValue& result : OnCpu(op, std::move(arguments))) {
    results.push_back(
        Changed(result, [device](const at::Tensor& tensor) { return Upload(device, tensor); }));
  }
}

void RunLate(const c10::OperatorHandle& op, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const Stack arguments = torch::jit::pop(*stack, schema.arguments().size());
  const at::Device device = DeviceOfAll(op, arguments);
  const c10::DeviceGuard guard(device);
  const auto behind = [](const at::Tensor& tensor) {
    return OnDevice(tensor) ? Behind(tensor) : tensor.defined() ? tensor.detach() : tensor;
  };
  if (Waits(schema)) return RunAndWait(op, device, Changed(arguments, behind), *stack);
  Stack results;
  bool needs_shapes = false;
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    results.push_back(Written(schema, i, arguments).value_or(c10::IValue()));
    const c10::IValue& written = results.back();
    needs_shapes |= written.isNone() || (written.isTensor() && written.toTensor().numel() == 0);
  }
  std::vector<at::Tensor> places;
  if (needs_shapes) {
    const Stack shapes = OnCpu(op, Changed(arguments, [](const at::Tensor& tensor) {
                                 return OnDevice(tensor) ? ZerosLike(tensor) : tensor;
                               }));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].isTensor() && results[i].toTensor().sizes() != shapes[i].toTensor().sizes())
        results[i].toTensor().resize_(shapes[i].toTensor().sizes());
      if (!results[i].isNone()) continue;
      results[i] = Changed(shapes[i], [&](const at::Tensor& tensor) {
        if (!tensor.defined()) return tensor;
        const at::Tensor result = EmptyOn(device, tensor);
        places.push_back(Behind(result));
        return result;
      });
    }
  }
  StreamOf(device.index(), CurrentStream(device.index()))
      .Enqueue([op, late = Changed(arguments, behind), places] {
        std::size_t next = 0;
        const Stack own = OnCpu(op, late);
        for (std::size_t i = 0; i < own.size(); ++i) {
          if (op.schema().returns()[i].alias_info() == nullptr) Store(own[i], places, next);
        }
      });
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

at::Tensor Empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, c10::GetAllocator(at::kPrivateUse1),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor EmptyStrided(at::IntArrayRef size, at::IntArrayRef stride,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                        std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(at::kPrivateUse1),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

// Copies as CUDA does: only one between the device and pinned memory lets the host continue.
at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const at::Tensor& on_device = OnDevice(from) ? from : to;
  Stream& stream = StreamFor(on_device);
  if (OnDevice(from) && OnDevice(to)) {
    if (from.device() != to.device()) {
      WaitOnStream(stream, Record(StreamFor(to)));
      stream.Enqueue([to = Behind(to), from = Behind(from)] { at::Tensor(to).copy_(from); });
      WaitOnStream(StreamFor(to), Record(stream));
      return to;
    }
    stream.Enqueue([to = Behind(to), from = Behind(from)] { at::Tensor(to).copy_(from); });
    return to;
  }
  const at::Tensor& host = OnDevice(from) ? to : from;
  const at::Tensor source = OnDevice(from) ? Behind(from) : from.detach();
  const at::Tensor target = OnDevice(to) ? Behind(to) : to.detach();
  stream.Enqueue([target, source] {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    at::Tensor(target).copy_(source);
  });
  if (!(non_blocking && host.is_pinned())) {
    CountHostWait(HostWait::kCopy);
    stream.Synchronize();
  }
  return to;
}

at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return CopyFrom(from, to, false);
}

at::Scalar Item(const at::Tensor& tensor) {
  CountHostWait(HostWait::kScalar);
  StreamFor(tensor).Synchronize();
  return Behind(tensor).item();
}

// CUDA's matrix product of bfloat16 with a float32 result, which the CPU lacks.
at::Tensor WideProduct(const at::Tensor& a, const at::Tensor& b, at::ScalarType dtype) {
  return at::mm(a.to(dtype), b.to(dtype));
}

void RecordStream(at::Tensor& tensor, at::Stream stream) {
  UseOnStream(tensor.storage().mutable_data(), StreamOf(stream.device_index(), stream.id()));
}

TORCH_LIBRARY_IMPL(aten, CPU, m) { buttress::RegisterCpuFlashAttention(m); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&RunLate>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", Empty);
  m.impl("empty_strided", EmptyStrided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("resize_", TORCH_FN(at::native::resize_));
  m.impl("_copy_from", CopyFrom);
  m.impl("_copy_from_and_resize", CopyFromAndResize);
  m.impl("_local_scalar_dense", Item);
  m.impl("mm.dtype", WideProduct);
  m.impl("record_stream", RecordStream);
  // CPU and CUDA have kernels for these; other devices would compute them from other operators.
  for (const char* const name : {"silu_backward", "silu_backward.grad_input"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&RunLate>());
}

}  // namespace
}  // namespace test_device
