#include "learner/grad_reducer.h"

#include <torch/types.h>

#include <cmath>
#include <memory>

#include "lib/base/check.h"

namespace buttress {
namespace {

// Large enough for full bandwidth, small enough that the sum of one bucket overlaps the transfer of
// the next.
constexpr std::int64_t kBucketBytes = std::int64_t{32} << 20;

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
  std::size_t first = 0;
  while (first < parameters.size()) {
    std::int64_t elements = 0;
    std::size_t end = first;
    const std::int64_t limit =
        kBucketBytes / static_cast<std::int64_t>(parameters[first].second.element_size());
    while (end < parameters.size() &&
           (end == first || elements + parameters[end].second.numel() <= limit)) {
      elements += parameters[end++].second.numel();
    }
    const at::Tensor bucket =
        at::zeros({elements}, parameters[first].second.options().requires_grad(false));
    std::int64_t begin = 0;
    for (; first < end; ++first) {
      at::Tensor parameter = parameters[first].second;
      parameter.mutable_grad() = bucket.narrow(0, begin, parameter.numel()).view(parameter.sizes());
      begin += parameter.numel();
    }
    buckets_.push_back(bucket);
  }
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
