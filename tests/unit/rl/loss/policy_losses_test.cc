// The expected values were computed in plain Python, in double precision, from the formulas of the
// papers.
#include "lib/rl/loss/policy_losses.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "lib/rl/loss/weight_statistics.h"
#include "tests/unit/rl/loss/loss_cases.h"

namespace buttress {
namespace {

constexpr double kTolerance = 2e-6;

// Sequences S1 (three tokens, A = 1.2) and S2 (five tokens, A = -0.7), packed; weights 1.
LossCase Specified() {
  LossCase c;
  c.lp = {-.5, -1.2, -.1, -.2, -2.0, -.7, -.3, -1.1};
  const std::vector<double> d = {.10, -.30, .40, .25, -.25, 1.50, .05, -.05};
  for (std::size_t i = 0; i < d.size(); ++i) c.old.push_back(c.lp[i] - d[i]);
  c.sampler = c.old;
  c.advantages = {1.2, 1.2, 1.2, -.7, -.7, -.7, -.7, -.7};
  c.weights.assign(8, 1.0);
  c.lengths = {3, 5};
  return c;
}

TokenLosses Losses(const LossInput& input, const AlgorithmConfig& options) {
  const CompletionSums completions(input.lengths_C, at::ones_like(input.logprobs_M, at::kBool));
  return ComputeTokenLosses(
      {input.logprobs_M, input.old_logprobs_M, input.logprobs_M - input.old_logprobs_M,
       input.advantages_M, input.marked_M, completions},
      options);
}

TEST(SapoLossTest, HasTheTabulatedGate) {
  struct Row {
    double advantage, tau_negative, gate;
  };

  for (const auto& [advantage, tau_negative, gate] :
       {Row{1, 1.05, .940015}, {-1, 1.05, .934140}, {-1, 2, .786448}}) {
    AlgorithmConfig options;
    options.loss = PolicyLoss::kSapo;
    options.sapo.tau_negative = tau_negative;
    LossCase c;
    c.lp = {-.5, -.5};
    c.old = c.sampler = {-.5, -.5 - std::log(1.5)};
    c.advantages = {advantage, advantage};
    c.weights = {1, 1};
    c.lengths = {2};
    const LossInput input = InputOf(c);
    ComputeLoss(input, options).loss_sum.backward();
    const auto gradient = DoublesOf(input.logprobs_M.grad());
    EXPECT_NEAR(gradient[0], -advantage, kTolerance);
    EXPECT_NEAR(gradient[1], -advantage * 1.5 * gate, kTolerance);
  }
}

std::vector<PolicyLoss> AllLosses() {
  std::vector<PolicyLoss> losses;
  for (const PolicyLossInfo& info : PolicyLosses()) losses.push_back(info.loss);
  return losses;
}

std::string NameOf(PolicyLoss loss) { return std::string(ChoiceName(loss)); }

AlgorithmConfig Options(PolicyLoss policy) {
  const bool divergence = policy == PolicyLoss::kDppoTv || policy == PolicyLoss::kDppoKl;
  AlgorithmConfig options{
      .loss = policy, .clip_low = divergence ? .06 : .2, .clip_high = divergence ? .08 : .28};
  options.dual_clip = policy == PolicyLoss::kPpo || policy == PolicyLoss::kDecoupledPpo ? 3 : 0;
  options.dppo.cap = 2;
  return options;
}

TEST(PolicyLossesProperty, ValuesAndGradientsAreThoseOfTheFormulaInDouble) {
  RandomStream random({20260101, 50});
  for (const PolicyLoss policy : AllLosses()) {
    SCOPED_TRACE(NameOf(policy));
    const AlgorithmConfig options = Options(policy);
    int compared = 0;
    for (int trial = 0; trial < 30; ++trial) {
      const LossCase c = RandomCase(random, 6);
      const LossInput input = InputOf(c);
      const at::Tensor loss = ComputeLoss(input, options).loss_sum;
      loss.backward();
      EXPECT_NEAR(loss.item<double>(), ReferenceLoss(c, options, c.lp, c.lp), 1e-5);
      const auto gradient = DoublesOf(input.logprobs_M.grad());
      for (std::size_t i = 0; i < c.lp.size(); ++i) {
        const auto at_offset = [&](double offset) {
          std::vector<double> lp = c.lp;
          lp[i] += offset;
          return ReferenceLoss(c, options, lp, c.lp);
        };
        const auto slope = [&](double h) { return (at_offset(h) - at_offset(-h)) / (2 * h); };
        if (std::abs(slope(1e-4) - slope(1e-6)) > 1e-5)
          continue;  // finite differences are meaningless at a kink of clipping
        EXPECT_NEAR(gradient[i], slope(1e-6), 5e-6) << "trial " << trial << ", token " << i;
        ++compared;
      }
    }
    EXPECT_GT(compared, 500);
  }
}

TEST(PolicyLossesProperty, AtRatioOneTheGradientIsThePolicyGradient) {
  RandomStream random({20260101, 51});
  for (const PolicyLoss policy : AllLosses()) {
    SCOPED_TRACE(NameOf(policy));
    LossCase c = RandomCase(random, 12);
    c.old = c.lp;
    if (policy == PolicyLoss::kClipCov) c.marked.clear();
    LossInput input = InputOf(c);
    input.old_logprobs_M.reset();
    AlgorithmConfig options = Options(policy);
    options.old_policy = OldPolicy::kLearner;
    ComputeLoss(input, options).loss_sum.backward();
    const auto gradient = DoublesOf(input.logprobs_M.grad());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(gradient[i], -c.advantages[i] * c.weights[i], 1e-7) << "token " << i;
  }
}

TEST(GspoLossTest, OfOneTokenIsPpo) {
  RandomStream random({20260101, 52});
  LossCase c = RandomCase(random, 40);
  c.lengths.assign(c.lp.size(), 1);
  for (const PolicyLoss policy : {PolicyLoss::kGspo, PolicyLoss::kGspoToken}) {
    LossInput gspo = InputOf(c);
    LossInput ppo = InputOf(c);
    const at::Tensor loss = ComputeLoss(gspo, {.loss = policy}).loss_sum;
    const at::Tensor expected = ComputeLoss(ppo, {.loss = PolicyLoss::kPpo}).loss_sum;
    loss.backward();
    expected.backward();
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-6);
    EXPECT_TRUE(at::allclose(gspo.logprobs_M.grad(), ppo.logprobs_M.grad(), 1e-5, 1e-7));
  }
}

TEST(GspoLossTest, TheTokenVariantTakesEachTokensAdvantageTheOtherTheirMean) {
  LossCase c = Specified();
  c.advantages = {2, 1, .6, -.7, -.7, -.7, -.7, -.7};
  const auto sequence =
      DoublesOf(Losses(InputOf(c), {.loss = PolicyLoss::kGspo, .clip_high = .28}).loss_M);
  const auto token =
      DoublesOf(Losses(InputOf(c), {.loss = PolicyLoss::kGspoToken, .clip_high = .28}).loss_M);
  EXPECT_NEAR(sequence[0], -1.2 * 1.068939, kTolerance);
  EXPECT_NEAR(sequence[2], -1.2 * 1.068939, kTolerance);
  EXPECT_NEAR(token[0], -2 * 1.068939, kTolerance);
  EXPECT_NEAR(token[2], -.6 * 1.068939, kTolerance);
}

TEST(DecoupledPpoTest, GivesTheTabulatedValues) {
  struct Row {
    double a, lp, prox, behav, u, w, masked, truncated, naive;
  };

  const std::vector<Row> rows = {
      {1, -1, -1.1, -1.6, 1.105171, 1.648721, -1.822119, -1.822119, -1.2},
      {1, -1, -1.3, -1.6, 1.349859, 1.349859, -1.619831, -1.619831, -1.2},
      {-1, -1, -1.3, -1.6, 1.349859, 1.349859, 1.822119, 1.822119, 1.822119},
      {1, -1, -1.1, -3.2, 1.105171, 8.166170, 0, -5.525855, -1.2}};
  for (const Row& row : rows) {
    LossCase c;
    c.lp = {row.lp};
    c.old = {row.prox};
    c.sampler = {row.behav};
    c.advantages = {row.a};
    c.weights = {1};
    c.lengths = {1};
    AlgorithmConfig options{.loss = PolicyLoss::kDecoupledPpo,
                            .old_policy = OldPolicy::kLearner,
                            .correction = {.cap = 5}};
    const auto loss = [&](CorrectionMode mode) {
      options.correction.mode = mode;
      return ComputeLoss(InputOf(c), options).loss_sum.item<double>();
    };
    EXPECT_NEAR(loss(CorrectionMode::kMis), row.masked, kTolerance);
    EXPECT_NEAR(loss(CorrectionMode::kTis), row.truncated, kTolerance);
    EXPECT_NEAR(
        loss(CorrectionMode::kIs),
        -row.a * std::min(row.a * row.u, row.a * std::clamp(row.u, .8, 1.2)) / row.a * row.w, 1e-5);
    LossInput naive = InputOf(c);
    naive.old_logprobs_M.reset();  // the sampler's
    EXPECT_NEAR(ComputeLoss(naive, {}).loss_sum.item<double>(), row.naive, kTolerance);
  }
}

// gap = old - sampler of one completion.
LossCase GapCase() {
  LossCase c;
  const std::vector<double> gap = {.2, 1, -.8, -2};
  c.sampler = {-1, -2, -3, -1};
  for (std::size_t i = 0; i < gap.size(); ++i) c.old.push_back(c.sampler[i] + gap[i]);
  c.lp = c.old;
  c.advantages.assign(4, 1.0);
  c.weights.assign(4, 1.0);
  c.lengths = {4};
  return c;
}

struct Corrected {
  std::vector<double> weights;
  LossOutput out;
};

// At ratio 1 and A = 1 the gradient is minus the weight.
Corrected Apply(const AlgorithmConfig& options) {
  const LossInput input = InputOf(GapCase());
  LossOutput out = ComputeLoss(input, options);
  out.loss_sum.backward();
  return {DoublesOf(-input.logprobs_M.grad()), std::move(out)};
}

TEST(CorrectionTest, GivesTheTabulatedWeights) {
  struct Row {
    CorrectionMode mode;
    CorrectionLevel level;
    double cap, floor;
    std::vector<double> weights;
    double truncated, masked;
  };

  const auto all = [](double w) { return std::vector<double>(4, w); };
  const std::vector<Row> rows = {
      {CorrectionMode::kIs,
       CorrectionLevel::kToken,
       2,
       0,
       {1.221403, 2.718282, .449329, .135335},
       0,
       0},
      {CorrectionMode::kTis, CorrectionLevel::kToken, 2, 0, {1.221403, 2, .449329, .135335}, 1, 0},
      {CorrectionMode::kMis, CorrectionLevel::kToken, 2, 0, {1.221403, 0, .449329, .135335}, 0, 1},
      {CorrectionMode::kIcePop, CorrectionLevel::kToken, 5, .5, {1.221403, 2.718282, 0, 0}, 0, 2},
      {CorrectionMode::kIs, CorrectionLevel::kSequence, 2, 0, all(.201897), 0, 0},
      {CorrectionMode::kIs, CorrectionLevel::kGeometric, 2, 0, all(.670320), 0, 0},
      {CorrectionMode::kIcePop, CorrectionLevel::kSequence, 5, .5, all(0), 0, 4},
  };
  for (const Row& row : rows) {
    const AlgorithmConfig options{.old_policy = OldPolicy::kLearner,
                                  .correction = {row.mode, row.level, row.cap, row.floor}};
    const Corrected got = Apply(options);
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(got.weights[i], row.weights[i], kTolerance)
          << "mode " << static_cast<int>(row.mode) << ", token " << i;
      sum += row.weights[i];
    }
    EXPECT_NEAR(got.out.metric(LossMetric::kCorrection).item<double>(), sum, 1e-5);
    EXPECT_EQ(got.out.metric(LossMetric::kCorrectionTruncated).item<double>(), row.truncated);
    EXPECT_EQ(got.out.metric(LossMetric::kCorrectionMasked).item<double>(), row.masked);
  }
}

