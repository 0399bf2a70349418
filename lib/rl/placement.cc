#include "lib/rl/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "lib/experience/group_offsets.h"

namespace buttress {
namespace {

std::size_t Index(std::int32_t row) { return static_cast<std::size_t>(row); }

Status CheckInput(std::span<const CompletionLoad> completions,
                  std::span<const std::int32_t> group_offsets, const PlacementOptions& options) {
  if (options.ranks < 1)
    return InvalidArgument(fmt::format("ranks = {}; expected 1 or more", options.ranks));
  if (options.micro_batch_tokens < 1)
    return InvalidArgument(
        fmt::format("micro_batch_tokens = {}; expected 1 or more", options.micro_batch_tokens));
  BUTTRESS_RETURN_IF_ERROR(CheckGroupOffsets(group_offsets, completions.size()));
  for (std::size_t k = 0; k + 1 < group_offsets.size(); ++k) {
    for (std::int32_t row = group_offsets[k] + 1; row < group_offsets[k + 1]; ++row) {
      const std::int32_t first = completions[Index(group_offsets[k])].prompt_tokens;
      const std::int32_t other = completions[Index(row)].prompt_tokens;
      if (first != other)
        return InvalidArgument(
            fmt::format("group {}: prompts of {} and {} tokens; expected one prompt for the group",
                        k, first, other));
    }
  }
  for (std::size_t i = 0; i < completions.size(); ++i) {
    const CompletionLoad& load = completions[i];
    if (load.prompt_tokens >= 0 && load.trained_tokens >= 0 &&
        load.completion_tokens >= load.trained_tokens)
      continue;
    return InvalidArgument(fmt::format(
        "completion {}: {} prompt, {} completion and {} trained tokens; expected numbers >= 0, and "
        "no more trained tokens than the completion has",
        i, load.prompt_tokens, load.completion_tokens, load.trained_tokens));
  }
  return OkStatus();
}

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

// Joins items into bins of at most `capacity` tokens: first fit by descending size. An item that is
// larger is alone in its bin. `fixed` tokens come once with each bin.
std::vector<MicroBatch> FirstFit(std::span<const MicroBatch> items, std::int64_t fixed,
                                 std::int64_t capacity) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(items.size());
  for (const MicroBatch& item : items) sizes.push_back(item.forward_tokens);
  std::vector<MicroBatch> bins;
  for (const std::size_t i : ByDescendingWeight(sizes)) {
    auto bin = std::find_if(bins.begin(), bins.end(), [&](const MicroBatch& other) {
      return other.forward_tokens + sizes[i] <= capacity;
    });
    if (bin == bins.end()) bin = bins.insert(bins.end(), MicroBatch{{}, fixed});
    bin->completions.insert(bin->completions.end(), items[i].completions.begin(),
                            items[i].completions.end());
    bin->forward_tokens += sizes[i];
  }
  return bins;
}

// Cuts a group into pieces of at most `capacity` tokens, the prompt included in each.
std::vector<MicroBatch> CutGroup(std::span<const CompletionLoad> completions,
                                 std::span<const std::int32_t> rows, std::int64_t capacity) {
  std::vector<MicroBatch> items;
  for (const std::int32_t row : rows)
    items.push_back({{row}, completions[Index(row)].completion_tokens});
  const std::int64_t prompt = rows.empty() ? 0 : completions[Index(rows[0])].prompt_tokens;
  return FirstFit(items, prompt, capacity);
}

std::int64_t ForwardTokens(std::span<const MicroBatch> pieces) {
  std::int64_t tokens = 0;
  for (const MicroBatch& piece : pieces) tokens += piece.forward_tokens;
  return tokens;
}

}  // namespace

Result<Placement> PlaceGroups(std::span<const CompletionLoad> completions,
                              std::span<const std::int32_t> group_offsets,
                              const PlacementOptions& options) {
  BUTTRESS_RETURN_IF_ERROR(CheckInput(completions, group_offsets, options));
  const std::size_t groups = group_offsets.size() - 1;
  const auto ranks = static_cast<std::size_t>(options.ranks);
  std::vector<std::vector<MicroBatch>> pieces(groups);
  std::vector<std::int64_t> weights(groups, 0);
  for (std::size_t k = 0; k < groups; ++k) {
    pieces[k] = CutGroup(completions,
                         RowsToRun(completions, group_offsets[k], group_offsets[k + 1], options),
                         options.micro_batch_tokens);
    weights[k] = ForwardTokens(pieces[k]);
  }
  Placement placement;
  placement.rank_of_group.assign(groups, -1);
  std::vector<std::int64_t> rank_tokens(ranks, 0);
  for (const std::size_t k : ByDescendingWeight(weights)) {
    if (pieces[k].empty()) continue;
    const auto lightest = std::min_element(rank_tokens.begin(), rank_tokens.end());
    *lightest += weights[k];
    placement.rank_of_group[k] = static_cast<std::int32_t>(lightest - rank_tokens.begin());
  }
  std::vector<std::vector<MicroBatch>> rank_pieces(ranks);
  for (std::size_t k = 0; k < groups; ++k) {
    if (pieces[k].empty()) continue;
    std::vector<MicroBatch>& out = rank_pieces[Index(placement.rank_of_group[k])];
    std::move(pieces[k].begin(), pieces[k].end(), std::back_inserter(out));
  }
  for (const std::vector<MicroBatch>& of_rank : rank_pieces) {
    std::vector<MicroBatch>& batches = placement.micro_batches.emplace_back(
        FirstFit(of_rank, /*fixed=*/0, options.micro_batch_tokens));
    for (MicroBatch& batch : batches) std::sort(batch.completions.begin(), batch.completions.end());
    placement.rounds = std::max(placement.rounds, static_cast<std::int32_t>(batches.size()));
  }
  return placement;
}

}  // namespace buttress
