#include "lib/policy/norm.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include "lib/policy/cpu_rows.h"

namespace buttress {

at::Tensor RmsNorm(const at::Tensor& x_ND, const at::Tensor& weight_D, double eps) {
  if (UsesRowKernels(x_ND)) {
    at::Tensor out = at::empty(x_ND.sizes(), x_ND.options());
    const std::int64_t D = x_ND.size(1);
    ForRows(x_ND, D, [&](auto tag, std::int64_t first, std::int64_t rows) {
      using T = decltype(tag);
      RmsNormRows(Rows<T>(x_ND, first), Rows<T>(weight_D, 0), MutableRows<T>(out, first), nullptr, rows, D,
                  static_cast<float>(eps));
    });
    return out;
  }
  const at::Tensor x = x_ND.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps);
  return weight_D * (x * scale).to(x_ND.scalar_type());
}

}  // namespace buttress
