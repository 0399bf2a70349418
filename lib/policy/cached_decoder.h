// The decoder's forward pass over rows whose keys and values are cached: what generation runs. No
// gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lib/policy/cpu/packed_linear.h"
#include "lib/policy/kv_cache.h"
#include "lib/policy/packed_layout.h"
#include "lib/policy/rope.h"
#include "lib/policy/transformer.h"

namespace buttress {

// One token at one position of a sequence. `blocks` hold positions 0 to `position`.
struct CacheRow {
  std::int32_t token = 0;
  std::int64_t position = 0;
  const std::int32_t* blocks = nullptr;
};

// Where a row attends to.
enum class AttendTo {
  kCache,  // positions 0 to its own, all of them in the cache or among the rows
  // the rows are whole sequences from position 0: to one another, which is faster for long ones
  kRows,
};

// Not thread-safe. Holds its own copy of the weights in the layout that small batches want.
class CachedDecoder {
 public:
  CachedDecoder(Transformer& model, bool batch_invariant);

  // The model's weights have changed: takes them anew.
  void TakeWeights();

  // Stores the rows' keys and values and returns their hidden states before the last norm, [R, D].
  at::Tensor Run(std::span<const CacheRow> rows, AttendTo attend, KvCache& cache);

  // Logits [R, V] on the CPU, float32 or bfloat16, of hidden states from Run.
  at::Tensor Logits(const at::Tensor& hidden_RD);

  at::Device device() const { return device_; }

 private:
  struct Layer {
    at::Tensor input_norm_D;
    PackedLinear qkv;
    PackedLinear out;
    at::Tensor mlp_norm_D;
    PackedLinear gate_up;
    PackedLinear down;
  };

  struct Batch;

  at::Tensor RunLayer(std::size_t index, const Batch& batch, const at::Tensor& hidden_RD,
                      KvCache& cache);

  Transformer& model_;
  const ModelConfig& config_;
  const at::Device device_;
  const std::int64_t tile_rows_;  // 0: any number of rows at once
  RopeTable rope_;
  std::vector<Layer> layers_;
  std::vector<PackedLinear> head_;  // one, once the weights are taken
};

}  // namespace buttress
