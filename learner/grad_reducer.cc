#include "learner/grad_reducer.h"

#include <torch/types.h>

#include <cmath>
#include <memory>

#include "lib/base/check.h"

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

Buffer BufferOf(const at::Tensor& tensor) {
  BUTTRESS_CHECK(tensor.is_contiguous(), "the buffer of a collective must be contiguous");
  return {tensor.data_ptr(), tensor.numel(), DTypeOf(tensor.scalar_type()),
          tensor.is_cuda() ? DeviceKind::kCuda : DeviceKind::kCpu};
}

GradReducer::GradReducer(const std::vector<ParameterUnit>& units, Collective& collective,
                         std::chrono::milliseconds timeout)
    : collective_(collective), timeout_(timeout) {
  for (const ParameterUnit& unit : units) {
    std::int64_t elements = 0;
    for (const auto& [name, parameter] : unit.parameters) elements += parameter.numel();
    const at::Tensor& any = unit.parameters.front().second;
    const at::Tensor bucket =
        at::zeros({elements}, any.options().dtype(at::kFloat).requires_grad(false));
    first_.push_back(gradients_.size());
    std::int64_t begin = 0;
    for (const auto& [name, parameter] : unit.parameters) {
      gradients_.push_back(bucket.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
      begin += parameter.numel();
    }
    buckets_.push_back(bucket);
  }
}

void GradReducer::Add(std::size_t unit, std::size_t index, const at::Tensor& gradient) {
  gradients_[first_[unit] + index].add_(gradient);
}

void GradReducer::AddRows(std::size_t unit, std::size_t index, std::int64_t first,
                          const at::Tensor& gradient) {
  gradients_[first_[unit] + index].narrow(0, first, gradient.size(0)).add_(gradient);
}

void GradReducer::Zero() {
  for (at::Tensor& bucket : buckets_) bucket.zero_();
}

Status GradReducer::Reduce() {
  if (collective_.size() == 1) return OkStatus();
  std::vector<std::unique_ptr<Work>> works;
  for (const at::Tensor& bucket : buckets_)
    works.push_back(collective_.AllReduceSum(BufferOf(bucket)));
  for (const auto& work : works)
    BUTTRESS_RETURN_IF_ERROR(work->Wait(timeout_).Annotate("sum of gradients"));
  return OkStatus();
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

std::int64_t GradReducer::bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& bucket : buckets_) bytes += static_cast<std::int64_t>(bucket.nbytes());
  return bytes;
}

}  // namespace buttress
