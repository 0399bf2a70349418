// What a transformer block computes. A family of models is a function from its config.json to these
// descriptions; training and generation run the same ones. Without torch.
#pragma once

#include <cstdint>

namespace buttress {

// Causal grouped-query attention: H query heads and K key-value heads of C values; H is a multiple
// of K.
struct AttentionSpec {
  std::int64_t H = 0;
  std::int64_t K = 0;
  std::int64_t C = 0;

  // The widths of a row of queries, of keys or values, and of all three.
  std::int64_t q_width() const { return H * C; }

  std::int64_t kv_width() const { return K * C; }

  std::int64_t qkv_width() const { return (H + 2 * K) * C; }
};

// A block of width D with an MLP of width F:
//   middle = hidden + Out(Attend(Rope(Qkv(Norm(hidden)))))
//   next   = middle + Down(SwiGlu(GateUp(Norm(middle))))
struct BlockSpec {
  std::int64_t D = 0;
  std::int64_t F = 0;
  AttentionSpec attention;
  bool qkv_bias = false;
  double norm_eps = 1e-6;
};

}  // namespace buttress
