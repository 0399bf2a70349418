#include "lib/rl/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "lib/experience/group_offsets.h"

namespace buttress {
namespace {

Status CheckInput(std::span<const CompletionLoad> completions,
                  std::span<const std::int32_t> group_offsets, const PlacementOptions& options) {
  if (options.ranks < 1)
    return InvalidArgument(fmt::format("ranks = {}; expected 1 or more", options.ranks));
  if (options.micro_batch_tokens < 1)
    return InvalidArgument(
        fmt::format("micro_batch_tokens = {}; expected 1 or more", options.micro_batch_tokens));
  BUTTRESS_RETURN_IF_ERROR(CheckGroupOffsets(group_offsets, completions.size()));
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

std::vector<MicroBatch> FillMicroBatches(std::span<const CompletionLoad> completions,
                                         std::span<const std::int32_t> rows,
                                         std::int64_t micro_batch_tokens) {
  std::vector<std::int64_t> weights;
  weights.reserve(rows.size());
  for (const std::int32_t row : rows)
    weights.push_back(completions[static_cast<std::size_t>(row)].forward_tokens());
  std::vector<MicroBatch> batches;
  for (const std::size_t i : ByDescendingWeight(weights)) {
    auto fit = std::find_if(batches.begin(), batches.end(), [&](const MicroBatch& batch) {
      return batch.forward_tokens + weights[i] <= micro_batch_tokens;
    });
    if (fit == batches.end()) fit = batches.emplace(batches.end());
    fit->completions.push_back(rows[i]);
    fit->forward_tokens += weights[i];
  }
  for (MicroBatch& batch : batches) std::sort(batch.completions.begin(), batch.completions.end());
  return batches;
}

}  // namespace

Result<Placement> PlaceGroups(std::span<const CompletionLoad> completions,
                              std::span<const std::int32_t> group_offsets,
                              const PlacementOptions& options) {
  BUTTRESS_RETURN_IF_ERROR(CheckInput(completions, group_offsets, options));
  const std::size_t groups = group_offsets.size() - 1;
  const auto ranks = static_cast<std::size_t>(options.ranks);
  std::vector<std::vector<std::int32_t>> rows(groups);
  std::vector<std::int64_t> weights(groups, 0);
  for (std::size_t k = 0; k < groups; ++k) {
    rows[k] = RowsToRun(completions, group_offsets[k], group_offsets[k + 1], options);
    for (const std::int32_t row : rows[k])
      weights[k] += completions[static_cast<std::size_t>(row)].forward_tokens();
  }
  Placement placement;
  placement.rank_of_group.assign(groups, -1);
  std::vector<std::int64_t> rank_tokens(ranks, 0);
  for (const std::size_t k : ByDescendingWeight(weights)) {
    if (rows[k].empty()) continue;
    const auto lightest = std::min_element(rank_tokens.begin(), rank_tokens.end());
    *lightest += weights[k];
    placement.rank_of_group[k] = static_cast<std::int32_t>(lightest - rank_tokens.begin());
  }
  std::vector<std::vector<std::int32_t>> rank_rows(ranks);
  for (std::size_t k = 0; k < groups; ++k) {
    if (rows[k].empty()) continue;
    std::vector<std::int32_t>& out =
        rank_rows[static_cast<std::size_t>(placement.rank_of_group[k])];
    out.insert(out.end(), rows[k].begin(), rows[k].end());
  }
  for (const std::vector<std::int32_t>& of_rank : rank_rows) {
    placement.micro_batches.push_back(
        FillMicroBatches(completions, of_rank, options.micro_batch_tokens));
    placement.rounds = std::max(placement.rounds,
                                static_cast<std::int32_t>(placement.micro_batches.back().size()));
  }
  return placement;
}

}  // namespace buttress
