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
};

// B sequences of `lengths`, packed one after another into N rows. Built once per batch, shared by all layers.
struct PackedLayout {
  std::vector<std::int64_t> offsets;  // [B+1]; sequence b owns rows [offsets[b], offsets[b+1])
  std::int64_t longest = 0;
  at::Tensor positions_N;  // int64, 0 at the start of each sequence
  std::vector<Rectangle> rectangles;
  bool padded = false;       // else the packed rows are the rectangles' rows
  at::Tensor pad_source_P;   // int64: packed row shown at each padded row; a filler repeats its sequence's last row
  at::Tensor pad_target_N;   // int64: padded row of each packed row
};

// REQUIRES: lengths above 0.
PackedLayout LayOut(std::span<const std::int64_t> lengths, at::Device device);

// Packed rows [N, ...] -> padded rows [P, ...] and back; differentiable. The same tensor where nothing is padded.
at::Tensor PadRows(const PackedLayout& layout, const at::Tensor& rows_N);
at::Tensor UnpadRows(const PackedLayout& layout, const at::Tensor& rows_P);

}  // namespace buttress
