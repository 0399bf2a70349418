// Ranks that are threads of this process: what they exchange, and that passes which they divide
// give what one rank gives.
#include "lib/policy/context_group.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/context_heads.h"
#include "lib/policy/model_pass.h"
#include "tests/support/live_bytes.h"
#include "tests/support/named_gradients.h"
#include "tests/unit/policy/golden.h"

namespace buttress {
namespace {

// What the threads of a group share.
struct Meeting {
  explicit Meeting(int ranks) : given(static_cast<std::size_t>(ranks)), all(ranks) {}

  std::vector<at::Tensor> given;
  std::barrier<> all;
};

class ThreadRank final : public ContextGroup {
 public:
  ThreadRank(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}

  int rank() const override { return rank_; }

  int size() const override { return static_cast<int>(meeting_.given.size()); }

  at::Tensor AllToAll(const at::Tensor& parts) override {
    return Exchanged(parts, [this](const at::Tensor& of_rank) { return of_rank[rank_]; });
  }

  at::Tensor AllGather(const at::Tensor& own) override {
    return Exchanged(own, [](const at::Tensor& of_rank) { return of_rank; });
  }

 private:
  at::Tensor Exchanged(const at::Tensor& own,
                       const std::function<at::Tensor(const at::Tensor&)>& take) {
    meeting_.given[static_cast<std::size_t>(rank_)] = own;
    meeting_.all.arrive_and_wait();
    std::vector<at::Tensor> taken;
    for (const at::Tensor& of_rank : meeting_.given) taken.push_back(take(of_rank));
    at::Tensor result = at::stack(taken);
    meeting_.all.arrive_and_wait();
    return result;
  }