TEST(CorrectionTest, EffectiveShareIsTheEffectiveSampleSize) {
  const Corrected got =
      Apply({.old_policy = OldPolicy::kLearner, .correction = {.mode = CorrectionMode::kTis}});
  const double sum = got.out.metric(LossMetric::kCorrection).item<double>();
  EXPECT_NEAR(sum / 4, .951517, kTolerance);
  EXPECT_NEAR(EffectiveShare(4, sum, got.out.metric(LossMetric::kCorrectionSquared).item<double>()),
              .634018, kTolerance);
}

TEST(CorrectionTest, WeighsEveryLossAndHasNoGradient) {
  RandomStream random({20260101, 53});
  for (const PolicyLoss policy : AllLosses()) {
    SCOPED_TRACE(NameOf(policy));
    LossCase c = RandomCase(random, 10);
    AlgorithmConfig options = Options(policy);
    options.old_policy = OldPolicy::kLearner;
    options.correction.mode = CorrectionMode::kTis;
    const LossInput corrected = InputOf(c);
    ComputeLoss(corrected, options).loss_sum.backward();
    for (std::size_t i = 0; i < c.lp.size(); ++i)
      c.weights[i] *= std::min(2.0, std::exp(c.old[i] - c.sampler[i]));
    options.correction.mode = CorrectionMode::kNone;
    const LossInput weighted = InputOf(c);
    ComputeLoss(weighted, options).loss_sum.backward();
    EXPECT_TRUE(at::allclose(corrected.logprobs_M.grad(), weighted.logprobs_M.grad(), 1e-5, 1e-7));
  }
}

