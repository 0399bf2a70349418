// The forward pass of the decoder with a key-value cache, for generation. Without gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/policy/adapters/adapters.h"
#include "lib/policy/decode/kv_cache.h"
#include "lib/policy/layers/rope.h"
#include "lib/policy/transformer.h"
#include "lib/policy/weights/packed_layout.h"
#include "lib/policy/weights/parameters.h"

namespace buttress {

// One token at one position of a sequence. `blocks` are the cache blocks of positions 0 to
// `position`.
struct CacheRow {
  std::int32_t token = 0;
  std::int64_t position = 0;
  const std::int32_t* blocks = nullptr;
};

// Keeps the weights in a layout that is fast for small batches, and of the embedding and the norms
// what the checkpoint has. On CPUs the bits of a row depend on the tokens of its sequence alone,
// and are those of a row-wise Transformer. Not thread-safe, but for Pack.
class CachedDecoder {
 public:
  // All weights in the layout of the decoder.
  struct Weights;

  // Without weights, which SetWeights must give it before it runs.
  CachedDecoder(ModelConfig config, at::ScalarType dtype, at::Device device);

  // With the weights of `model`.
  explicit CachedDecoder(const Transformer& model);

  ~CachedDecoder();
  CachedDecoder(const CachedDecoder&) = delete;
  CachedDecoder& operator=(const CachedDecoder&) = delete;

  // Copies weights into the layout of the decoder, a block at a time. Thread-safe: Run may run at
  // the same time, with the weights that it has. What `parts` throws passes through.
  std::shared_ptr<const Weights> Pack(const WeightParts& parts) const;

  // Replaces the weights by those of Pack, and frees the old ones.
  void SetWeights(std::shared_ptr<const Weights> weights) { weights_ = std::move(weights); }

  // The same, but frees the old ones first, so that two sets never exist. After an exception there
  // are none, and Run throws until a call succeeds.
  void SetWeights(const WeightParts& parts);
  void SetWeights(const Transformer& model);

  // Replaces the adapters that Run applies, and leaves the weights as they are. REQUIRES: they fit
  // the model.
  void SetAdapters(const Adapters& adapters);

  // Stores the keys and values of the rows, and returns their hidden states [R, D] before the last
  // norm. Rows attend to the cache, where the positions before a row are, unless they are among the
  // rows. With `lengths` the rows are whole sequences, one after another, which on a GPU attend to
  // their own rows: this is fast for many.
  at::Tensor Run(std::span<const CacheRow> rows, const std::vector<std::int64_t>& lengths,
                 KvCache& cache);

  // Returns the logits [R, V] of hidden states from Run, on the CPU, in float32.
  at::Tensor Logits(const at::Tensor& hidden_RD);

  const ModelConfig& config() const { return config_; }

  at::ScalarType dtype() const { return dtype_; }

  at::Device device() const { return device_; }

 private:
  // The products of a block with packed weights.
  struct Products;

  const ModelConfig config_;
  const at::ScalarType dtype_;
  const at::Device device_;
  std::vector<RopeTable> ropes_;
  std::shared_ptr<const Weights> weights_;  // null if there are none
  std::vector<LayerAdapters> adapters_;     // by layer
  double adapter_scale_ = 0;
};

}  // namespace buttress
