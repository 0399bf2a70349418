#include "learner/grad_reducer.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <memory>

#include "lib/base/check.h"

namespace buttress {
namespace {

// Large enough for full bandwidth, small enough that the sum of one bucket overlaps the transfer of
// the next.
constexpr std::int64_t kBucketElements = std::int64_t{8} << 20;

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

GradReducer::GradReducer(const NamedTensors& parameters, Collective& collective,
                         std::chrono::milliseconds timeout)
    : collective_(collective), timeout_(timeout) {
  for (const auto& [name, parameter] : parameters) parameters_.push_back(parameter);
  std::size_t first = 0;
  while (first < parameters_.size()) {
    std::int64_t elements = 0;
    std::size_t end = first;
    while (end < parameters_.size() &&
           (end == first || elements + parameters_[end].numel() <= kBucketElements)) {
      elements += parameters_[end++].numel();
    }
    const at::Tensor bucket =
        at::zeros({elements}, parameters_[first].options().dtype(at::kFloat).requires_grad(false));
    std::int64_t begin = 0;
    for (; first < end; ++first) {
      const at::Tensor& parameter = parameters_[first];
      gradients_.push_back(bucket.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
      begin += parameter.numel();
    }
    buckets_.push_back(bucket);
  }
  // The backward pass adds to the gradient of a float32 parameter where it is.
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].scalar_type() == at::kFloat) parameters_[i].mutable_grad() = gradients_[i];
  }
}

void GradReducer::Backward(const at::Tensor& loss) {
  if (parameters_.front().scalar_type() == at::kFloat) return loss.backward();
  const auto parts = torch::autograd::grad({loss}, parameters_);
  for (std::size_t i = 0; i < parts.size(); ++i) gradients_[i].add_(parts[i]);
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