// The same tokens in micro-batches of whole completions.
TEST(PolicyLossesProperty, SplittingChangesNoGradientAndMetricsAddUp) {
  RandomStream random({20260101, 54});
  for (const PolicyLoss policy : AllLosses()) {
    SCOPED_TRACE(NameOf(policy));
    const LossCase c = RandomCase(random, 9);
    AlgorithmConfig options = Options(policy);
    options.correction.mode = CorrectionMode::kIcePop;
    options.correction.level = CorrectionLevel::kGeometric;
    const LossInput whole = InputOf(c);
    const LossOutput at_once = ComputeLoss(whole, options);
    at_once.loss_sum.backward();
    const auto cut = static_cast<std::size_t>(c.lengths[0] + c.lengths[1] + c.lengths[2]);
    const auto part = [&](std::size_t begin, std::size_t end, std::size_t first, std::size_t last) {
      const auto of = [](const auto& all, std::size_t from, std::size_t to) {
        return std::decay_t<decltype(all)>(all.begin() + static_cast<std::ptrdiff_t>(from),
                                           all.begin() + static_cast<std::ptrdiff_t>(to));
      };
      return InputOf({of(c.lp, begin, end), of(c.old, begin, end), of(c.sampler, begin, end),
                      of(c.advantages, begin, end), of(c.weights, begin, end),
                      of(c.lengths, first, last), of(c.marked, begin, end)});
    };
    const LossInput first = part(0, cut, 0, 3);
    const LossInput second = part(cut, c.lp.size(), 3, 9);
    const LossOutput first_out = ComputeLoss(first, options);
    const LossOutput second_out = ComputeLoss(second, options);
    (first_out.loss_sum + second_out.loss_sum).backward();
    EXPECT_TRUE(at::equal(at::cat({first.logprobs_M.grad(), second.logprobs_M.grad()}),
                          whole.logprobs_M.grad()));
    EXPECT_TRUE(at::allclose(first_out.metrics + second_out.metrics, at_once.metrics, 1e-5, 1e-5));
    EXPECT_TRUE(
        at::equal(first_out.weight_counts + second_out.weight_counts, at_once.weight_counts));
    EXPECT_EQ(at_once.weight_counts.sum().item<double>(), static_cast<double>(c.lp.size()));
  }
}

