#include "lib/policy/rope.h"

#include <torch/torch.h>

#include <algorithm>

#include "lib/policy/cpu_rows.h"

namespace buttress {

RopeTable::RopeTable(std::int64_t head_dim, double theta, at::Device device)
    : head_dim_(head_dim), theta_(theta), device_(device) {}

void RopeTable::Grow(std::int64_t end) {
  if (cos_PC_.defined() && cos_PC_.size(0) >= end) return;
  const at::NoGradGuard no_grad;
  const std::int64_t size = std::max<std::int64_t>(end + end / 2, 256);
  const auto options = at::TensorOptions(at::kFloat).device(device_);
  // float32 throughout, as transformers computes it.
  const at::Tensor exponents = at::arange(0, head_dim_, 2, at::TensorOptions(at::kLong)).to(at::kFloat) /
                               static_cast<double>(head_dim_);
  const at::Tensor frequencies = (1.0 / at::pow(theta_, exponents)).to(device_);
  const at::Tensor angles = at::outer(at::arange(size, options), frequencies);
  const at::Tensor sin = angles.sin();
  cos_PC_ = at::cat({angles.cos(), angles.cos()}, 1);
  sin_PC_ = at::cat({-sin, sin}, 1);
}

at::Tensor RopeTable::Apply(const at::Tensor& x_NHC, const at::Tensor& positions_N, std::int64_t end) {
  Grow(end);
  if (UsesRowKernels(x_NHC)) {
    at::Tensor out = at::empty(x_NHC.sizes(), x_NHC.options());
    const std::int64_t heads = x_NHC.size(1);
    ForRows(x_NHC, 2 * heads * head_dim_, [&](auto tag, std::int64_t first, std::int64_t rows) {
      using T = decltype(tag);
      const RopeRowsArgs args = {positions_N.const_data_ptr<std::int64_t>() + first,
                                 cos_PC_.const_data_ptr<float>(),
                                 sin_PC_.const_data_ptr<float>(),
                                 rows,
                                 heads,
                                 head_dim_,
                                 x_NHC.stride(0)};
      RopeRows(Rows<T>(x_NHC, first), MutableRows<T>(out, first), args);
    });
    return out;
  }
  const at::Tensor cos = cos_PC_.index_select(0, positions_N).unsqueeze(1);
  const at::Tensor sin = sin_PC_.index_select(0, positions_N).unsqueeze(1);
  const at::Tensor x = x_NHC.to(at::kFloat);
  const auto halves = x.chunk(2, -1);
  return (x * cos + at::cat({halves[1], halves[0]}, -1) * sin).to(x_NHC.scalar_type());
}

}  // namespace buttress
