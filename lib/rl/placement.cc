#include "lib/rl/placement.h"

#include <algorithm>
#include <iterator>
#include <map>
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

std::size_t Index(std::int32_t row) { return static_cast<std::size_t>(row); }

// Rows of group k that have to be run.
std::vector<std::int32_t> RowsToRun(std::span<const CompletionLoad> completions, std::int32_t begin,
                                    std::int32_t end, const PlacementOptions& options) {
  std::vector<std::int32_t> rows;
  bool has_advantage = options.run_zero_advantage_groups;
  for (std::int32_t row = begin; row < end; ++row) {
    const CompletionLoad& load = completions[static_cast<std::size_t>(row)];
    if (!load.scorable || load.trained_tokens == 0) continue;
    rows.push_back(row);
    has_advantage = has_advantage || load.has_advantage;
  }
  if (!has_advantage) rows.clear();
  return rows;
}

// Indices 0 ... weights.size() - 1 by descending weight, ties by index.
std::vector<std::size_t> ByDescendingWeight(std::span<const std::int64_t> weights) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  return order;
}

// What may run together.
class Bounds {
 public:
  Bounds(std::span<const CompletionLoad> completions, std::span<const std::int32_t> group_offsets,
         const PlacementOptions& options)
      : completions_(completions), options_(options), group_of_row_(completions.size()) {
    for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
      for (std::int32_t row = group_offsets[k]; row < group_offsets[k + 1]; ++row)
        group_of_row_[Index(row)] = k;
    }
  }

  bool Hold(const PlacedRows& one, const PlacedRows& other) const {
    if (one.forward_tokens + other.forward_tokens > options_.micro_batch_tokens) return false;
    if (!options_.bound.bytes) return true;
    std::vector<std::int32_t> rows = one.completions;
    rows.insert(rows.end(), other.completions.begin(), other.completions.end());
    std::sort(rows.begin(), rows.end());
    return options_.bound.Holds(ShapeOf(rows));
  }

 private:
  MicroBatchShape ShapeOf(std::span<const std::int32_t> rows) const {
    MicroBatchShape shape;
    std::vector<std::int64_t> lengths;
    for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
      const std::size_t group = group_of_row_[Index(rows[begin])];
      std::int64_t trained = 0;
      lengths.clear();
      for (; end < rows.size() && group_of_row_[Index(rows[end])] == group; ++end) {
        lengths.push_back(completions_[Index(rows[end])].completion_tokens);
        trained += completions_[Index(rows[end])].trained_tokens;
      }
      shape.AddGroup(completions_[Index(rows[begin])].prompt_tokens, lengths, trained);
    }
    return shape;
  }

  const std::span<const CompletionLoad> completions_;
  const PlacementOptions& options_;
  std::vector<std::size_t> group_of_row_;  // [N]
};

// Joins items into bins within the bounds: first fit by descending size. An item that exceeds them
// is alone in its bin. `fixed` tokens come once with each bin.
std::vector<PlacedRows> FirstFit(std::span<const PlacedRows> items, std::int64_t fixed,
                                 const Bounds& bounds) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(items.size());
  for (const PlacedRows& item : items) sizes.push_back(item.forward_tokens);
  std::vector<PlacedRows> bins;
  for (const std::size_t i : ByDescendingWeight(sizes)) {
    auto bin = std::find_if(bins.begin(), bins.end(),
                            [&](const PlacedRows& other) { return bounds.Hold(other, items[i]); });
    if (bin == bins.end()) bin = bins.insert(bins.end(), PlacedRows{{}, fixed});
    bin->completions.insert(bin->completions.end(), items[i].completions.begin(),
                            items[i].completions.end());
    bin->forward_tokens += sizes[i];
  }
  return bins;
}

// Cuts a group into pieces within the bounds, the prompt included in each.
std::vector<PlacedRows> CutGroup(std::span<const CompletionLoad> completions,
                                 std::span<const std::int32_t> rows, const Bounds& bounds) {
  std::vector<PlacedRows> items;
  for (const std::int32_t row : rows)
    items.push_back({{row}, completions[Index(row)].completion_tokens});
  const std::int64_t prompt = rows.empty() ? 0 : completions[Index(rows[0])].prompt_tokens;
  return FirstFit(items, prompt, bounds);
}

// What a group gives to one update, in pieces that fit a micro-batch.
struct GroupShare {
  std::size_t update = 0;
  std::vector<PlacedRows> pieces;
  std::int64_t forward_tokens = 0;
};

