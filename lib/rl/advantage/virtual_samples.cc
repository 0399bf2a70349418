#include "lib/rl/advantage/virtual_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "lib/rl/collapse/collapse_metrics.h"
#include "lib/rl/collapse/sources.h"
#include "lib/rl/statistics.h"

namespace buttress {
namespace {

// `weight` virtual rewards with this mean and population variance.
struct VirtualRewards {
  double weight = 0;
  double mean = 0;
  double variance = 0;
};

// advantage = (reward - mean) / divisor.
struct Normalizer {
  double mean = 0;
  double divisor = 1;
};

// Statistics over n rewards with mean r and sum of squares S together with w virtual rewards of
// mean m and variance v (docs/theory.md, section 4):
//   mean'  = (n r + w m) / (n + w)
//   sum'   = S + n (r - mean')^2 + w (v + (m - mean')^2)
//   std'^2 = sum' / (n + w) for kPopulation, sum' / (n + w - 1) for kSample
// The divisor is std' + eps, or 1 for kNone and where all values are equal. Pure. REQUIRES: rewards
// is not empty, w > 0.
Normalizer AmongVirtual(std::span<const double> rewards, const VirtualRewards& virtual_rewards,
                        StdKind kind, double eps) {
  const auto n = static_cast<double>(rewards.size());
  const auto& [w, m, v] = virtual_rewards;
  const double r = Mean(rewards);
  if (AllEqual(rewards) && v == 0 && r == m) return {m, 1.0};
  const double mean = (n * r + w * m) / (n + w);
  const double sum_squares =
      SumSquares(rewards, r) + n * (r - mean) * (r - mean) + w * (v + (m - mean) * (m - mean));
  return {mean, StdPlusEps(sum_squares, n + w, kind, eps)};
}

bool IsAllRightOrAllWrong(CollapseClass collapse) {
  return collapse == CollapseClass::kAllCorrect || collapse == CollapseClass::kAllWrong;
}

// The reward that a constant group has without its shaping: on the scale of outcomes, or of the raw
// reward if that is neither right nor wrong throughout.
double LevelOf(const AdvantageInput& input, std::size_t k, CollapseClass collapse) {
  if (collapse == CollapseClass::kAllCorrect) return 1.0;
  if (collapse == CollapseClass::kAllWrong) return 0.0;
  return input.raw_rewards[input.scorable_group(k).rows.front()];
}

// Mixes the advantages of group k, which is constant at `level`, with those among
// `virtual_rewards`: (1 - weight) A + weight A'. Shaping moves a reward of the group from the level
// by its distance from the group's mean, so that the sum of A' has the sign of level minus the mean
// of the virtual rewards.
void Inject(const AdvantageInput& input, std::size_t k, double level,
            const VirtualRewards& virtual_rewards, StdKind kind, double eps, double weight,
            AdvantageOutput& out) {
  ScorableGroup group = input.scorable_group(k);
  const double shift = level - Mean(group.rewards);
  for (double& reward : group.rewards) reward += shift;
  const auto [mean, divisor] = AmongVirtual(group.rewards, virtual_rewards, kind, eps);
  for (std::size_t i = 0; i < group.rows.size(); ++i) {
    double& advantage = out.advantages[group.rows[i]];
    advantage = (1.0 - weight) * advantage + weight * (group.rewards[i] - mean) / divisor;
  }
  out.decisions[k] = {true, weight, virtual_rewards.weight};
}

Status Noise(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  AlgorithmConfig real = options;
  real.std = StdKind::kSample;
  real.eps = 1e-8;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, real, out));
  const AvspoConfig& avspo = options.avspo;
  const double rate = VarianceThresholdAcr(input.raw_rewards, input.outcomes, input.group_offsets,
                                           avspo.variance_threshold);
  const double weight = ConfidenceWeight(rate, avspo.acr_threshold, avspo.slope);
  out.gate = GateReading{rate, avspo.acr_threshold, weight > 0};
  if (weight == 0) return OkStatus();

