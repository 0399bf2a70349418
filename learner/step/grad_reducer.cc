#include "learner/step/grad_reducer.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "lib/base/os/memory.h"
#include "lib/base/report/check.h"

namespace buttress {
namespace {

DType DTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    default:
      break;
  }
  BUTTRESS_CHECK(false, "collectives do not sum tensors of this dtype");
  return DType::kUInt8;
}

}  // namespace

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

Buffer BufferOf(const at::Tensor& tensor) {
  BUTTRESS_CHECK(tensor.is_contiguous(), "the buffer of a collective must be contiguous");
  return {tensor.data_ptr(), tensor.numel(), DTypeOf(tensor.scalar_type()),
          tensor.is_cuda() ? DeviceKind::kCuda : DeviceKind::kCpu};
}

GradReducer::GradReducer(const std::vector<ParameterUnit>& units, Collective& collective,
                         std::chrono::milliseconds timeout)
    : units_(units), collective_(collective), timeout_(timeout), buckets_(units.size()) {
  std::size_t parameters = 0;
  for (const ParameterUnit& unit : units_) {
    first_.push_back(parameters);
    parameters += unit.parameters.size();
    for (const auto& [name, parameter] : unit.parameters)
      bytes_ += parameter.numel() * static_cast<std::int64_t>(sizeof(float));
  }
  gradients_.resize(parameters);
}

void GradReducer::Allocate(std::size_t unit) {
  if (buckets_[unit].defined()) return;
  ReturnFreedMemory();  // of activations, which a bucket is too large to reuse
  UnitBuffer buffer = MakeUnitBuffer(units_[unit], at::kFloat);
  buckets_[unit] = std::move(buffer.flat);
  std::move(buffer.views.begin(), buffer.views.end(),
            gradients_.begin() + static_cast<std::ptrdiff_t>(first_[unit]));
}

void GradReducer::Add(std::size_t unit, std::size_t index, const at::Tensor& gradient) {
  Allocate(unit);
  gradients_[first_[unit] + index].add_(gradient);
}

void GradReducer::AddRows(std::size_t unit, std::size_t index, std::int64_t first,
                          const at::Tensor& gradient) {
  Allocate(unit);
  gradients_[first_[unit] + index].narrow(0, first, gradient.size(0)).add_(gradient);
}

void GradReducer::AddRowsAt(std::size_t unit, std::size_t index, const at::Tensor& rows_U,
                            const at::Tensor& gradient_UD) {
  Allocate(unit);
  gradients_[first_[unit] + index].index_add_(0, rows_U, gradient_UD);
}

void GradReducer::Clear() {
  std::fill(gradients_.begin(), gradients_.end(), at::Tensor());
  std::fill(buckets_.begin(), buckets_.end(), at::Tensor());
}

Status GradReducer::Reduce() {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) Allocate(unit);
  if (collective_.size() == 1) return OkStatus();
  std::vector<std::unique_ptr<Work>> works;
  for (const at::Tensor& bucket : buckets_)
    works.push_back(collective_.AllReduceSum(BufferOf(bucket)));
  for (const auto& work : works)
    BUTTRESS_RETURN_IF_ERROR(work->Wait(timeout_).Annotate("sum of gradients"));
  return OkStatus();
}

std::vector<std::pair<std::string, at::Tensor>> GradReducer::named_gradients() const {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const ParameterUnit& unit : units_) {
    for (const auto& [name, parameter] : unit.parameters)
      named.emplace_back(name, gradients_[named.size()]);
  }
  return named;
}

double GradReducer::Norm() const {
  double squares = 0;
  for (const at::Tensor& bucket : buckets_) {
    const double norm =
        at::linalg_vector_norm(bucket, 2, std::nullopt, false, at::kFloat).item<float>();
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

void GradReducer::Scale(double factor) {
  for (at::Tensor& bucket : buckets_) bucket.mul_(factor);
}

}  // namespace buttress
