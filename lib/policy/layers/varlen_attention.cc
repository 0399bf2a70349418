#include "lib/policy/layers/varlen_attention.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <optional>
#include <tuple>

#include "lib/policy/cpu/for_rows.h"

namespace buttress {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The largest head, and what the size of a head is a multiple of.
constexpr std::int64_t kLargestHead = 256;
constexpr std::int64_t kHeadMultiple = 8;

// Queries [N, H, C], and keys and values [Q, K, C] of the key rows.
struct FlashInputs {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
};

FlashInputs FlashInputsOf(const VarlenPart& part, const at::Tensor& qkv,
                          const AttentionSpec& spec) {
  const auto heads = [&spec](const at::Tensor& rows, std::int64_t begin, std::int64_t count) {
    return rows.narrow(1, begin, count * spec.C).unflatten(1, {count, spec.C});
  };
  const at::Tensor queries = qkv.narrow(0, part.first_row, part.rows);
  at::Tensor keys = qkv.narrow(1, spec.q_width(), 2 * spec.kv_width());
  if (part.key_source_Q.defined()) keys = keys.index_select(0, part.key_source_Q);
  return {heads(queries, 0, spec.H), heads(keys, 0, spec.K), heads(keys, spec.kv_width(), spec.K)};
}

// The positions before its own that a row attends to; none for all.
std::optional<std::int64_t> PositionsBefore(const AttentionSpec& spec) {
  return spec.window > 0 ? std::optional(spec.window - 1) : std::nullopt;
}

struct FlashOutputs {
  at::Tensor out;           // [N, H, C]
  at::Tensor logsumexp_HN;  // float32
  at::Tensor random_state;  // of dropout, which is off
  at::Tensor unused;
};

// With causal attention the last query of a sequence has the position of its last key.
FlashOutputs FlashForward(const VarlenPart& part, const at::Tensor& qkv,
                          const AttentionSpec& spec) {
  const FlashInputs in = FlashInputsOf(part, qkv, spec);
  const auto results = at::_flash_attention_forward(
      in.q, in.k, in.v, part.cum_q, part.cum_k, part.max_q, part.max_k,
      /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false, spec.score_scale(),
      PositionsBefore(spec));
  return {std::get<0>(results), std::get<1>(results), std::get<2>(results), std::get<3>(results)};
}

class VarlenFunction : public torch::autograd::Function<VarlenFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, const VarlenPart& part,
                            const AttentionSpec& spec) {
    const FlashOutputs attended = FlashForward(part, qkv, spec);
    ctx->save_for_backward({qkv, attended.out, attended.logsumexp_HN, attended.random_state,
                            attended.unused, part.cum_q, part.cum_k, part.key_source_Q});
    ctx->saved_data["part"] =
        std::vector<std::int64_t>{part.first_row, part.rows, part.max_q, part.max_k};
    ctx->saved_data["shape"] = std::vector<std::int64_t>{spec.H, spec.K, spec.C};
    ctx->saved_data["scale"] = spec.score_scale();
    ctx->saved_data["window"] = spec.window;
    return attended.out.flatten(1);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const auto sizes = ctx->saved_data["part"].toIntVector();
    const auto shape = ctx->saved_data["shape"].toIntVector();
    const AttentionSpec spec = {shape[0], shape[1], shape[2], ctx->saved_data["scale"].toDouble(),
                                ctx->saved_data["window"].toInt()};
    const VarlenPart part = {sizes[0], sizes[1], saved[5], saved[6], sizes[2], sizes[3], saved[7]};
    const FlashInputs in = FlashInputsOf(part, qkv, spec);
    const auto [grad_q, grad_k, grad_v] = at::_flash_attention_backward(
        grads[0].unflatten(1, {spec.H, spec.C}), in.q, in.k, in.v, saved[1], saved[2], part.cum_q,
        part.cum_k, part.max_q, part.max_k, /*dropout_p=*/0.0,
        /*is_causal=*/true, saved[3], saved[4], spec.score_scale(), PositionsBefore(spec));
    at::Tensor grad_queries = grad_q.flatten(1);
    at::Tensor grad_keys = at::cat({grad_k.flatten(1), grad_v.flatten(1)}, 1);
    if (part.key_source_Q.defined()) {
      const std::int64_t after = qkv.size(0) - part.first_row - part.rows;
      grad_queries = at::constant_pad_nd(grad_queries, {0, 0, part.first_row, after});
      grad_keys = SumRepeated(grad_keys, part.key_source_Q, qkv.size(0));
    }
    return {at::cat({grad_queries, grad_keys}, 1), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool UsesVarlenAttention(const at::Tensor& qkv, const AttentionSpec& spec) {
  const bool runs = PortableOnly::active() || (!qkv.is_cpu() && qkv.scalar_type() == at::kBFloat16);
  return runs && spec.score_cap == 0 && spec.C <= kLargestHead && spec.C % kHeadMultiple == 0;
}

at::Tensor VarlenAttention(const std::vector<VarlenPart>& parts, const at::Tensor& qkv,
                           const AttentionSpec& spec) {
  std::vector<at::Tensor> outs;
  for (const VarlenPart& part : parts) {
    outs.push_back(at::GradMode::is_enabled() ? VarlenFunction::apply(qkv, part, spec)
                                              : FlashForward(part, qkv, spec).out.flatten(1));
  }
  return outs.size() == 1 ? outs.front() : at::cat(outs);
}

}  // namespace buttress