  std::vector<double> noise(input.rewards.size());
  FillNormals(input.key, noise);
  AdvantageInput noisy_input = input;
  auto next = noise.begin();
  for (std::size_t i = 0; i < noise.size(); ++i)
    if (input.scorable(i)) noisy_input.rewards[i] += avspo.noise_std * *next++;
  AdvantageOutput noisy;
  noisy.advantages.assign(noise.size(), 0.0);
  BUTTRESS_RETURN_IF_ERROR(Grpo(noisy_input, real, noisy));
  for (std::size_t i = 0; i < noise.size(); ++i)
    out.advantages[i] = (1.0 - weight) * out.advantages[i] + weight * noisy.advantages[i];
  for (std::size_t k = 0; k < input.groups(); ++k) {
    if (input.classes[k] == CollapseClass::kUnscorable) continue;
    out.decisions[k] = {true, weight, input.scorable_group(k).size()};
  }
  return OkStatus();
}

using OwnRate = std::optional<double> (*)(const SourceCollapse&);

// Reads the gate of all groups at `rate`, and that of each source that has a rate of its own.
void ReadGates(const AdvantageInput& input, double rate, OwnRate own_rate, double threshold,
               double slope, AdvantageOutput& out) {
  const auto reading = [&](double of) {
    return GateReading{of, threshold, ConfidenceWeight(of, threshold, slope) > 0};
  };
  out.gate = reading(rate);
  for (const SourceCollapse& source : input.collapse.sources) {
    const std::optional<double> own = own_rate(source);
    out.source_gates.push_back(own ? std::optional(reading(*own)) : std::nullopt);
  }
}

// The gate that decides about group k.
const GateReading& GateOf(const AdvantageInput& input, std::size_t k, const AdvantageOutput& out) {
  if (input.sources.empty()) return *out.gate;
  const auto& own = out.source_gates[static_cast<std::size_t>(input.sources[k])];
  return own ? *own : *out.gate;
}

Status Opposite(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  constexpr double kEps = 1e-6;
  const AvspoConfig& avspo = options.avspo;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  ReadGates(input, input.collapse.step.acr(), StepRate, avspo.acr_threshold, avspo.slope, out);
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const double weight =
        ConfidenceWeight(GateOf(input, k, out).rate, avspo.acr_threshold, avspo.slope);
    if (weight == 0 || !IsAllRightOrAllWrong(input.classes[k])) continue;
    const double level = LevelOf(input, k, input.classes[k]);
    Inject(input, k, level, {.weight = 1, .mean = 1 - level, .variance = 0}, StdKind::kSample, kEps,
           weight, out);
  }
  return OkStatus();
}

// `size` rewards top (1 - (k - 1) / size): mean top (size + 1) / (2 size), population variance
// top^2 (size^2 - 1) / (12 size^2).
VirtualRewards LadderTo(double top, double size) {
  return {.weight = size,
          .mean = top * (size + 1) / (2 * size),
          .variance = top * top * (size * size - 1) / (12 * size * size)};
}

// The virtual rewards of a group of `g` completions that is constant at `level`.
VirtualRewards LadderOf(double level, double g, double acr, const AvspoLadderConfig& config) {
  const double size = std::max(1.0, std::min(g, std::ceil(g * std::pow(acr, config.alpha))));
  if (!config.symmetric) return LadderTo(level > 0 ? level : config.anchor, size);
  // k / size for all-wrong groups, its mirror image 1 - k / size for all-correct ones.
  VirtualRewards ladder = LadderTo(1.0, size);
  if (level > 0) ladder.mean = 1.0 - ladder.mean;
  return ladder;
}

// The memory after a step in which the gate with `memory` read `reading` and the mean raw reward of
// its groups was `reward_mean`.
GateMemory NextMemory(const GateMemory& memory, const GateReading& reading, double reward_mean,
                      const AvspoLadderConfig& config) {
  double direction = 0;
  if (memory.reward_mean)
    direction = reward_mean > *memory.reward_mean ? 1 : reward_mean < *memory.reward_mean ? -1 : 0;
  const double threshold =
      reading.threshold + config.threshold_rate * direction * (reading.rate - reading.threshold);
  return {std::clamp(threshold, config.threshold_min, config.threshold_max), reward_mean};
}

