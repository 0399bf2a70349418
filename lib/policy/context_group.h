// Context parallelism: the ranks of a group divide the rows of each pass between them, for
// sequences whose activations one rank cannot hold (Jacobs et al., "DeepSpeed Ulysses", arXiv
// 2309.14509). Everything but attention runs on the rows of the rank. Around attention the ranks
// exchange rows for heads, so that each attends with its heads over all rows, and back.
//
// Shapes: c ranks, N rows of a pass, n = ceil(N / c) rows of a rank, of which the last may be
// fillers; M scored tokens of a pass, m of a rank; H query heads and K key-value heads of C values,
// h and k of a rank (HeadsOfRank).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// A rank in its group. Every rank of the group makes the same calls in the same order with equal
// shapes. The host does not wait for the device.
class ContextGroup {
 public:
  virtual ~ContextGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Gives part r of `parts` [c, ...] to rank r and returns [c, ...] what the ranks give, in the
  // order of ranks. Throws StatusError.
  virtual at::Tensor AllToAll(const at::Tensor& parts) = 0;

  // Returns [c, ...] what the ranks pass. Throws StatusError.
  virtual at::Tensor AllGather(const at::Tensor& own) = 0;
};

// Exchanges qkv [n, (H + 2K) * C] of the rows of this rank for [N, (h + 2k) * C] of its heads. A
// key-value head that several ranks need goes to each, and their gradients are summed in the order
// of ranks. Differentiable.
at::Tensor ExchangeRowsForHeads(ContextGroup& group, const AttentionSpec& spec, std::int64_t N,
                                const at::Tensor& qkv);

// The way back: exchanges [N, h * C] of the heads of this rank for [n, H * C] of its rows; the
// values of fillers are 0. Differentiable.
at::Tensor ExchangeHeadsForRows(ContextGroup& group, const at::Tensor& attended);

// The rows and the scored tokens of this rank in one pass. Not thread-safe.
class ContextShare {
 public:
  // `rows_M`, on the CPU, are the rows that predict the scored tokens. `group` must outlive the
  // share.
  ContextShare(ContextGroup& group, std::int64_t N, const at::Tensor& rows_M);

  ContextGroup& group() const { return group_; }

  // [N] to [n]: the values of the rows of this rank; those of fillers are 0.
  at::Tensor OwnRows(const at::Tensor& values_N) const;

  // [M] to [m]: the values of the scored tokens of this rank.
  at::Tensor Own(const at::Tensor& values_M) const;

  // [m]: the rows that predict them, among those of this rank. On the CPU.
  at::Tensor ScoredRows() const;

  // The reverse of Own: [m] of every rank to [M].
  at::Tensor Gather(const at::Tensor& values_m) const;

 private:
  ContextGroup& group_;
  const std::int64_t n_;
  const at::Tensor rows_M_;
  at::Tensor own_m_;       // the places of the scored tokens of this rank in [M]
  at::Tensor place_M_;     // the places of all scored tokens in [c, most_]
  std::int64_t most_ = 0;  // scored tokens of the rank that has most
};

}  // namespace buttress
