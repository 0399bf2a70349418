#include "lib/policy/packing.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include "lib/base/check.h"

namespace buttress {
namespace {

// A rectangle takes a shorter sequence while at least this share of its row would be real tokens.
constexpr double kLeastFill = 0.8;

// Selects rows by `index`; the gradient goes back by `inverse`. Fillers are never read downstream (attention is causal and padding stands at
// the right), so their gradient is zero and each real row has exactly one place to fetch its gradient from.
class RegatherRows : public torch::autograd::Function<RegatherRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx,
                            const at::Tensor& rows,
                            const at::Tensor& index,
                            const at::Tensor& inverse,
                            bool inverse_is_scatter) {
    ctx->save_for_backward({inverse});
    ctx->saved_data["scatter"] = inverse_is_scatter;
    ctx->saved_data["rows"] = rows.size(0);
    return rows.index_select(0, index);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor inverse = ctx->get_saved_variables()[0];
    at::Tensor grad = grads[0];
    if (ctx->saved_data["scatter"].toBool()) {
      auto shape = grad.sizes().vec();
      shape[0] = ctx->saved_data["rows"].toInt();
      grad = at::zeros(shape, grad.options()).index_copy_(0, inverse, grad);
    } else {
      grad = grad.index_select(0, inverse);
    }
    return {grad, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor Indices(const std::vector<std::int64_t>& values, at::Device device) {
  return torch::tensor(values, torch::kInt64).to(device);
}

}  // namespace

PackedLayout LayOut(std::span<const std::int64_t> lengths, at::Device device) {
  PackedLayout layout;
  layout.offsets.assign(1, 0);
  std::vector<std::int64_t> positions;
  for (const std::int64_t length : lengths) {
    BUTTRESS_CHECK(length > 0, "an empty sequence in a packed batch");
    for (std::int64_t t = 0; t < length; ++t) positions.push_back(t);
    layout.offsets.push_back(layout.offsets.back() + length);
    layout.longest = std::max(layout.longest, length);
  }
  layout.positions_N = Indices(positions, device);

  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::int64_t> source;
  std::vector<std::int64_t> target(positions.size());
  for (const std::size_t b : order) {
    const std::int64_t length = lengths[b];
    if (layout.rectangles.empty() ||
        static_cast<double>(length) < kLeastFill * static_cast<double>(layout.rectangles.back().length)) {
      layout.rectangles.push_back({0, length, static_cast<std::int64_t>(source.size())});
    }
    Rectangle& rectangle = layout.rectangles.back();
    ++rectangle.sequences;
    for (std::int64_t t = 0; t < rectangle.length; ++t) {
      const std::int64_t row = layout.offsets[b] + std::min(t, length - 1);
      if (t < length) target[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(source.size());
      source.push_back(row);
    }
  }
  layout.padded = layout.rectangles.size() > 1 || source.size() != positions.size();
  if (layout.padded) {
    layout.pad_source_P = Indices(source, device);
    layout.pad_target_N = Indices(target, device);
  }
  return layout;
}

at::Tensor PadRows(const PackedLayout& layout, const at::Tensor& rows_N) {
  if (!layout.padded) return rows_N;
  return RegatherRows::apply(rows_N, layout.pad_source_P, layout.pad_target_N, false);
}

at::Tensor UnpadRows(const PackedLayout& layout, const at::Tensor& rows_P) {
  if (!layout.padded) return rows_P;
  return RegatherRows::apply(rows_P, layout.pad_target_N, layout.pad_target_N, true);
}

}  // namespace buttress
