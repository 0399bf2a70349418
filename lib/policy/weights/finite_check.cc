#include "lib/policy/weights/finite_check.h"

#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>

namespace buttress {
namespace {

using NamedTensor = std::pair<std::string, at::Tensor>;

// Values that are summed at a time on a CPU, where LibTorch copies bfloat16 to float32 first.
constexpr std::int64_t kSlice = std::int64_t{1} << 22;

// A sum of squares that is finite proves that all values are; one that is not may have overflowed.
bool SumIsFinite(const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> norms;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor flat = tensor.detach().reshape({-1});
    const std::int64_t most = flat.is_cpu() ? kSlice : std::max<std::int64_t>(1, flat.numel());
    for (const at::Tensor& slice : flat.split(most))
      norms.push_back(at::linalg_vector_norm(slice, 2, {}, false, at::kFloat));
  }
  return norms.empty() || at::isfinite(at::stack(norms)).all().item<bool>();
}

std::int64_t CountOf(const at::Tensor& marks) { return marks.sum().item<std::int64_t>(); }

std::string Describe(const NamedTensor& named) {
  const at::Tensor tensor = named.second.detach();
  std::string shape;
  for (const std::int64_t size : tensor.sizes())
    shape += (shape.empty() ? "" : ", ") + c10::str(size);
  return c10::str(named.first, " [", shape, "]: ", CountOf(at::isnan(tensor)), " NaN and ",
                  CountOf(at::isinf(tensor)), " infinite of ", tensor.numel(), " values");
}

}  // namespace

bool AllFinite(const std::vector<NamedTensor>& tensors) {
  return SumIsFinite(tensors) || DescribeNonFinite(tensors).empty();
}

std::string DescribeNonFinite(const std::vector<NamedTensor>& tensors) {
  const NamedTensor* first = nullptr;
  int more = -1;
  for (const NamedTensor& named : tensors) {
    if (at::isfinite(named.second.detach()).all().item<bool>()) continue;
    if (first == nullptr) first = &named;
    ++more;
  }
  if (first == nullptr) return "";
  return Describe(*first) + (more > 0 ? c10::str(" (and ", more, " more tensors)") : "");
}

Status CheckFinite(const std::vector<NamedTensor>& tensors, const std::string& what,
                   const std::string& fix) {
  if (AllFinite(tensors)) return OkStatus();
  return DataLoss(what + ": " + DescribeNonFinite(tensors) + "; " + fix);
}

}  // namespace buttress
