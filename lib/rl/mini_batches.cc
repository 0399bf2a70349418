#include "lib/rl/mini_batches.h"

#include <numeric>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

// Returns the mini-batch of each of `items` items.
std::vector<std::int32_t> Cut(std::size_t items, std::int32_t count, RandomKey key) {
  std::vector<std::size_t> order(items);
  std::iota(order.begin(), order.end(), std::size_t{0});
  RandomStream random(key);
  Shuffle(std::span(order), random);
  std::vector<std::int32_t> mini_batch(items);
  for (std::size_t place = 0; place < items; ++place) {
    mini_batch[order[place]] =
        static_cast<std::int32_t>(place * static_cast<std::size_t>(count) / items);
  }
  return mini_batch;
}

}  // namespace

std::vector<std::int32_t> DrawMiniBatches(std::span<const std::int32_t> group_offsets,
                                          std::int32_t count, MiniBatchOf of, RandomKey key) {
  BUTTRESS_CHECK(count >= 1 && !group_offsets.empty(), "at least one mini-batch");
  const auto rows = static_cast<std::size_t>(group_offsets.back());
  if (of == MiniBatchOf::kCompletions) return Cut(rows, count, key);
  const std::vector<std::int32_t> of_group = Cut(group_offsets.size() - 1, count, key);
  std::vector<std::int32_t> of_row;
  of_row.reserve(rows);
  for (std::size_t k = 0; k < of_group.size(); ++k)
    of_row.resize(static_cast<std::size_t>(group_offsets[k + 1]), of_group[k]);
  return of_row;
}

}  // namespace buttress
