// The head of a decoder with a weight layout that is fast for the few rows of decoding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "lib/policy/cpu/packed_linear.h"

namespace buttress {

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
