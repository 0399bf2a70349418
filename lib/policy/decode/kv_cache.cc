#include "lib/policy/decode/kv_cache.h"

#include <torch/types.h>

#include "lib/base/report/check.h"

namespace buttress {

KvCache::KvCache(const ModelConfig& config, at::ScalarType dtype, at::Device device,
                 std::int64_t blocks)
    : total_(blocks) {
  const auto options = at::TensorOptions(dtype).device(device);
  for (const BlockSpec& block : config.blocks) {
    const AttentionSpec& spec = block.attention;
    keys_.push_back(at::empty({blocks, spec.K, spec.C, kCacheBlock}, options));
    values_.push_back(at::empty({blocks, spec.K, kCacheBlock, spec.C}, options));
  }
  for (std::int64_t b = blocks; b > 0; --b) free_.push_back(static_cast<std::int32_t>(b - 1));
}

std::vector<std::int32_t> KvCache::Allocate(std::int64_t count) {
  BUTTRESS_CHECK(count <= free_blocks(),
                 "more blocks of the key-value cache requested than are free");
  std::vector<std::int32_t> blocks(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - static_cast<std::size_t>(count));
  return blocks;
}

void KvCache::Release(std::vector<std::int32_t>& blocks) {
  free_.insert(free_.end(), blocks.rbegin(), blocks.rend());
  blocks.clear();
}

void KvCache::CopyBlock(std::int32_t from, std::int32_t to) {
  for (std::size_t layer = 0; layer < keys_.size(); ++layer) {
    keys_[layer].select(0, to).copy_(keys_[layer].select(0, from));
    values_[layer].select(0, to).copy_(values_[layer].select(0, from));
  }
}

}  // namespace buttress