TEST(PolicyLossesTest, StayFiniteHoweverFarThePoliciesAre) {
  LossCase c;
  c.lp = {0, -200, -1e-9, -60, -1, 0};
  c.old = {-200, 0, -90, -1e-9, -1, 0};
  c.sampler = {0, -200, 0, -1, -90, 0};
  c.advantages = {1, 1, -1, -1, 1, -1};
  c.weights.assign(6, 1.0);
  c.lengths = {2, 2, 2};
  c.marked = {1, 1, 1, 1, 0, 0};
  for (const PolicyLoss policy : AllLosses()) {
    for (const CorrectionMode mode :
         {CorrectionMode::kNone, CorrectionMode::kIs, CorrectionMode::kIcePop}) {
      SCOPED_TRACE(NameOf(policy));
      AlgorithmConfig options = Options(policy);
      options.correction.mode = mode;
      options.correction.level = CorrectionLevel::kSequence;
      const LossInput input = InputOf(c);
      const LossOutput out = ComputeLoss(input, options);
      out.loss_sum.backward();
      EXPECT_TRUE(at::isfinite(out.loss_sum).item<bool>());
      EXPECT_TRUE(at::isfinite(out.metrics).all().item<bool>());
      EXPECT_TRUE(at::isfinite(input.logprobs_M.grad()).all().item<bool>());
    }
  }
}

