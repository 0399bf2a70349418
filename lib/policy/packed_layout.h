// Where sequences lie in a packed batch, and how they are laid out in rectangles for attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace buttress {

// Sequences of similar length, padded at the right to a rectangle [B, T].
struct Rectangle {
  std::int64_t sequences = 0;  // B
  std::int64_t length = 0;     // T
  std::int64_t first_row = 0;  // its first row among the padded rows of all rectangles

  // For sequences that continue a prefix: keys and values are the prefix's rows, then their own,
  // padded to S.
  std::int64_t key_length = 0;     // S; 0 where there is no prefix
  std::int64_t first_key_row = 0;  // among the key rows of all rectangles
  at::Tensor mask_BTS;             // bool, [B, 1, T, S]: what each row may attend to
};

// The batch as rectangles.
struct RectangleLayout {
  std::vector<Rectangle> rectangles;
  bool padded = false;  // else the packed rows are the rectangles' rows
  at::Tensor
      // int64: packed row shown at each padded row; a filler repeats its sequence's last row
      pad_source_P;
  at::Tensor pad_target_N;  // int64: padded row of each packed row
  at::Tensor
      // int64: packed row shown at each key row; undefined where nothing has a prefix
      key_source_Q;
};

// B sequences packed one after another into N rows. Built once per batch, shared by all layers.
struct PackedLayout {
  std::vector<std::int64_t> offsets;  // [B+1]; sequence b owns rows [offsets[b], offsets[b+1])
  std::vector<std::int64_t> prefix;   // [B]; the sequence that b continues, or -1
  std::int64_t longest = 0;           // positions of the longest sequence, its prefix included
  at::Tensor positions_N;             // int64; starts at 0, or after the prefix
  RectangleLayout rectangles;         // set by LayOutRectangles

  std::int64_t sequences() const { return static_cast<std::int64_t>(prefix.size()); }

  std::int64_t length(std::int64_t b) const {
    return offsets[static_cast<std::size_t>(b) + 1] - offsets[static_cast<std::size_t>(b)];
  }
};

// `prefixes` is empty, or names for each sequence the earlier one that it continues, -1 for none. A
// sequence's continuations follow it directly and have none themselves. Throws c10::Error for what
// is not so, and for empty sequences.
PackedLayout LayOut(std::span<const std::int64_t> lengths, std::span<const std::int64_t> prefixes,
                    at::Device device);

RectangleLayout LayOutRectangles(const PackedLayout& layout);

// Packed rows [N, ...] -> padded rows [P, ...] and back; differentiable. The same tensor where
// nothing is padded.
at::Tensor PadRows(const RectangleLayout& layout, const at::Tensor& rows_N);
at::Tensor UnpadRows(const RectangleLayout& layout, const at::Tensor& rows_P);

// Packed rows [N, W] -> key rows [Q, W], in which a prefix stands once for each of its
// continuations; differentiable, gradients summed in float32.
at::Tensor KeyRows(const RectangleLayout& layout, const at::Tensor& rows_N);

}  // namespace buttress