std::vector<GroupShare> ShareOut(std::span<const CompletionLoad> completions,
                                 std::span<const std::int32_t> rows, const Bounds& bounds) {
  std::map<std::int32_t, std::vector<std::int32_t>> rows_of_update;
  for (const std::int32_t row : rows) rows_of_update[completions[Index(row)].update].push_back(row);
  std::vector<GroupShare> shares;
  for (const auto& [update, own] : rows_of_update) {
    GroupShare& share = shares.emplace_back();
    share.update = Index(update);
    share.pieces = CutGroup(completions, own, bounds);
    for (const PlacedRows& piece : share.pieces) share.forward_tokens += piece.forward_tokens;
  }
  return shares;
}

// The tokens that the ranks have so far, [updates][ranks].
class RankLoads {
 public:
  explicit RankLoads(const PlacementOptions& options)
      : tokens_(Index(options.updates), std::vector<std::int64_t>(Index(options.ranks), 0)) {}

  // Adds a group to the rank that has the fewest tokens in its updates, and returns the rank.
  std::int32_t Add(std::span<const GroupShare> group) {
    std::vector<std::int64_t> sums(tokens_.front().size(), 0);
    for (const GroupShare& share : group) {
      for (std::size_t rank = 0; rank < sums.size(); ++rank)
        sums[rank] += tokens_[share.update][rank];
    }
    const auto rank = std::distance(sums.begin(), std::min_element(sums.begin(), sums.end()));
    for (const GroupShare& share : group)
      tokens_[share.update][static_cast<std::size_t>(rank)] += share.forward_tokens;
    return static_cast<std::int32_t>(rank);
  }

 private:
  std::vector<std::vector<std::int64_t>> tokens_;
};

// Joins the pieces that fall to update `update`.
UpdatePlacement FillMicroBatches(std::span<const std::vector<GroupShare>> shares,
                                 std::span<const std::int32_t> rank_of_group, std::size_t update,
                                 std::int32_t ranks, const Bounds& bounds) {
  std::vector<std::vector<PlacedRows>> rank_pieces(Index(ranks));
  for (std::size_t k = 0; k < shares.size(); ++k) {
    for (const GroupShare& share : shares[k]) {
      if (share.update != update) continue;
      std::vector<PlacedRows>& out = rank_pieces[Index(rank_of_group[k])];
      out.insert(out.end(), share.pieces.begin(), share.pieces.end());
    }
  }
  UpdatePlacement placement;
  for (const std::vector<PlacedRows>& of_rank : rank_pieces) {
    std::vector<PlacedRows>& batches =
        placement.micro_batches.emplace_back(FirstFit(of_rank, /*fixed=*/0, bounds));
    for (PlacedRows& batch : batches) std::sort(batch.completions.begin(), batch.completions.end());
    placement.rounds = std::max(placement.rounds, static_cast<std::int32_t>(batches.size()));
  }
  return placement;
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

Placement PlaceGroups(std::span<const CompletionLoad> completions,
                      std::span<const std::int32_t> group_offsets,
                      const PlacementOptions& options) {
  BUTTRESS_CHECK(options.ranks >= 1 && options.updates >= 1 && options.micro_batch_tokens >= 1,
                 "ranks, updates and micro_batch_tokens are at least 1");
  const Bounds bounds(completions, group_offsets, options);
  const std::size_t groups = group_offsets.size() - 1;
  std::vector<std::vector<GroupShare>> shares(groups);
  std::vector<std::int64_t> weights(groups, 0);
  for (std::size_t k = 0; k < groups; ++k) {
    shares[k] =
        ShareOut(completions,
                 RowsToRun(completions, group_offsets[k], group_offsets[k + 1], options), bounds);
    for (const GroupShare& share : shares[k]) weights[k] += share.forward_tokens;
  }
  Placement placement;
  placement.rank_of_group.assign(groups, -1);
  RankLoads loads(options);
  for (const std::size_t k : ByDescendingWeight(weights)) {
    if (!shares[k].empty()) placement.rank_of_group[k] = loads.Add(shares[k]);
  }
  for (std::size_t update = 0; update < Index(options.updates); ++update) {
    placement.updates.push_back(
        FillMicroBatches(shares, placement.rank_of_group, update, options.ranks, bounds));
  }
  return placement;
}

}  // namespace buttress
