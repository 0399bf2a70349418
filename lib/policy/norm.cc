#include "lib/policy/norm.h"

#include <torch/torch.h>

namespace buttress {

at::Tensor RmsNorm(const at::Tensor& x_ND, const at::Tensor& weight_D, double eps) {
  const at::Tensor x = x_ND.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps);
  return weight_D * (x * scale).to(x_ND.scalar_type());
}

}  // namespace buttress
