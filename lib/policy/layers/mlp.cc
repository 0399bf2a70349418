// Shapes: N rows, k chosen experts of a row, A = N * k pairs of a row and an expert, B pairs of the
// experts of this process, D width, E experts.
#include "lib/policy/layers/mlp.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "lib/policy/cpu/for_rows.h"

namespace buttress {
namespace {

// Operations for one value, most of them for the exponential.
constexpr std::int64_t kWork = 8;

at::Tensor Forward(const at::Tensor& gate_up, Activation activation) {
  const std::int64_t F = gate_up.size(1) / 2;
  at::Tensor out = at::empty({gate_up.size(0), F}, gate_up.options());
  ForRows(
      gate_up, gate_up.size(0), kWork * F, [&](auto tag, std::int64_t first, std::int64_t rows) {
        using T = decltype(tag);
        GateRows(
            GateArgs<T>{Rows<T>(gate_up, first), MutableRows<T>(out, first), rows, F, activation});
      });
  return out;
}

class GateFunction : public torch::autograd::Function<GateFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& gate_up,
                            Activation activation) {
    ctx->save_for_backward({gate_up});
    ctx->saved_data["activation"] = static_cast<std::int64_t>(activation);
    return Forward(gate_up, activation);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor gate_up = ctx->get_saved_variables()[0];
    const auto activation = static_cast<Activation>(ctx->saved_data["activation"].toInt());
    const at::Tensor grad_out = grads[0].contiguous();
    const std::int64_t F = grad_out.size(1);
    at::Tensor grad = at::empty_like(gate_up);
    ForRows(gate_up, gate_up.size(0), 2 * kWork * F,
            [&](auto tag, std::int64_t first, std::int64_t rows) {
              using T = decltype(tag);
              GateGradRows(GateGradArgs<T>{Rows<T>(gate_up, first), Rows<T>(grad_out, first),
                                           MutableRows<T>(grad, first), rows, F, activation});
            });
    return {grad, at::Tensor()};
  }
};

// Selects rows, each of which occurs equally often among `rows_A`: place_A holds the places of the
// first row, of the second, ... Sums the gradient of a row in float32 and in a fixed order.
class SelectRows : public torch::autograd::Function<SelectRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x_ND,
                            const at::Tensor& rows_A, const at::Tensor& place_A) {
    ctx->save_for_backward({place_A});
    ctx->saved_data["rows"] = x_ND.size(0);
    return x_ND.index_select(0, rows_A);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor copies = grads[0].index_select(0, ctx->get_saved_variables()[0]);
    const std::int64_t rows = ctx->saved_data["rows"].toInt();
    const at::Tensor sums =
        copies.view({rows, rows == 0 ? 1 : copies.size(0) / rows, copies.size(1)})
            .sum(1, /*keepdim=*/false, at::kFloat);
    return {sums.to(copies.scalar_type()), at::Tensor(), at::Tensor()};
  }
};

std::vector<std::int64_t> ToHost(const at::Tensor& counts) {
  const at::Tensor host = counts.to(at::kCPU).contiguous();
  const std::int64_t* first = host.const_data_ptr<std::int64_t>();
  return {first, first + host.numel()};
}

// Runs experts from `first` on over rows that are sorted by expert, counts[e] for each.
at::Tensor RunExperts(const at::Tensor& rows, const std::vector<std::int64_t>& counts,
                      std::size_t first, const ExpertMlp& mlp) {
  const std::vector<at::Tensor> parts = rows.split_with_sizes(counts);
  std::vector<at::Tensor> outputs;
  for (std::size_t e = 0; e < parts.size(); ++e)
    if (counts[e] > 0 || at::GradMode::is_enabled()) outputs.push_back(mlp(first + e, parts[e]));
  return outputs.empty() ? at::empty_like(rows) : at::cat(outputs);
}

at::Tensor ExchangeRows(const at::Tensor& rows, const std::vector<std::int64_t>& sent,
                        const std::vector<std::int64_t>& received, ExpertPeers* peers) {
  const std::int64_t count = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  at::Tensor out = at::empty({count, rows.size(1)}, rows.options());
  peers->Exchange(rows.contiguous(), sent, out, received);
  return out;
}