TEST(PolicyLossesTest, TokensThatDoNotCountAreInNoStatisticOfTheirCompletion) {
  for (const PolicyLoss policy : {PolicyLoss::kGspo, PolicyLoss::kGmpo}) {
    const AlgorithmConfig options = Options(policy);
    LossCase c = Specified();
    const double expected = ComputeLoss(InputOf(c), options).loss_sum.item<double>();
    const double gap = std::numeric_limits<double>::quiet_NaN();
    for (std::vector<double>* values : {&c.lp, &c.old, &c.advantages, &c.weights})
      values->insert(values->begin() + 1, 7.0);
    c.sampler.insert(c.sampler.begin() + 1, gap);
    c.lengths = {4, 5};
    const LossInput input = InputOf(c);
    const LossOutput out = ComputeLoss(input, options);
    out.loss_sum.backward();
    EXPECT_NEAR(out.loss_sum.item<double>(), expected, 1e-6);
    EXPECT_EQ(out.metric(LossMetric::kDropped).item<double>(), 1);
    EXPECT_EQ(DoublesOf(input.logprobs_M.grad())[1], 0);
  }
}

// Ten thousand tokens of log-ratio 1e-5: float32 sums of such lengths lose the digits that GSPO's
// bounds of 3e-4 depend on.
TEST(GspoLossTest, LongCompletionsKeepTheirRatiosDigits) {
  LossCase c;
  const std::int64_t length = 10000;
  c.lp.assign(static_cast<std::size_t>(length), -0.5);
  for (std::int64_t t = 0; t < length; ++t) c.old.push_back(-0.5 - (t % 2 == 0 ? 1.0003 : -0.9999));
  c.sampler = c.old;
  c.advantages.assign(c.lp.size(), 1.0);
  c.weights.assign(c.lp.size(), 1.0 / static_cast<double>(length));
  c.lengths = {length};
  const double loss =
      ComputeLoss(InputOf(c), {.loss = PolicyLoss::kGspo, .clip_high = 1}).loss_sum.item<double>();
  EXPECT_NEAR(loss, -std::exp(2e-4), 1e-6);
}

TEST(DppoLossTest, DivergencesNearProbabilityOneHaveDigits) {
  // p = 1 - 1e-6, q = 1 - 4e-6: 1 - exp(lp) in float32 would have one digit.
  LossCase c;
  c.lp = {std::log1p(-1e-6)};
  c.old = {std::log1p(-4e-6)};
  c.sampler = c.old;
  c.advantages = {1};
  c.weights = {1};
  c.lengths = {1};
  const double kl = (1 - 4e-6) * (c.old[0] - c.lp[0]) + 4e-6 * std::log(4.0);
  AlgorithmConfig options{.loss = PolicyLoss::kDppoKl};
  for (const double factor : {0.95, 1.05}) {
    options.clip_high = kl * factor;
    const auto clipped =
        ComputeLoss(InputOf(c), options).metric(LossMetric::kClippedHigh).item<double>();
    EXPECT_EQ(clipped, factor < 1 ? 1 : 0);
  }
}

TEST(KlCovLossTest, PenalisesMarkedTokensWhateverTheirAdvantage) {
  LossCase c = Specified();
  c.advantages.assign(8, 0.0);
  c.marked = {1, 0, 0, 0, 1, 0, 0, 0};
  const LossInput input = InputOf(c);
  const LossOutput out = ComputeLoss(input, {.loss = PolicyLoss::kKlCov, .kl_cov = {.coef = .5}});
  out.loss_sum.backward();
  EXPECT_NEAR(out.loss_sum.item<double>(), .5 * (.10 + .25), kTolerance);
  EXPECT_EQ(out.metric(LossMetric::kMarked).item<double>(), 2);
  EXPECT_EQ(DoublesOf(input.logprobs_M.grad()), (std::vector<double>{.5, 0, 0, 0, -.5, 0, 0, 0}));
}

}  // namespace
}  // namespace buttress
