// Linear layers and the head of a decoder with a weight layout that is fast for the small batches
// of decoding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace buttress {

// Maps x [R, in] by `apply`. With tile_rows > 0, passes tiles of exactly that many rows, so that
// the bits of a row do not depend on the number of rows.
at::Tensor ApplyInTiles(const at::Tensor& x, std::int64_t tile_rows,
                        const std::function<at::Tensor(const at::Tensor& tile)>& apply);

// Several linear layers over the same input, whose outputs lie side by side. It must be created
// again when the weights change. On CPUs it copies them: float32 weights are transposed and
// bfloat16 weights have the blocked layout of oneDNN, which makes them 1.2 and 1.5 times as fast as
// the layout of the checkpoint. Elsewhere it reads the weights of a model where they are.
class PackedLinear {
 public:
  // `biases` is empty, or has one [out] for each of `weights` [out, in].
  PackedLinear(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& biases);

  // Maps x [R, in] to [R, outs], as ApplyInTiles does.
  at::Tensor Apply(const at::Tensor& x, std::int64_t tile_rows) const;

 private:
  at::Tensor ApplyOnce(const at::Tensor& x) const;

  enum class Form { kPlain, kTransposed, kBlocked };

  Form form_;
  std::int64_t outs_;
  at::Tensor weight_;
  at::Tensor bias_;
};

// HeadLogits of a copy of the head, which must be created again when the weight changes.
class PackedHead {
 public:
  explicit PackedHead(const at::Tensor& head_VD);

  // Returns the logits [R, V] in float32. Rows may be more than V values apart. With tile_rows > 0,
  // the bits of a row do not depend on the number of rows.
  at::Tensor Logits(const at::Tensor& hidden_RD, std::int64_t tile_rows) const;

 private:
  const std::int64_t V_;
  std::optional<PackedLinear> linear_;  // in float32
  at::Tensor blocks_;                   // in bfloat16 on CPUs: those of BlockProduct
  at::Tensor head_VD_;                  // otherwise
};

}  // namespace buttress
