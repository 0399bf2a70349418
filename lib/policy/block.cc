#include "lib/policy/block.h"

#include <torch/types.h>

#include "lib/policy/linear.h"
#include "lib/policy/norm.h"
#include "lib/policy/swiglu.h"

namespace buttress {
namespace {

// Reuses the memory of `delta` where no backward pass needs it.
at::Tensor AddResidual(const at::Tensor& hidden_ND, at::Tensor delta_ND) {
  return at::GradMode::is_enabled() ? hidden_ND + delta_ND : delta_ND.add_(hidden_ND);
}

}  // namespace

at::Tensor ParameterProducts::Qkv(const at::Tensor& x_ND) const {
  if (!w_.q_bias.defined()) return Linear(x_ND, {w_.q_weight, w_.k_weight, w_.v_weight});
  return Linear(x_ND, {w_.q_weight, w_.k_weight, w_.v_weight}, {w_.q_bias, w_.k_bias, w_.v_bias});
}

at::Tensor ParameterProducts::Out(const at::Tensor& attended) const {
  return Linear(attended, {w_.o_weight});
}

at::Tensor ParameterProducts::GateUp(const at::Tensor& x_ND) const {
  return Linear(x_ND, {w_.gate_weight, w_.up_weight});
}

at::Tensor ParameterProducts::Down(const at::Tensor& gated_NF) const {
  return Linear(gated_NF, {w_.down_weight});
}

at::Tensor BlockForward(const BlockSpec& spec, std::size_t layer, const LayerWeights& norms,
                        const BlockProducts& products, RopeTable& rope, BlockRows& rows,
                        const at::Tensor& hidden_ND) {
  const at::Tensor x_ND = RmsNorm(hidden_ND, norms.input_norm_D, spec.norm_eps);
  const at::Tensor qkv = rope.Rotate(products.Qkv(x_ND), spec.attention.H + spec.attention.K,
                                     rows.positions_N(), rows.end());
  const at::Tensor attended = rows.Attend(spec.attention, layer, qkv);
  const at::Tensor middle_ND = AddResidual(hidden_ND, products.Out(attended));
  const at::Tensor y_ND = RmsNorm(middle_ND, norms.mlp_norm_D, spec.norm_eps);
  return AddResidual(middle_ND, products.Down(SwiGlu(products.GateUp(y_ND))));
}

}  // namespace buttress
