// Keys and values of all running sequences, in blocks of kCacheBlock positions handed out from one
// pool.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "lib/policy/cpu/paged_kernels.h"
#include "lib/policy/model_config.h"

namespace buttress {

// Blocks that hold `tokens` positions.
constexpr std::int64_t BlocksFor(std::int64_t tokens) {
  return (tokens + kCacheBlock - 1) / kCacheBlock;
}

// Not thread-safe. Memory is reserved at once; on CPUs a page costs nothing until it is written.
class KvCache {
 public:
  KvCache(const ModelConfig& config, at::ScalarType dtype, at::Device device, std::int64_t blocks);

  // REQUIRES: count <= free_blocks().
  std::vector<std::int32_t> Allocate(std::int64_t count);

  // Gives blocks back and empties the list.
  void Release(std::vector<std::int32_t>& blocks);

  void CopyBlock(std::int32_t from, std::int32_t to);

  std::int64_t free_blocks() const { return static_cast<std::int64_t>(free_.size()); }

  std::int64_t total_blocks() const { return total_; }

  // [blocks, K, C, kCacheBlock] and [blocks, K, kCacheBlock, C] of a layer.
  const at::Tensor& keys(std::size_t layer) const { return keys_[layer]; }

  const at::Tensor& values(std::size_t layer) const { return values_[layer]; }

 private:
  std::int64_t total_;
  std::vector<at::Tensor> keys_;
  std::vector<at::Tensor> values_;
  std::vector<std::int32_t>
      free_;  // a stack: blocks used last are used next, so that few pages are ever written
};

}  // namespace buttress
