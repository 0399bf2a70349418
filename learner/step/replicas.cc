#include "learner/step/replicas.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace buttress {
namespace {

// Elements summed at a time: LibTorch widens them to int64 first, which for a large embedding would
// need more memory than a step.
constexpr std::int64_t kChunk = std::int64_t{1} << 22;

// The sum of the elements as integers of their size, modulo 2^64.
std::uint64_t SumOfBits(const at::Tensor& tensor) {
  const at::ScalarType integers = tensor.element_size() == 4   ? at::kInt
                                  : tensor.element_size() == 8 ? at::kLong
                                                               : at::kShort;
  std::uint64_t sum = 0;
  for (const at::Tensor& chunk : tensor.detach().view(integers).flatten().split(kChunk))
    sum += static_cast<std::uint64_t>(chunk.sum(at::kLong).item<std::int64_t>());
  return sum;
}

}  // namespace

std::int64_t DigestOf(const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  std::uint64_t digest = 0;
  for (const auto& [name, tensor] : tensors) {
    constexpr std::uint64_t kOddFactor = 0x9e3779b97f4a7c15u;
    digest = digest * kOddFactor + SumOfBits(tensor);
  }
  return static_cast<std::int64_t>(digest);
}

Status CompareReplicas(const std::string& what, const NamedTensors& tensors, Collective& control,
                       std::chrono::milliseconds timeout) {
  std::int64_t own = DigestOf(tensors);
  std::vector<std::int64_t> all(static_cast<std::size_t>(control.size()));
  BUTTRESS_RETURN_IF_ERROR(
      control
          .AllGather({&own, 1, DType::kInt64},
                     {all.data(), static_cast<std::int64_t>(all.size()), DType::kInt64})
          ->Wait(timeout)
          .Annotate("digests of " + what));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    return DataLoss(c10::str("rank ", rank, " has other ", what,
                             " than rank 0, although both made the same updates; check the memory "
                             "of its machine, and start again from the last checkpoint"));
  }
  return OkStatus();
}

}  // namespace buttress
