#include "lib/policy/context_group.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <vector>

#include "lib/policy/context_heads.h"
#include "lib/policy/device_copy.h"

namespace buttress {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::int64_t RowsOfRank(std::int64_t N, std::int64_t ranks) { return (N + ranks - 1) / ranks; }

// An exchange is its own transpose: what part r of rank s is for r, part s of r is for s.
class Exchange : public torch::autograd::Function<Exchange> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& parts, ContextGroup* group) {
    ctx->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    return group->AllToAll(parts.contiguous());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto* const group = reinterpret_cast<ContextGroup*>(ctx->saved_data["group"].toInt());
    return {group->AllToAll(grads[0].contiguous()), at::Tensor()};
  }
};

// Divides the heads of rows [n, heads * C] by ranks, [n, c, w]. Where there are fewer heads than
// ranks, each goes to several of them.
at::Tensor HeadsByRank(const at::Tensor& rows, std::int64_t heads, std::int64_t ranks) {
  if (heads >= ranks) return rows.unflatten(1, {ranks, rows.size(1) / ranks});
  return rows.unflatten(1, {heads, 1, rows.size(1) / heads})
      .expand({-1, -1, ranks / heads, -1})
      .flatten(1, 2);
}

}  // namespace

at::Tensor ExchangeRowsForHeads(ContextGroup& group, const AttentionSpec& spec, std::int64_t N,
                                const at::Tensor& qkv) {
  const std::int64_t ranks = group.size();
  const auto parts =
      qkv.split_with_sizes({spec.q_width(), spec.kv_width(), spec.kv_width()}, /*dim=*/1);
  const at::Tensor by_rank =
      at::cat({HeadsByRank(parts[0], spec.H, ranks), HeadsByRank(parts[1], spec.K, ranks),
               HeadsByRank(parts[2], spec.K, ranks)},
              /*dim=*/2);
  return Exchange::apply(by_rank.transpose(0, 1), &group).flatten(0, 1).narrow(0, 0, N);
}

at::Tensor ExchangeHeadsForRows(ContextGroup& group, const at::Tensor& attended) {
  const std::int64_t ranks = group.size(), N = attended.size(0);
  const std::int64_t n = RowsOfRank(N, ranks);
  const at::Tensor rows =
      N == ranks * n ? attended : at::constant_pad_nd(attended, {0, 0, 0, ranks * n - N});
  return Exchange::apply(rows.unflatten(0, {ranks, n}), &group).transpose(0, 1).flatten(1);
}

ContextShare::ContextShare(ContextGroup& group, std::int64_t N, const at::Tensor& rows_M)
    : group_(group), n_(RowsOfRank(N, group.size())), rows_M_(rows_M.to(at::kCPU, at::kLong)) {
  const at::Tensor contiguous = rows_M_.contiguous();
  const auto* rows = contiguous.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> own, rank_of, counts(static_cast<std::size_t>(group.size()));
  std::vector<std::int64_t> place;
  for (std::int64_t i = 0; i < rows_M_.numel(); ++i) {
    rank_of.push_back(rows[i] / n_);
    place.push_back(counts[static_cast<std::size_t>(rank_of.back())]++);
    if (rank_of.back() == group.rank()) own.push_back(i);
  }
  most_ = *std::ranges::max_element(counts);
  for (std::size_t i = 0; i < place.size(); ++i) place[i] += rank_of[i] * most_;
  own_m_ = torch::tensor(own, at::kLong);
  place_M_ = torch::tensor(place, at::kLong);
}

at::Tensor ContextShare::OwnRows(const at::Tensor& values_N) const {
  const std::int64_t all = n_ * group_.size();
  return at::constant_pad_nd(values_N, {0, all - values_N.size(0)})
      .narrow(0, n_ * group_.rank(), n_);
}

at::Tensor ContextShare::Own(const at::Tensor& values_M) const {
  return values_M.index_select(0, ToDevice(own_m_, values_M.device()));
}

at::Tensor ContextShare::ScoredRows() const { return Own(rows_M_) - n_ * group_.rank(); }

at::Tensor ContextShare::Gather(const at::Tensor& values_m) const {
  const at::Tensor padded = at::constant_pad_nd(values_m, {0, most_ - values_m.size(0)});
  return group_.AllGather(padded).flatten().index_select(0, ToDevice(place_M_, values_m.device()));
}

}  // namespace buttress
