#include "lib/rl/placement.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "lib/experience/group_offsets.h"

namespace buttress {
namespace {

Status CheckInput(std::span<const CompletionLoad> completions,
                  std::span<const std::int32_t> group_offsets, const PlacementOptions& options) {
  if (options.ranks < 1)
    return InvalidArgument("ranks = " + std::to_string(options.ranks) + "; expected at least 1");
  if (options.micro_batch_tokens < 1) {
    return InvalidArgument("micro_batch_tokens = " + std::to_string(options.micro_batch_tokens) +
                           "; expected at least 1");
  }
  BUTTRESS_RETURN_IF_ERROR(CheckGroupOffsets(group_offsets, completions.size()));
  for (std::size_t i = 0; i < completions.size(); ++i) {
    const CompletionLoad& load = completions[i];
    if (load.prompt_tokens >= 0 && load.trained_tokens >= 0 &&
        load.completion_tokens >= load.trained_tokens)
      continue;
    return InvalidArgument("completion " + std::to_string(i) + ": " +
                           std::to_string(load.prompt_tokens) + " prompt, " +
                           std::to_string(load.completion_tokens) + " completion and " +
                           std::to_string(load.trained_tokens) +
                           " trained tokens; expected numbers >= 0, and no more trained tokens "
                           "than the completion has");
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

// Indices 0 ... weights.size() - 1 by falling weight, ties by index.
std::vector<std::size_t> ByFallingWeight(std::span<const std::int64_t> weights) {
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
  for (const std::size_t i : ByFallingWeight(weights)) {
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

std::int64_t Placement::rank_tokens(std::int32_t rank) const {
  std::int64_t tokens = 0;
  for (const MicroBatch& batch : micro_batches[static_cast<std::size_t>(rank)])
    tokens += batch.forward_tokens;
  return tokens;
}

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
  for (const std::size_t k : ByFallingWeight(weights)) {
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