  Meeting& meeting_;
  const int rank_;
};

void OnRanks(int ranks, const std::function<void(ContextGroup& group)>& body) {
  Meeting meeting(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&meeting, &body, rank] {
      ThreadRank group(meeting, rank);
      body(group);
    });
}

// The columns of qkv [N, (H + 2K) * C] that a rank attends with.
at::Tensor ColumnsOf(const at::Tensor& qkv, const AttentionSpec& spec, std::int64_t rank,
                     std::int64_t ranks) {
  const AttentionSpec own = HeadsOfRank(spec, ranks);
  const std::int64_t first_key = rank * own.H / (spec.H / spec.K) * spec.C;
  return at::cat({qkv.narrow(1, rank * own.q_width(), own.q_width()),
                  qkv.narrow(1, spec.q_width() + first_key, own.kv_width()),
                  qkv.narrow(1, spec.q_width() + spec.kv_width() + first_key, own.kv_width())},
                 1);
}

TEST(ContextGroupTest, ExchangesRowsForHeadsAndBack) {
  constexpr std::int64_t kRows = 7, kC = 4;
  for (const auto& [ranks, H, K] : std::vector<std::array<std::int64_t, 3>>{
           {2, 4, 2}, {4, 8, 2}, {4, 8, 1}, {3, 6, 3}, {8, 8, 8}, {1, 2, 1}}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const AttentionSpec spec{H, K, kC};
    const std::int64_t n = (kRows + ranks - 1) / ranks;
    torch::manual_seed(5);
    const at::Tensor all = torch::randn({ranks * n, spec.q_width() + 2 * spec.kv_width()});
    const at::Tensor out = torch::randn({kRows, spec.q_width()});
    const at::Tensor weight = torch::randn({ranks, kRows, spec.q_width() + 2 * spec.kv_width()});
    // The gradient of what all ranks get.
    const at::Tensor plain = all.narrow(0, 0, kRows).clone().requires_grad_();
    at::Tensor sum = at::zeros({});
    for (std::int64_t r = 0; r < ranks; ++r) {
      const at::Tensor own = ColumnsOf(plain, spec, r, ranks);
      sum = sum + (own * weight[r].narrow(1, 0, own.size(1))).sum();
    }
    sum.backward();
    OnRanks(static_cast<int>(ranks), [&](ContextGroup& group) {
      const std::int64_t r = group.rank(), first = r * n;
      const at::Tensor own = all.narrow(0, first, n).clone().requires_grad_();
      const at::Tensor got = ExchangeRowsForHeads(group, spec, kRows, own);
      EXPECT_TRUE(got.equal(ColumnsOf(plain, spec, r, ranks)));
      (got * weight[r].narrow(1, 0, got.size(1))).sum().backward();
      const at::Tensor grad = at::constant_pad_nd(plain.grad(), {0, 0, 0, ranks * n - kRows});
      EXPECT_LT(MaxDifference(own.grad(), grad.narrow(0, first, n)), 1e-6);

      const std::int64_t width = spec.q_width() / ranks;
      const at::Tensor attended = out.narrow(1, r * width, width).clone().requires_grad_();
      const at::Tensor back = ExchangeHeadsForRows(group, attended);
      const at::Tensor padded = at::constant_pad_nd(out, {0, 0, 0, ranks * n - kRows});
      EXPECT_TRUE(back.equal(padded.narrow(0, first, n)));
      (back * all.narrow(0, first, n).narrow(1, 0, spec.q_width())).sum().backward();
      EXPECT_TRUE(
          attended.grad().equal(all.narrow(0, 0, kRows).narrow(1, r * width, width).contiguous()));
    });
  }
}

TEST(ContextGroupTest, SharesScoredTokens) {
  const at::Tensor rows_M = torch::tensor({0, 1, 4, 4, 6, 2}, at::kLong);
  const at::Tensor values_M = torch::tensor({10, 11, 12, 13, 14, 15}, at::kFloat);
  OnRanks(3, [&](ContextGroup& group) {
    const ContextShare share(group, 7, rows_M);  // rows 0-2, 3-5, and 6 with two fillers
    const std::vector<at::Tensor> rows = {torch::tensor({0, 1, 2}, at::kLong),
                                          torch::tensor({1, 1}, at::kLong),
                                          torch::tensor({0}, at::kLong)};
    EXPECT_TRUE(share.ScoredRows().equal(rows[static_cast<std::size_t>(group.rank())]));
    EXPECT_TRUE(share.Gather(share.Own(values_M)).equal(values_M));
    const std::vector<at::Tensor> own = {torch::tensor({1, 2, 3}), torch::tensor({4, 5, 6}),
                                         torch::tensor({7, 0, 0})};
    EXPECT_TRUE(share.OwnRows(at::arange(1, 8, at::kLong))
                    .equal(own[static_cast<std::size_t>(group.rank())]));
  });
}

struct PassResult {
  TokenLogprobs output;
  std::map<std::string, at::Tensor> gradients;
  std::int64_t kept = 0;  // bytes between forward and backward pass
};

PassResult RunPass(Transformer& model, const PassTokens& tokens, PassOptions options) {
  options.temperature = 0.8;
  options.entropy = EntropyMode::kDifferentiable;
  PassResult result;
  NamedGradients gradients(model);
  const LiveBytes bytes;
  ModelPass pass(model, tokens, options);
  result.kept = bytes.now();
  result.output = pass.output();
  const at::Tensor weight_M = at::arange(1, tokens.rows_M.size(0) + 1, at::kFloat).cos();
  pass.Backward(pass.GradientOf((pass.output().logprobs_M * weight_M).sum() -
                                0.3 * pass.output().entropy_M.square().sum()),
                gradients);
  result.gradients = std::move(gradients.sums);
  return result;
}

// MKL picks kernels by the processor and by the number of rows, which sum in another order: the
// differences were up to 5e-6 over its choices on one machine (MKL_CBWR).
constexpr double kRounding = 1e-5;

using Prepare = std::function<void(Transformer& model)>;

// Compares passes of `ranks` with one of one rank; returns the share of its bytes that each keeps.
double Compare(
    const std::string& name, int ranks, const PassTokens& tokens, Recompute recompute,
    const Prepare& prepare = [](Transformer&) {}) {
  SCOPED_TRACE(name + " on " + std::to_string(ranks) + " ranks");
  const auto whole_model = GoldenModel(name);
  prepare(*whole_model);
  const PassResult whole = RunPass(*whole_model, tokens, {.recompute = recompute});
  std::vector<PassResult> results(static_cast<std::size_t>(ranks));
  OnRanks(ranks, [&](ContextGroup& group) {
    at::set_num_threads(1);
    const auto model = GoldenModel(name);
    prepare(*model);
    results[static_cast<std::size_t>(group.rank())] =
        RunPass(*model, tokens, {.recompute = recompute, .context = &group});
  });
  std::map<std::string, at::Tensor> sums;
  std::int64_t kept = 0;
  for (const PassResult& of_rank : results) {
    EXPECT_LT(MaxDifference(of_rank.output.logprobs_M, whole.output.logprobs_M), kRounding);
    EXPECT_LT(MaxDifference(of_rank.output.entropy_M, whole.output.entropy_M), kRounding);
    kept = std::max(kept, of_rank.kept);
    for (const auto& [parameter, gradient] : of_rank.gradients) {
      at::Tensor& sum = sums[parameter];
      sum = sum.defined() ? sum + gradient : gradient;
    }
  }
  EXPECT_EQ(sums.size(), whole.gradients.size());
  double scale = 0;
  for (const auto& [parameter, gradient] : whole.gradients)
    scale = std::max(scale, gradient.abs().max().item<double>());
  for (const auto& [parameter, gradient] : whole.gradients)
    EXPECT_LT(MaxDifference(sums.at(parameter), gradient) / scale, kRounding) << parameter;
  return static_cast<double>(kept) / static_cast<double>(whole.kept);
}

std::vector<std::int64_t> Sequence(std::int64_t length) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < length; ++t) tokens.push_back((5 * t * t + length) % 29);
  return tokens;
}

