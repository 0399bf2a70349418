#include "lib/policy/swiglu.h"

#include <torch/torch.h>

#include "lib/policy/cpu_rows.h"

namespace buttress {

at::Tensor SwiGlu(const at::Tensor& gate_NF, const at::Tensor& up_NF) {
  if (!UsesRowKernels(gate_NF)) return at::silu(gate_NF) * up_NF;
  at::Tensor out = at::empty(gate_NF.sizes(), gate_NF.options());
  const std::int64_t F = gate_NF.size(1);
  ForRows(gate_NF, 8 * F, [&](auto tag, std::int64_t first, std::int64_t rows) {
    using T = decltype(tag);
    SwiGluRows(Rows<T>(gate_NF, first), Rows<T>(up_NF, first), MutableRows<T>(out, first), rows, F, gate_NF.stride(0));
  });
  return out;
}

}  // namespace buttress
