#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lib/base/text/random.h"
#include "lib/rl/placement.h"

namespace buttress {
namespace {

struct Batch {
  std::vector<CompletionLoad> loads;
  std::vector<std::int32_t> offsets = {0};
};

Batch RandomBatch(RandomStream& random, std::uint64_t updates = 1) {
  Batch batch;
  const std::uint64_t groups = random.Below(30);
  for (std::uint64_t k = 0; k < groups; ++k) {
    const bool has_advantage = random.Below(3) > 0;
    const auto prompt_tokens = static_cast<std::int32_t>(random.Below(20));
    for (std::uint64_t i = random.Below(9); i > 0; --i) {
      CompletionLoad load;
      load.prompt_tokens = prompt_tokens;
      load.completion_tokens = static_cast<std::int32_t>(random.Below(200));
      load.trained_tokens = static_cast<std::int32_t>(
          random.Below(static_cast<std::uint64_t>(load.completion_tokens) + 1));
      load.scorable = random.Below(10) > 0;
      load.has_advantage = has_advantage && random.Below(2) > 0;
      load.update = static_cast<std::int32_t>(random.Below(updates));
      batch.loads.push_back(load);
    }
    batch.offsets.push_back(static_cast<std::int32_t>(batch.loads.size()));
  }
  return batch;
}

bool MustRun(const Batch& batch, std::size_t group, std::size_t row,
             const PlacementOptions& options) {
  const CompletionLoad& load = batch.loads[row];
  if (!load.scorable || load.trained_tokens == 0) return false;
  const auto begin = batch.loads.begin() + batch.offsets[group];
  const auto end = batch.loads.begin() + batch.offsets[group + 1];
  return options.run_zero_advantage_groups ||
         std::any_of(begin, end, [](const CompletionLoad& other) {
           return other.scorable && other.trained_tokens > 0 && other.has_advantage;
         });
}

// Tokens of `rows`, with the prompt of each group once.
std::int64_t ForwardTokens(const Batch& batch, const std::vector<std::int32_t>& rows) {
  std::int64_t tokens = 0;
  std::ptrdiff_t last_group = -1;
  for (const std::int32_t row : rows) {
    const auto next = std::upper_bound(batch.offsets.begin(), batch.offsets.end(), row);
    const std::ptrdiff_t group = next - batch.offsets.begin() - 1;
    const CompletionLoad& load = batch.loads[static_cast<std::size_t>(row)];
    tokens += load.completion_tokens + (group == last_group ? 0 : load.prompt_tokens);
    last_group = group;
  }
  return tokens;
}

// Forward tokens of one rank.
std::int64_t RankTokens(const Placement& placement, std::int32_t rank) {
  std::int64_t tokens = 0;
  for (const PlacedRows& batch : placement.updates[0].micro_batches[static_cast<std::size_t>(rank)])
    tokens += batch.forward_tokens;
  return tokens;
}

TEST(PlaceGroupsProperty, RunsEachCompletionThatMustRunExactlyOnce) {
  RandomStream random({20260101, 1});
  for (int trial = 0; trial < 2000; ++trial) {
    const std::uint64_t updates = 1 + random.Below(4);
    const Batch batch = RandomBatch(random, updates);
    const PlacementOptions options = {
        .ranks = static_cast<std::int32_t>(1 + random.Below(5)),
        .updates = static_cast<std::int32_t>(updates),
        .micro_batch_tokens = static_cast<std::int64_t>(1 + random.Below(500)),
        .run_zero_advantage_groups = random.Below(2) == 0};
    const auto placement = PlaceGroups(batch.loads, batch.offsets, options);
    ASSERT_EQ(placement.updates.size(), updates);
    std::vector<int> seen(batch.loads.size(), 0);
    std::vector<std::int32_t> rank_of_row(batch.loads.size(), -1);
    for (std::size_t u = 0; u < updates; ++u) {
      const UpdatePlacement& update = placement.updates[u];
      std::size_t most = 0;
      for (std::size_t rank = 0; rank < update.micro_batches.size(); ++rank) {
        most = std::max(most, update.micro_batches[rank].size());
        for (const PlacedRows& micro_batch : update.micro_batches[rank]) {
          for (const std::int32_t row : micro_batch.completions) {
            const auto index = static_cast<std::size_t>(row);
            ++seen[index];
            rank_of_row[index] = static_cast<std::int32_t>(rank);
            EXPECT_EQ(batch.loads[index].update, static_cast<std::int32_t>(u));
          }
          const std::int64_t tokens = ForwardTokens(batch, micro_batch.completions);
          EXPECT_EQ(tokens, micro_batch.forward_tokens);
          EXPECT_TRUE(tokens <= options.micro_batch_tokens || micro_batch.completions.size() == 1);
        }
      }
      EXPECT_EQ(update.rounds, static_cast<std::int32_t>(most));
    }
    for (std::size_t k = 0; k + 1 < batch.offsets.size(); ++k) {
      for (auto row = static_cast<std::size_t>(batch.offsets[k]);
           row < static_cast<std::size_t>(batch.offsets[k + 1]); ++row) {
        const bool must = MustRun(batch, k, row, options);
        ASSERT_EQ(seen[row], must ? 1 : 0) << "trial " << trial << " row " << row;
        EXPECT_EQ(rank_of_row[row], must ? placement.rank_of_group[k] : -1);
      }
    }
  }
}

// The sequences of `rows`, which are ascending.
MicroBatchShape ShapeOf(const Batch& batch, const std::vector<std::int32_t>& rows) {
  MicroBatchShape shape;
  for (std::size_t k = 0; k + 1 < batch.offsets.size(); ++k) {
    std::vector<std::int64_t> lengths;
    std::int64_t prompt = 0, trained = 0;
    for (const std::int32_t row : rows) {
      if (row < batch.offsets[k] || row >= batch.offsets[k + 1]) continue;
      const CompletionLoad& load = batch.loads[static_cast<std::size_t>(row)];
      lengths.push_back(load.completion_tokens);
      prompt = load.prompt_tokens;
      trained += load.trained_tokens;
    }
    if (!lengths.empty()) shape.AddGroup(prompt, lengths, trained);
  }
  return shape;
}

// Rows, a part for each pair of a row and a key, and scored tokens.
double Bytes(const MicroBatchShape& shape) {
  double bytes = 3 * static_cast<double>(shape.scored);
  for (const auto& [rows, prefix] : shape.sequences)
    bytes += static_cast<double>(rows * (16 + prefix + rows));
  return bytes;
}

TEST(PlaceGroupsProperty, AMicroBatchTakesNoMoreThanItsBoundUnlessItIsOneCompletion) {
  RandomStream random({20260101, 3});
  std::size_t alone = 0, bounded = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const Batch batch = RandomBatch(random);
    PlacementOptions options = {.ranks = static_cast<std::int32_t>(1 + random.Below(3)),
                                .micro_batch_tokens = 2000,
                                .run_zero_advantage_groups = true};
    const Placement unbounded = PlaceGroups(batch.loads, batch.offsets, options);
    options.bound = {Bytes, 1e12};  // which is out of reach
    const Placement same = PlaceGroups(batch.loads, batch.offsets, options);
    ASSERT_EQ(same.rank_of_group, unbounded.rank_of_group);
    options.bound.most = static_cast<double>(1 + random.Below(200000));
    const Placement placement = PlaceGroups(batch.loads, batch.offsets, options);
    const Placement again = PlaceGroups(batch.loads, batch.offsets, options);
    std::vector<int> seen(batch.loads.size(), 0);
    for (std::size_t rank = 0; rank < placement.updates[0].micro_batches.size(); ++rank) {
      const auto of_rank = [rank](const Placement& of) {
        return of.updates[0].micro_batches[rank];
      };
      const std::vector<PlacedRows> batches = of_rank(placement), repeated = of_rank(again);
      ASSERT_EQ(batches.size(), repeated.size());
      for (std::size_t m = 0; m < batches.size(); ++m) {
        EXPECT_EQ(batches[m].completions, repeated[m].completions);
        for (const std::int32_t row : batches[m].completions) ++seen[static_cast<std::size_t>(row)];
        const double bytes = Bytes(ShapeOf(batch, batches[m].completions));
        const bool holds = bytes <= options.bound.most;
        EXPECT_TRUE(holds || batches[m].completions.size() == 1);
        (holds ? bounded : alone) += 1;
      }
      const std::vector<PlacedRows> one = of_rank(unbounded), other = of_rank(same);
      ASSERT_EQ(one.size(), other.size());
      for (std::size_t m = 0; m < one.size(); ++m)
        EXPECT_EQ(one[m].completions, other[m].completions);
    }
    for (std::size_t k = 0; k + 1 < batch.offsets.size(); ++k) {
      for (auto row = static_cast<std::size_t>(batch.offsets[k]);
           row < static_cast<std::size_t>(batch.offsets[k + 1]); ++row)
        ASSERT_EQ(seen[row], MustRun(batch, k, row, options) ? 1 : 0);
    }
  }
  EXPECT_GT(alone, 100u);
  EXPECT_GT(bounded, 1000u);
}

TEST(PlaceGroupsProperty, RanksDifferByAtMostTheHeaviestGroup) {
  RandomStream random({20260101, 2});
  for (int trial = 0; trial < 500; ++trial) {
    const Batch batch = RandomBatch(random);
    const PlacementOptions options = {.ranks = 4, .run_zero_advantage_groups = true};
    const auto placement = PlaceGroups(batch.loads, batch.offsets, options);
    std::int64_t heaviest = 0;
    for (std::size_t k = 0; k + 1 < batch.offsets.size(); ++k) {
      std::vector<std::int32_t> rows;
      for (std::int32_t row = batch.offsets[k]; row < batch.offsets[k + 1]; ++row) {
        if (MustRun(batch, k, static_cast<std::size_t>(row), options)) rows.push_back(row);
      }
      heaviest = std::max(heaviest, ForwardTokens(batch, rows));
    }
    std::int64_t least = RankTokens(placement, 0);
    std::int64_t most = least;
    for (std::int32_t rank = 1; rank < 4; ++rank) {
      least = std::min(least, RankTokens(placement, rank));
      most = std::max(most, RankTokens(placement, rank));
    }
    EXPECT_LE(most - least, heaviest);
  }
}

}  // namespace
}  // namespace buttress