// Its gradient travels back.
class ExchangeFunction : public torch::autograd::Function<ExchangeFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& rows,
                            const std::vector<std::int64_t>& sent,
                            const std::vector<std::int64_t>& received, ExpertPeers* peers) {
    ctx->saved_data["sent"] = sent;
    ctx->saved_data["received"] = received;
    ctx->saved_data["peers"] = reinterpret_cast<std::int64_t>(peers);
    return ExchangeRows(rows, sent, received, peers);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    auto* const peers = reinterpret_cast<ExpertPeers*>(ctx->saved_data["peers"].toInt());
    return {ExchangeRows(grads[0], ctx->saved_data["received"].toIntVector(),
                         ctx->saved_data["sent"].toIntVector(), peers),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Sums the counts of `width` experts at a time.
std::vector<std::int64_t> SumsOf(std::span<const std::int64_t> counts, std::size_t width) {
  std::vector<std::int64_t> sums;
  for (std::size_t first = 0; first < counts.size(); first += width) {
    const auto some = counts.subspan(first, width);
    sums.push_back(std::accumulate(some.begin(), some.end(), std::int64_t{0}));
  }
  return sums;
}

// As RunExperts over rows that are sorted by expert, of all processes. A process sorts what it gets
// by expert; the rows of an expert stay in the order of the processes.
at::Tensor RunDividedExperts(const at::Tensor& rows_AD, const at::Tensor& counts_E,
                             const ExpertMlp& mlp, ExpertPeers* peers, const GroupedMlp& grouped) {
  const auto ranks = static_cast<std::size_t>(peers->ranks());
  const std::size_t own = static_cast<std::size_t>(counts_E.size(0)) / ranks;
  const std::vector<std::int64_t> each(ranks, static_cast<std::int64_t>(own));
  const at::Tensor received_E = at::empty_like(counts_E);  // by process, and by own expert
  peers->Exchange(counts_E, each, received_E, each);
  const std::vector<std::int64_t> counts = ToHost(at::cat({counts_E, received_E}));
  const auto experts = static_cast<std::size_t>(counts_E.size(0));
  const std::span<const std::int64_t> here = std::span(counts).last(experts);
  const std::vector<std::int64_t> sent = SumsOf(std::span(counts).first(experts), own);
  const std::vector<std::int64_t> received = SumsOf(here, own);
  std::vector<std::int64_t> of_expert(own, 0);
  for (std::size_t i = 0; i < experts; ++i) of_expert[i % own] += here[i];
  const at::Tensor rows_BD = ExchangeFunction::apply(rows_AD, sent, received, peers);
  const at::Tensor expert_B = at::repeat_interleave(received_E, std::optional(rows_BD.size(0)))
                                  .remainder(static_cast<std::int64_t>(own));
  const at::Tensor order_B = at::argsort(expert_B, /*stable=*/true);
  const at::Tensor place_B = at::argsort(order_B, /*stable=*/true);
  const std::size_t first = own * static_cast<std::size_t>(peers->rank());
  const at::Tensor sorted_BD = SelectRows::apply(rows_BD, order_B, place_B);
  const auto run = [&] {
    if (grouped == nullptr || sorted_BD.size(0) == 0)
      return RunExperts(sorted_BD, of_expert, first, mlp);
    const at::Tensor counts_e = received_E.view({-1, static_cast<std::int64_t>(own)}).sum(0);
    return grouped(sorted_BD, counts_e.cumsum(0).to(at::kInt));
  };
  const at::Tensor outputs_BD = run();
  return ExchangeFunction::apply(SelectRows::apply(outputs_BD, place_B, order_B), received, sent,
                                 peers);
}

}  // namespace

at::Tensor Gate(const at::Tensor& gate_up, Activation activation) {
  if (HasRowKernels(gate_up) && gate_up.is_contiguous()) {
    return at::GradMode::is_enabled() ? GateFunction::apply(gate_up, activation)
                                      : Forward(gate_up, activation);
  }
  const auto halves = gate_up.chunk(2, 1);
  return (activation == Activation::kSilu ? at::silu(halves[0]) : at::gelu(halves[0], "tanh")) *
         halves[1];
}

at::Tensor MixExperts(const ExpertSpec& spec, const at::Tensor& router_NE, const at::Tensor& x_ND,
                      const ExpertMlp& mlp, ExpertPeers* peers, const GroupedMlp& grouped) {
  auto [weights_Nk, expert_Nk] = at::topk(at::softmax(router_NE, -1), spec.top_k, -1);
  if (spec.normalize) weights_Nk = weights_Nk / weights_Nk.sum(-1, /*keepdim=*/true);
  // Pair n * k + j is row n with its j-th expert. `order` sorts the pairs by expert, and pair p is
  // at place_A[p] of that order.
  const auto [expert_A, order_A] =
      at::sort(expert_Nk.flatten(), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const at::Tensor place_A = at::argsort(order_A, /*stable=*/true);
  const auto row_A = order_A.div(spec.top_k, "floor");
  // Unlike at::bincount, this does not make the host wait for a GPU.
  const at::Tensor ends_E = at::searchsorted(expert_A, at::arange(spec.count, expert_A.options()),
                                             /*out_int32=*/false, /*right=*/true);
  const at::Tensor counts_E = at::diff(ends_E, 1, 0, at::zeros({1}, ends_E.options()));
  const at::Tensor rows_AD = SelectRows::apply(x_ND, row_A, place_A);
  const auto run = [&] {
    if (peers != nullptr) return RunDividedExperts(rows_AD, counts_E, mlp, peers, grouped);
    if (grouped != nullptr) return grouped(rows_AD, ends_E.to(at::kInt));
    return RunExperts(rows_AD, ToHost(counts_E), 0, mlp);
  };
  const at::Tensor outputs_AD = run();
  const at::Tensor output_NkD =
      SelectRows::apply(outputs_AD, place_A, order_A).view({-1, spec.top_k, x_ND.size(1)});
  return (output_NkD * weights_Nk.unsqueeze(-1)).sum(1).to(x_ND.scalar_type());
}

}  // namespace buttress
