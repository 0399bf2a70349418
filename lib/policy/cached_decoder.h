// The forward pass of the decoder with a key-value cache, for generation. Without gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/policy/cpu/packed_head.h"
#include "lib/policy/kv_cache.h"
#include "lib/policy/packed_layout.h"
#include "lib/policy/rope.h"
#include "lib/policy/transformer.h"

namespace buttress {

// One token at one position of a sequence. `blocks` are the cache blocks of positions 0 to
// `position`.
struct CacheRow {
  std::int32_t token = 0;
  std::int64_t position = 0;
  const std::int32_t* blocks = nullptr;
};

// What a row attends to.
enum class AttendTo {
  kCache,  // the cache; earlier positions of its sequence are there or among the rows
  kRows,   // the rows, which must be whole sequences from position 0; faster for long ones
};

// Keeps a copy of the weights in a layout that is fast for small batches. Not thread-safe.
class CachedDecoder {
 public:
  CachedDecoder(Transformer& model, bool batch_invariant);

  // Copies the weights of the model again, after they changed.
  void RepackWeights();

  ~CachedDecoder();
  CachedDecoder(const CachedDecoder&) = delete;
  CachedDecoder& operator=(const CachedDecoder&) = delete;

  // Stores the keys and values of the rows, and returns their hidden states [R, D] before the last
  // norm.
  at::Tensor Run(std::span<const CacheRow> rows, AttendTo attend, KvCache& cache);

  // Returns the logits [R, V] of hidden states from Run, on the CPU, in float32. Rows may be more
  // than V values apart.
  at::Tensor Logits(const at::Tensor& hidden_RD);

  at::Device device() const { return device_; }

 private:
  // The products of a block with packed weights.
  struct Products;

  Transformer& model_;
  const ModelConfig& config_;
  const at::Device device_;
  const std::int64_t tile_rows_;  // rows of a tile; 0 for no tiles
  std::vector<RopeTable> ropes_;
  std::vector<Products> products_;  // by layer
  std::optional<PackedHead> head_;
};

}  // namespace buttress