// Two groups of completions that share their prompts, and a sequence without a prefix: 31 rows.
PassTokens Shared() {
  PassTokens tokens = ScoredSequences(
      {Sequence(5), Sequence(4), Sequence(6), Sequence(3), Sequence(4), Sequence(9)});
  tokens.prefixes = {-1, 0, 0, -1, 3, -1};
  return tokens;
}

TEST(ContextPassTest, RanksGiveTheGradientsOfOneRankForEveryFamily) {
  for (const std::string name : {"qwen2_tiny", "qwen2_untied", "qwen3", "qwen3_moe", "llama",
                                 "mistral", "gemma2", "gemma3"}) {
    Compare(name, 2, Shared(), Recompute::kNone);
    Compare(name, 2, ScoredSequences({Sequence(80)}), Recompute::kNone);
  }
}

TEST(ContextPassTest, RanksMayShareKeyValueHeadsAndHaveNoTokens) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kBlock}) {
    Compare("qwen2_tiny", 4, Shared(), recompute);
    Compare("gemma3", 4, Shared(), recompute);
  }
  Compare("qwen2_tiny", 4, ScoredSequences({{1, 2}}), Recompute::kNone);
}

TEST(ContextPassTest, RanksTrainAdapters) {
  Compare("qwen2_tiny", 2, Shared(), Recompute::kNone, [](Transformer& model) {
    ASSERT_TRUE(StartAdapters({.rank = 3}, 1, model).ok());
    const at::NoGradGuard no_grad;
    for (const auto& [parameter, tensor] : model.parameters())
      if (parameter.ends_with("lora_B.weight")) at::Tensor(tensor).fill_(0.1);
  });
}

TEST(ContextPassTest, ARankKeepsItsShareOfTheActivations) {
  const PassTokens tokens = ScoredSequences({Sequence(120), Sequence(90), Sequence(120)});
  EXPECT_LE(Compare("qwen2_tiny", 2, tokens, Recompute::kNone), 0.6);
  EXPECT_LE(Compare("qwen2_tiny", 4, tokens, Recompute::kNone), 0.35);
}

TEST(ContextHeadsTest, AreDividedEquallyOrRefused) {
  ModelConfig model;
  BlockSpec block;
  block.attention.H = 12;
  block.attention.K = 2;
  model.blocks = {block, block};
  for (const std::int64_t size : {1, 2, 4, 6, 12}) {
    EXPECT_TRUE(CheckContext(model, size, 12).ok()) << size;
    EXPECT_EQ(HeadsOfRank(block.attention, size).H, 12 / size);
    EXPECT_EQ(HeadsOfRank(block.attention, size).K, size == 1 ? 2 : 1);
  }
  const Status heads = CheckContext(model, 3, 12);
  EXPECT_EQ(heads.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(heads.message(),
            "3 ranks cannot divide the 12 attention heads and 2 key-value heads of the model "
            "equally; set one of 1, 2, 4, 6, 12");
  const Status ranks = CheckContext(model, 4, 6);
  EXPECT_EQ(ranks.message(),
            "6 ranks cannot form groups of 4; start a multiple of 4 ranks "
            "(local.launch.learner_ranks, mpirun -np)");
}

}  // namespace
}  // namespace buttress
