#include "lib/policy/weights/packed_layout.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "lib/policy/device_copy.h"

namespace buttress {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A sequence joins a rectangle if it fills at least this share of the rectangle's length.
constexpr double kLeastFill = 0.8;

// Selects rows by `index`, and routes the gradient by `inverse`. Attention is causal and padding is
// on the right, so no row depends on a filler. The gradient of fillers is zero, and each packed row
// gets its gradient from exactly one padded row.
class RegatherRows : public torch::autograd::Function<RegatherRows> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows, const at::Tensor& index,
                            const at::Tensor& inverse, bool inverse_is_scatter) {
    ctx->save_for_backward({inverse});
    ctx->saved_data["scatter"] = inverse_is_scatter;
    ctx->saved_data["rows"] = rows.size(0);
    return rows.index_select(0, index);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
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

class RepeatFunction : public torch::autograd::Function<RepeatFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows, const at::Tensor& index) {
    ctx->save_for_backward({index});
    ctx->saved_data["rows"] = rows.size(0);
    return rows.index_select(0, index);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {SumRepeated(grads[0], ctx->get_saved_variables()[0], ctx->saved_data["rows"].toInt()),
            at::Tensor()};
  }
};

at::Tensor Indices(const std::vector<std::int64_t>& values, at::Device device) {
  return ToDevice(torch::tensor(values, torch::kInt64), device);
}

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

void CheckPrefix(const PackedLayout& layout, std::int64_t b) {
  const std::int64_t prefix = layout.prefix[Index(b)];
  if (prefix < 0) return;
  const std::int64_t before = b - 1;
  TORCH_CHECK(prefix < b && layout.prefix[Index(prefix)] < 0 &&
                  (prefix == before || layout.prefix[Index(before)] == prefix),
              "packed sequence ", b, " continues sequence ", prefix,
              ", which does not precede it directly");
}

// Builds the rows of the rectangles, one rectangle after another.
class RectangleBuilder {
 public:
  explicit RectangleBuilder(const PackedLayout& layout)
      : layout_(layout), target_(Index(layout.offsets.back())) {}

  void Add(std::int64_t b) {
    const std::int64_t prefix = layout_.prefix[Index(b)];
    const std::int64_t length = layout_.length(b);
    const std::int64_t key_length = prefix < 0 ? 0 : layout_.length(prefix) + length;
    if (!Fits(length, key_length)) {
      Rectangle next;
      next.length = length;
      next.key_length = key_length;
      next.first_row = static_cast<std::int64_t>(source_.size());
      next.first_key_row = static_cast<std::int64_t>(key_source_.size());
      rectangles_.push_back(next);
      prefix_lengths_.emplace_back();
    }
    Rectangle& rectangle = rectangles_.back();
    ++rectangle.sequences;
    const std::int64_t first = layout_.offsets[Index(b)];
    for (std::int64_t t = 0; t < rectangle.length; ++t) {
      if (t < length) target_[Index(first + t)] = static_cast<std::int64_t>(source_.size());
      source_.push_back(first + std::min(t, length - 1));
    }
    if (prefix < 0) return;
    const std::int64_t prefix_length = layout_.length(prefix);
    for (std::int64_t s = 0; s < rectangle.key_length; ++s) {
      const std::int64_t own = std::min(s - prefix_length, length - 1);
      key_source_.push_back(s < prefix_length ? layout_.offsets[Index(prefix)] + s : first + own);
    }
    prefix_lengths_.back().push_back(prefix_length);
  }

  RectangleLayout Build() {
    const at::Device device = layout_.positions_N.device();
    RectangleLayout result;
    for (std::size_t i = 0; i < rectangles_.size(); ++i) {
      Rectangle& rectangle = rectangles_[i];
      if (rectangle.key_length == 0) continue;
      const at::Tensor last =
          Indices(prefix_lengths_[i], device).view({-1, 1, 1, 1}) +
          at::arange(rectangle.length, layout_.positions_N.options()).view({1, 1, -1, 1});
      rectangle.mask_BTS = at::arange(rectangle.key_length, layout_.positions_N.options())
                               .view({1, 1, 1, -1})
                               .le(last);
    }
    std::vector<std::int64_t> packed_order(target_.size());
    std::iota(packed_order.begin(), packed_order.end(), std::int64_t{0});
    result.padded = source_ != packed_order;
    if (result.padded) {
      result.pad_source_P = Indices(source_, device);
      result.pad_target_N = Indices(target_, device);
    }
    if (!key_source_.empty()) result.key_source_Q = Indices(key_source_, device);
    result.rectangles = std::move(rectangles_);
    return result;
  }

 private:
  // Returns whether the sequence may join the last rectangle. Sequences are added in the order of
  // decreasing key length, then decreasing length.
  bool Fits(std::int64_t length, std::int64_t key_length) const {
    if (rectangles_.empty()) return false;
    const Rectangle& last = rectangles_.back();
    if ((key_length == 0) != (last.key_length == 0) || length > last.length) return false;
    const auto fill = [](std::int64_t part, std::int64_t whole) {
      return static_cast<double>(part) / static_cast<double>(whole);
    };
    return fill(length, last.length) >= kLeastFill &&
           (key_length == 0 || fill(key_length, last.key_length) >= kLeastFill);
  }

  const PackedLayout& layout_;
  std::vector<Rectangle> rectangles_;
  std::vector<std::vector<std::int64_t>> prefix_lengths_;  // of the sequences of each rectangle
  std::vector<std::int64_t> source_;
  std::vector<std::int64_t> target_;
  std::vector<std::int64_t> key_source_;
};

