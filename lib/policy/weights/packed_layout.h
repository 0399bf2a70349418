// The layout of sequences in a packed batch, and its divisions for attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace buttress {

class ContextGroup;

// Sequences of similar length, padded on the right to a rectangle [B, T].
struct Rectangle {
  std::int64_t sequences = 0;  // B
  std::int64_t length = 0;     // T
  std::int64_t first_row = 0;  // its first row among the padded rows of all rectangles

  // The keys and values of a sequence with a prefix are the rows of the prefix and its own rows,
  // padded to S rows.
  std::int64_t key_length = 0;     // S; 0 for sequences without a prefix
  std::int64_t first_key_row = 0;  // its first row among the key rows of all rectangles
  at::Tensor mask_BTS;             // bool [B, 1, T, S]: true where a row attends to a key
};

// A batch divided into rectangles. The index tensors are int64.
struct RectangleLayout {
  std::vector<Rectangle> rectangles;
  bool padded = false;      // false if the packed rows are the rows of the rectangles
  at::Tensor pad_source_P;  // the packed row of each padded row; a filler repeats the last row
  at::Tensor pad_target_N;  // the padded row of each packed row
  at::Tensor key_source_Q;  // the packed row of each key row; undefined without prefixes
};

// Sequences that follow one another, for attention of variable lengths. The queries of the i-th are
// rows [cum_q[i], cum_q[i+1]) of the part, its keys and values the key rows [cum_k[i], cum_k[i+1]),
// those of its prefix first.
struct VarlenPart {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  at::Tensor cum_q;        // int32
  at::Tensor cum_k;        // int32
  std::int64_t max_q = 0;  // the most queries of a sequence
  std::int64_t max_k = 0;  // the most keys of a sequence
  at::Tensor
      key_source_Q;  // int64: the packed row of each key row; undefined for those of the part
};

// B sequences packed one after another into N rows. Built once for a batch and shared by all
// layers.
struct PackedLayout {
  std::vector<std::int64_t> offsets;  // [B+1]; sequence b owns rows [offsets[b], offsets[b+1])
  std::vector<std::int64_t> prefix;   // [B]; the sequence that sequence b continues, or -1
  std::int64_t longest = 0;           // length of the longest sequence with its prefix
  at::Tensor positions_N;             // int64; begin at 0, or after the prefix
  RectangleLayout rectangles;         // set by LayOutRectangles
  std::vector<VarlenPart> varlen;     // set by LayOutVarlen

  // The ranks that divide the rows, or null. positions_N are then those of the rows of this rank.
  ContextGroup* context = nullptr;

  std::int64_t sequences() const { return static_cast<std::int64_t>(prefix.size()); }

  std::int64_t length(std::int64_t b) const {
    return offsets[static_cast<std::size_t>(b) + 1] - offsets[static_cast<std::size_t>(b)];
  }
};

// Lays out sequences of the given lengths. Transformer::Hidden describes `prefixes`. Throws
// c10::Error for empty sequences and for continuations that do not follow their prefix directly.
PackedLayout LayOut(std::span<const std::int64_t> lengths, std::span<const std::int64_t> prefixes,
                    at::Device device);

// Divides the sequences into rectangles, with little padding.
RectangleLayout LayOutRectangles(const PackedLayout& layout);

// The key rows of one part, unless a single sequence has more. They bound the memory of attention
// where many sequences share a prefix.
inline constexpr std::int64_t kVarlenKeys = 65536;

// Divides the sequences into parts of at most `most_keys` key rows; without prefixes, key rows are
// the packed rows and there is one part.
std::vector<VarlenPart> LayOutVarlen(const PackedLayout& layout,
                                     std::int64_t most_keys = kVarlenKeys);

// Convert packed rows [N, ...] to padded rows [P, ...] and back. Return the same tensor if the
// layout is not padded. Differentiable.
at::Tensor PadRows(const RectangleLayout& layout, const at::Tensor& rows_N);
at::Tensor UnpadRows(const RectangleLayout& layout, const at::Tensor& rows_P);

// Selects rows [Q, W] of rows [N, W]. An index may occur more than once, as those of a prefix that
// sequences share do. Differentiable; gradients are summed in float32.
at::Tensor RepeatRows(const at::Tensor& rows_NW, const at::Tensor& index_Q);

// The derivative of RepeatRows: the sum [N, W] of the gradients [Q, W] of equal rows.
at::Tensor SumRepeated(const at::Tensor& grad_QW, const at::Tensor& index_Q, std::int64_t N);

}  // namespace buttress