// The mean raw reward of the groups of `source`, or of all; 0 without any.
double RewardMeanOf(const AdvantageInput& input, std::optional<std::size_t> source) {
  std::vector<double> rewards;
  for (std::size_t k = 0; k < input.groups(); ++k) {
    if (source && static_cast<std::size_t>(input.sources[k]) != *source) continue;
    for (const std::size_t row : input.scorable_group(k).rows)
      rewards.push_back(input.raw_rewards[row]);
  }
  return rewards.empty() ? 0.0 : Mean(rewards);
}

// Reads the gate of all groups and those of the sources with a rate of their own, and moves their
// thresholds.
void ReadLadderGates(const AdvantageInput& input, const AvspoLadderConfig& config,
                     AdvantageOutput& out) {
  const auto reading = [&](const GateMemory& memory, double rate) {
    const double threshold = memory.threshold.value_or(config.threshold);
    return GateReading{rate, threshold, rate > threshold && config.strength > 0};
  };
  out.gate = reading(input.gate, input.collapse.step.acr());
  static_cast<GateMemory&>(out.next_gate) =
      NextMemory(input.gate, *out.gate, RewardMeanOf(input, std::nullopt), config);
  for (std::size_t s = 0; s < input.collapse.sources.size(); ++s) {
    const SourceCollapse& source = input.collapse.sources[s];
    auto& own = out.source_gates.emplace_back();
    const std::optional<double> rate = StepRate(source);
    if (!rate) continue;
    GateMemory& memory = out.next_gate.sources[source.source];
    own = reading(memory, *rate);
    memory = NextMemory(memory, *own, RewardMeanOf(input, s), config);
  }
}

Status Ladder(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const AvspoLadderConfig& config = options.avspo.ladder;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  ReadLadderGates(input, config, out);
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const CollapseClass collapse = input.classes[k];
    const bool other = collapse == CollapseClass::kOtherConstant && !config.symmetric;
    if (!IsAllRightOrAllWrong(collapse) && !other) continue;
    const GateReading& gate = GateOf(input, k, out);
    if (!gate.open) continue;
    const double level = LevelOf(input, k, collapse);
    const double g = input.scorable_group(k).size();
    const VirtualRewards ladder = LadderOf(level, g, gate.rate, config);
    Inject(input, k, level, ladder, options.std, options.eps, config.strength, out);
  }
  return OkStatus();
}

// The success rate that a prompt is expected to have, from so many completions.
struct ExpectedSuccess {
  double rate = 0;
  double completions = 0;
};

// By the recent history of the prompt; for one without a history by the other groups of `batch`,
// which count as one group of the size of group k. Nothing of the group itself enters, which would
// bias the gradient. nullopt if there is neither.
std::optional<ExpectedSuccess> Expect(const AdvantageInput& input, std::size_t k,
                                      const Trials& batch) {
  const PromptHistory& history = input.history[k];
  if (history.recent_scored > 0)
    return ExpectedSuccess{history.recent_correct / history.recent_scored, history.recent_scored};
  const Trials own = TrialsOf(GroupRows(std::span(input.raw_rewards), input.group_offsets, k),
                              GroupRows(std::span(input.outcomes), input.group_offsets, k));
  const double others = batch.scored - own.scored;
  if (others == 0) return std::nullopt;
  return ExpectedSuccess{(batch.correct - own.correct) / others, own.scored};
}

