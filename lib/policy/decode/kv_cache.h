// The keys and values of all running sequences, in blocks of kCacheBlock positions from one pool
// (Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention",
// arXiv 2309.06180).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/policy/cpu/paged_kernels.h"
#include "lib/policy/model_config.h"

namespace buttress {

// Returns the number of blocks for `tokens` positions.
constexpr std::int64_t BlocksFor(std::int64_t tokens) {
  return (tokens + kCacheBlock - 1) / kCacheBlock;
}

// Reserves its memory at construction; on CPUs, pages use memory when they are first written. Not
// thread-safe.
class KvCache {
 public:
  KvCache(const ModelConfig& config, at::ScalarType dtype, at::Device device, std::int64_t blocks);

  // Returns `count` free blocks. REQUIRES: count <= free_blocks().
  std::vector<std::int32_t> Allocate(std::int64_t count);

  // Returns the blocks to the pool and clears the list.
  void Release(std::vector<std::int32_t>& blocks);

  // Copies the keys and values of a block, in every layer.
  void CopyBlock(std::int32_t from, std::int32_t to);

  std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }

  std::int64_t total_blocks() const { return total_; }

  // The keys of a layer, [blocks, K, C, kCacheBlock], and its values, [blocks, K, kCacheBlock, C].
  const at::Tensor& keys(std::size_t layer) const { return keys_[layer]; }

  const at::Tensor& values(std::size_t layer) const { return values_[layer]; }

 private:
  std::int64_t total_;
  std::vector<at::Tensor> keys_;
  std::vector<at::Tensor> values_;
  std::vector<std::int32_t> free_;  // a stack, so that few pages are ever written
};

}  // namespace buttress
