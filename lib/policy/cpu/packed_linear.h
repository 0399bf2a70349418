// A linear layer whose weights are laid out for repeated small batches, as decoding has them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace buttress {

// Several layers over the same input as one: outputs lie side by side. Copies the weights; made
// anew when they change. On CPUs float32 weights are kept transposed and bfloat16 ones in oneDNN's
// blocked form (1.2 and 1.5 times the speed of the checkpoint's layout).
class PackedLinear {
 public:
  // `biases` is empty or has one for each weight [out, in].
  PackedLinear(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& biases);

  // [R, in] -> [R, outs]. With `tile_rows` above 0 rows are computed in tiles of exactly that many,
  // so that a row's bits do not depend on how many others there are.
  at::Tensor Apply(const at::Tensor& x, std::int64_t tile_rows) const;

 private:
  at::Tensor ApplyOnce(const at::Tensor& x) const;

  enum class Form { kPlain, kTransposed, kBlocked };

  Form form_;
  at::Tensor weight_;
  at::Tensor bias_;
};

}  // namespace buttress
