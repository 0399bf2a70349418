// The specification of what a transformer block computes. A family of models is a function from its
// config.json to these descriptions; training and generation run the same ones. Without torch.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace buttress {

// Causal grouped-query attention: H query heads and K key-value heads of C values; H is a multiple
// of K.
struct AttentionSpec {
  std::int64_t H = 0;
  std::int64_t K = 0;
  std::int64_t C = 0;
  double scale = 0;         // of the scores q k^T; 0 for 1 / sqrt(C)
  std::int64_t window = 0;  // a row attends to the last `window` positions with its own; 0 for all
  double score_cap = 0;     // a scaled score s becomes cap * tanh(s / cap); 0 for none

  // The widths of a row of queries, and of keys or values.
  std::int64_t q_width() const { return H * C; }

  std::int64_t kv_width() const { return K * C; }

  double score_scale() const { return scale > 0 ? scale : 1.0 / std::sqrt(static_cast<double>(C)); }

  // Returns whether the window excludes positions of a sequence of `length` positions.
  bool windowed(std::int64_t length) const { return window > 0 && window < length; }
};

// x / sqrt(mean(x^2) + eps) * w (RMSNorm, arXiv 1910.07467), or * (1 + w).
struct NormSpec {
  double eps = 1e-6;
  bool adds_one = false;
};

enum class Activation { kSilu, kGeluTanh };

// `count` MLPs, of which a router chooses top_k for each row (experts.h).
struct ExpertSpec {
  std::int64_t count = 0;  // 0 for one MLP without a router
  std::int64_t top_k = 0;
  bool normalize = false;  // the weights of the chosen experts sum to 1
};

// A block of width D with MLPs of width F:
//   middle = hidden + PostNorm(Out(Attend(Rope(QkNorm(Qkv(Norm(hidden)))))))
//   next   = middle + PostNorm(Down(Gate(GateUp(Norm(middle)))))
struct BlockSpec {
  std::int64_t D = 0;
  std::int64_t F = 0;
  AttentionSpec attention;
  bool qkv_bias = false;
  bool out_bias = false;
  bool qk_norm = false;     // RMSNorm of each query and key head
  bool post_norms = false;  // RMSNorm of what attention and MLP add to the hidden states
  NormSpec norm;            // of all norms of the block
  Activation activation = Activation::kSilu;
  ExpertSpec experts;
  std::size_t rope = 0;  // its index among the rotary embeddings of the model

  std::size_t mlps() const {
    return experts.count == 0 ? 1 : static_cast<std::size_t>(experts.count);
  }
};

// A rotary position embedding turns pair i of a head by position * theta^(-2i/C), with the
// frequencies scaled for long contexts: all divided by `factor` if original_positions is 0, else as
// Llama 3.1 does, where wavelengths up to original_positions / high_freq_factor stay, those from
// original_positions / low_freq_factor on are multiplied by `factor`, and the others are between.
struct RopeSpec {
  double theta = 10000;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_positions = 0;
};

}  // namespace buttress