// Builds the parts of a batch, one after another.
class VarlenBuilder {
 public:
  // Without shared prefixes, the key rows are the rows of the part.
  VarlenBuilder(const PackedLayout& layout, bool shared) : layout_(layout), shared_(shared) {}

  // The key rows of sequence b, and of the part so far.
  std::int64_t KeysOf(std::int64_t b) const {
    const std::int64_t prefix = layout_.prefix[Index(b)];
    return layout_.length(b) + (prefix < 0 ? 0 : layout_.length(prefix));
  }

  std::int64_t keys() const { return cum_k_.back(); }

  void Add(std::int64_t b) {
    for (const std::int64_t sequence : {layout_.prefix[Index(b)], b}) {
      for (std::int64_t t = 0; sequence >= 0 && t < layout_.length(sequence); ++t)
        key_source_.push_back(layout_.offsets[Index(sequence)] + t);
    }
    part_.rows += layout_.length(b);
    part_.max_q = std::max(part_.max_q, layout_.length(b));
    part_.max_k = std::max(part_.max_k, KeysOf(b));
    cum_q_.push_back(part_.rows);
    cum_k_.push_back(static_cast<std::int64_t>(key_source_.size()));
  }

  // Returns the part and begins the next one.
  VarlenPart Take() {
    const at::Device device = layout_.positions_N.device();
    VarlenPart next;
    next.first_row = part_.first_row + part_.rows;
    part_.cum_q = Indices(cum_q_, device).to(at::kInt);
    part_.cum_k = Indices(cum_k_, device).to(at::kInt);
    if (shared_) part_.key_source_Q = Indices(key_source_, device);
    cum_q_ = cum_k_ = {0};
    key_source_.clear();
    return std::exchange(part_, next);
  }

 private:
  const PackedLayout& layout_;
  const bool shared_;
  VarlenPart part_;
  std::vector<std::int64_t> cum_q_ = {0};
  std::vector<std::int64_t> cum_k_ = {0};
  std::vector<std::int64_t> key_source_;
};

}  // namespace

PackedLayout LayOut(std::span<const std::int64_t> lengths, std::span<const std::int64_t> prefixes,
                    at::Device device) {
  TORCH_CHECK(prefixes.empty() || prefixes.size() == lengths.size(), prefixes.size(),
              " prefixes for ", lengths.size(), " packed sequences");
  PackedLayout layout;
  layout.offsets.assign(1, 0);
  std::vector<std::int64_t> positions;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    TORCH_CHECK(lengths[b] > 0, "packed sequence ", b, " is empty");
    layout.prefix.push_back(prefixes.empty() ? -1 : prefixes[b]);
    CheckPrefix(layout, static_cast<std::int64_t>(b));
    const std::int64_t begin = layout.prefix[b] < 0 ? 0 : layout.length(layout.prefix[b]);
    for (std::int64_t t = 0; t < lengths[b]; ++t) positions.push_back(begin + t);
    layout.offsets.push_back(layout.offsets.back() + lengths[b]);
    layout.longest = std::max(layout.longest, begin + lengths[b]);
  }
  layout.positions_N = Indices(positions, device);
  return layout;
}

RectangleLayout LayOutRectangles(const PackedLayout& layout) {
  std::vector<std::int64_t> order(layout.prefix.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto key_length = [&](std::int64_t b) {
    const std::int64_t prefix = layout.prefix[Index(b)];
    return prefix < 0 ? 0 : layout.length(prefix) + layout.length(b);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::pair(key_length(a), layout.length(a)) > std::pair(key_length(b), layout.length(b));
  });
  RectangleBuilder builder(layout);
  for (const std::int64_t b : order) builder.Add(b);
  return builder.Build();
}

std::vector<VarlenPart> LayOutVarlen(const PackedLayout& layout, std::int64_t most_keys) {
  const bool shared = std::ranges::any_of(layout.prefix, [](std::int64_t p) { return p >= 0; });
  std::vector<VarlenPart> parts;
  VarlenBuilder builder(layout, shared);
  for (std::int64_t b = 0; b < layout.sequences(); ++b) {
    if (shared && builder.keys() > 0 && builder.keys() + builder.KeysOf(b) > most_keys)
      parts.push_back(builder.Take());
    builder.Add(b);
  }
  parts.push_back(builder.Take());
  return parts;
}

at::Tensor PadRows(const RectangleLayout& layout, const at::Tensor& rows_N) {
  if (!layout.padded) return rows_N;
  return RegatherRows::apply(rows_N, layout.pad_source_P, layout.pad_target_N, false);
}

at::Tensor UnpadRows(const RectangleLayout& layout, const at::Tensor& rows_P) {
  if (!layout.padded) return rows_P;
  return RegatherRows::apply(rows_P, layout.pad_target_N, layout.pad_target_N, true);
}

at::Tensor RepeatRows(const at::Tensor& rows_NW, const at::Tensor& index_Q) {
  return RepeatFunction::apply(rows_NW, index_Q);
}

at::Tensor SumRepeated(const at::Tensor& grad_QW, const at::Tensor& index_Q, std::int64_t N) {
  const at::Tensor sum = at::zeros({N, grad_QW.size(1)}, grad_QW.options().dtype(at::kFloat))
                             .index_add_(0, index_Q, grad_QW.to(at::kFloat));
  return sum.to(grad_QW.scalar_type());
}

}  // namespace buttress