Status Prior(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const AvspoPriorConfig& config = options.avspo.prior;
  BUTTRESS_RETURN_IF_ERROR(Grpo(input, options, out));
  const AvspoConfig& avspo = options.avspo;
  ReadGates(input, input.collapse.acr_ema, RecentRate, avspo.acr_threshold, avspo.slope, out);
  const Trials batch = TrialsOf(input.raw_rewards, input.outcomes);
  for (std::size_t k = 0; k < input.groups(); ++k) {
    if (!IsAllRightOrAllWrong(input.classes[k])) continue;
    const std::optional<ExpectedSuccess> expected = Expect(input, k, batch);
    if (!expected) continue;
    const auto [m, n] = *expected;
    const double n0 =
        config.confidence_count > 0 ? config.confidence_count : input.scorable_group(k).size();
    const double strength = input.classes[k] == CollapseClass::kAllCorrect ? config.strength_correct
                                                                           : config.strength_wrong;
    const double opening =
        ConfidenceWeight(GateOf(input, k, out).rate, avspo.acr_threshold, avspo.slope);
    const double weight = strength * opening * n / (n + n0);
    if (weight == 0) continue;
    Inject(input, k, LevelOf(input, k, input.classes[k]),
           {.weight = config.kappa, .mean = m, .variance = m * (1 - m)}, options.std, options.eps,
           weight, out);
  }
  return OkStatus();
}

constexpr std::array kModes = {
    AvspoModeInfo{AvspoMode::kNoise, Noise, "in no version of the paper; for comparison",
                  "every group, while the share of groups with a variance below variance_threshold "
                  "is above acr_threshold",
                  "the normalised noise: mean 0, sample variance 1, whatever the reward",
                  "0: the noise does not depend on the completions; a random step of full length"},
    AvspoModeInfo{
        AvspoMode::kOpposite, Opposite, "released code of arXiv 2605.21125, made per group",
        "all-correct and all-wrong groups, while the step's ACR is above acr_threshold",
        "+-w / sqrt(G + 1): above 0 if all-correct, below 0 if all-wrong",
        "w [p^(G-1) + (1-p)^(G-1)] / sqrt(G + 1) * grad p: ascent; w comes from the step's own "
        "ACR, which biases it"},
    AvspoModeInfo{AvspoMode::kLadder, Ladder, "text of arXiv 2605.21125",
                  "constant groups, while the step's ACR is above a threshold that follows it",
                  "above 0 if a reward of the group is above 0 and K > 1, below 0 if none is; "
                  "symmetric: equal sizes",
                  "[a+(K) p^(G-1) + a-(K) (1-p)^(G-1)] * grad p, a+- the advantages' sizes; K "
                  "comes from the step's own ACR, which biases it"},
    AvspoModeInfo{
        AvspoMode::kPrior, Prior, "derived here (docs/theory.md)",
        "all-correct and all-wrong groups, while the ACR of earlier steps is above acr_threshold",
        "population: +w sqrt(kappa (1-m) / (G + kappa m)) or -w sqrt(kappa m / (G + kappa (1-m))), "
        "m the prompt's recent success rate, or that of the batch's other groups",
        "w [a+(m) p^(G-1) + a-(m) (1-p)^(G-1)] * grad p: exact ascent, since m and w come from "
        "earlier steps and other prompts"},
};

// Avspo() indexes the table.
static_assert(std::ranges::equal(kModes, kChoices<AvspoMode>, {}, &AvspoModeInfo::mode,
                                 &ChoiceRow<AvspoMode>::value));

}  // namespace

std::span<const AvspoModeInfo> AvspoModes() { return kModes; }

double ConfidenceWeight(double acr, double acr_threshold, double slope) {
  if (acr <= acr_threshold) return 0.0;
  return std::min(1.0, slope * (acr - acr_threshold));
}

Status Ngrpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const VirtualRewards best{.weight = 1, .mean = options.ngrpo.max_reward, .variance = 0};
  for (std::size_t k = 0; k < input.groups(); ++k) {
    const ScorableGroup group = input.scorable_group(k);
    if (group.size() < 2) continue;
    const Normalizer among = AmongVirtual(group.rewards, best, options.std, options.eps);
    group.Set(out.advantages, [&](double reward) { return (reward - among.mean) / among.divisor; });
    out.decisions[k] = {true, 1.0, 1.0};
  }
  return OkStatus();
}

Status Avspo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  return kModes[static_cast<std::size_t>(options.avspo.mode)].compute(input, options, out);
}

}  // namespace buttress
