// The gated activation of an MLP (Shazeer, "GLU Variants Improve Transformer", arXiv 2002.05202),
// and mixtures of expert MLPs (Shazeer et al., "Outrageously Large Neural Networks", arXiv
// 1701.06538).
//
// Shapes: N rows, D width, F width of the MLP, E experts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "lib/policy/layers/block_spec.h"

namespace buttress {

// Maps gate_up [N, 2F], the gates and then the values of each row, to activation(gate) * value
// [N, F]. Differentiable.
at::Tensor Gate(const at::Tensor& gate_up, Activation activation);

// Maps rows [n, D] to the outputs [n, D] of one expert.
using ExpertMlp = std::function<at::Tensor(std::size_t expert, const at::Tensor& rows)>;

// The same for all experts of the process at once: the rows of expert e end before row ends_E[e]
// (int32).
using GroupedMlp = std::function<at::Tensor(const at::Tensor& rows, const at::Tensor& ends_E)>;

// The processes that divide the experts of a model (Lepikhin et al., "GShard", arXiv 2006.16668,
// section 3.2): process r has the experts [r * E / ranks, (r + 1) * E / ranks).
class ExpertPeers {
 public:
  virtual ~ExpertPeers() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Gives process r the next sent[r] rows of `in`, and fills `out` with the rows that come,
  // received[r] from process r, in the order of the processes. Both are contiguous. What is
  // enqueued on the device later runs after it. Every process makes the same calls in the same
  // order. Throws StatusError.
  virtual void Exchange(const at::Tensor& in, const std::vector<std::int64_t>& sent,
                        const at::Tensor& out, const std::vector<std::int64_t>& received) = 0;
};

// Runs for each row of x [N, D] the spec.top_k experts whose router logits [N, E] are largest, and
// returns the sums of their outputs [N, D], weighted by the softmax of the logits. `router_NE` is
// float32, and so are weights and sums. Differentiable if `mlp` is; calls it for experts without
// rows only for their zero gradients.
//
// With `grouped`, which takes the place of `mlp` where there are rows, the host does not wait for
// the device. With `peers`, rows travel to the process of their expert and back, in the backward
// pass as well, and `mlp` or `grouped` is called for the experts of this process. The host then
// waits for the device once, for the numbers of rows. Every process makes the same passes, with at
// least one row.
at::Tensor MixExperts(const ExpertSpec& spec, const at::Tensor& router_NE, const at::Tensor& x_ND,
                      const ExpertMlp& mlp, ExpertPeers* peers = nullptr,
                      const GroupedMlp& grouped = nullptr);

}  // namespace buttress
