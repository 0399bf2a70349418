#include "lib/policy/layers/block.h"

#include <torch/types.h>

#include <cstdint>

#include "lib/policy/layers/linear.h"
#include "lib/policy/layers/mlp.h"
#include "lib/policy/layers/norm.h"

namespace buttress {
namespace {

// Reuses the memory of `delta` where no backward pass needs it.
at::Tensor AddResidual(const at::Tensor& hidden_ND, at::Tensor delta_ND) {
  return at::GradMode::is_enabled() ? hidden_ND + delta_ND : delta_ND.add_(hidden_ND);
}

at::Tensor PostNorm(const BlockSpec& spec, const at::Tensor& x_ND, const at::Tensor& weight_D) {
  return spec.post_norms ? RmsNorm(x_ND, weight_D, spec.norm) : x_ND;
}

// The kernel of GPUs takes bfloat16, at addresses and in rows of multiples of 16 bytes.
bool TakesGroups(const MlpWeights& mlp) {
  const at::Tensor &gate = mlp.gate_weight, &down = mlp.down_weight;
  const auto aligned = [](const at::Tensor& weight) {
    return weight.size(1) % 8 == 0 &&
           reinterpret_cast<std::uintptr_t>(weight.const_data_ptr()) % 16 == 0;
  };
  return !down.is_cpu() && down.scalar_type() == at::kBFloat16 && aligned(gate) && aligned(down);
}

// Experts of other processes are undefined.
at::Tensor GroupedExperts(const std::vector<MlpWeights>& experts, Activation activation,
                          const at::Tensor& rows, const at::Tensor& ends_E) {
  std::vector<std::vector<at::Tensor>> gate_up, down;
  for (const MlpWeights& expert : experts) {
    if (!expert.down_weight.defined()) continue;
    gate_up.push_back({expert.gate_weight, expert.up_weight});
    down.push_back({expert.down_weight});
  }
  return GroupedLinear(Gate(GroupedLinear(rows, ends_E, gate_up), activation), ends_E, down);
}

at::Tensor Mlp(const BlockSpec& spec, const BlockProducts& products, const at::Tensor& x_ND) {
  const auto run = [&](std::size_t mlp, const at::Tensor& rows) {
    return products.Down(mlp, Gate(products.GateUp(mlp, rows), spec.activation));
  };
  if (spec.experts.count == 0) return run(0, x_ND);
  GroupedMlp grouped;
  if (products.grouped() != nullptr) {
    grouped = [&](const at::Tensor& rows, const at::Tensor& ends_E) {
      return GroupedExperts(*products.grouped(), spec.activation, rows, ends_E);
    };
  }
  return MixExperts(spec.experts, products.Router(x_ND), x_ND, run, products.peers(), grouped);
}

}  // namespace

std::vector<RopeTable> RopeTables(const ModelConfig& config, at::Device device) {
  std::vector<RopeTable> tables;
  for (const RopeSpec& spec : config.ropes)
    tables.emplace_back(config.blocks.front().attention.C, spec, device);
  return tables;
}

at::Tensor ScaleEmbeddings(const ModelConfig& config, const at::Tensor& rows_ND) {
  if (config.embedding_scale == 1) return rows_ND;
  return rows_ND * at::scalar_tensor(config.embedding_scale, rows_ND.options());
}

at::Tensor ParameterProducts::Qkv(const at::Tensor& x_ND) const {
  const std::vector<at::Tensor> weights = {w_.q_weight, w_.k_weight, w_.v_weight};
  if (!w_.q_bias.defined()) return Linear(x_ND, weights, {}, row_wise_);
  return Linear(x_ND, weights, {w_.q_bias, w_.k_bias, w_.v_bias}, row_wise_);
}

at::Tensor ParameterProducts::Out(const at::Tensor& attended) const {
  if (!w_.o_bias.defined()) return Linear(attended, {w_.o_weight}, {}, row_wise_);
  return Linear(attended, {w_.o_weight}, {w_.o_bias}, row_wise_);
}

at::Tensor ParameterProducts::Router(const at::Tensor& x_ND) const {
  return Linear(x_ND.to(at::kFloat), {w_.router_weight.to(at::kFloat)}, {}, row_wise_);
}

at::Tensor ParameterProducts::GateUp(std::size_t mlp, const at::Tensor& x_ND) const {
  return Linear(x_ND, {w_.mlps[mlp].gate_weight, w_.mlps[mlp].up_weight}, {}, row_wise_);
}

const std::vector<MlpWeights>* ParameterProducts::grouped() const {
  for (const MlpWeights& mlp : w_.mlps) {
    if (mlp.down_weight.defined()) return TakesGroups(mlp) ? &w_.mlps : nullptr;
  }
  return nullptr;
}

at::Tensor ParameterProducts::Down(std::size_t mlp, const at::Tensor& gated_NF) const {
  return Linear(gated_NF, {w_.mlps[mlp].down_weight}, {}, row_wise_);
}

at::Tensor AttentionForward(const BlockSpec& spec, std::size_t layer, const LayerWeights& norms,
                            const BlockProducts& products, std::vector<RopeTable>& ropes,
                            BlockRows& rows, const at::Tensor& hidden_ND) {
  at::Tensor qkv = products.Qkv(RmsNorm(hidden_ND, norms.input_norm_D, spec.norm));
  if (spec.qk_norm)
    qkv = NormHeads(std::move(qkv), spec.attention, norms.q_norm_C, norms.k_norm_C, spec.norm);
  qkv = ropes[spec.rope].Rotate(std::move(qkv), spec.attention.H + spec.attention.K,
                                rows.positions_N(), rows.end());
  const at::Tensor attended = products.Out(rows.Attend(spec.attention, layer, qkv));
  return AddResidual(hidden_ND, PostNorm(spec, attended, norms.attention_out_norm_D));
}

at::Tensor MlpForward(const BlockSpec& spec, const LayerWeights& norms,
                      const BlockProducts& products, const at::Tensor& middle_ND) {
  const at::Tensor mapped = Mlp(spec, products, RmsNorm(middle_ND, norms.mlp_norm_D, spec.norm));
  return AddResidual(middle_ND, PostNorm(spec, mapped, norms.mlp_out_norm_D));
}

at::Tensor BlockForward(const BlockSpec& spec, std::size_t layer, const LayerWeights& norms,
                        const BlockProducts& products, std::vector<RopeTable>& ropes,
                        BlockRows& rows, const at::Tensor& hidden_ND) {
  return MlpForward(spec, norms, products,
                    AttentionForward(spec, layer, norms, products, ropes, rows, hidden_ND));
}

}  // namespace buttress
