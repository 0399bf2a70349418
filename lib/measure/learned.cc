#include "lib/measure/learned.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace buttress {
namespace {

constexpr double kNormal95 = 1.959963984540054;

// The autocorrelation of a stationary series of lag 1 at most, from the differences d of successive
// values: corr(d_t, d_t+1) = -(1 - rho) / 2.
double Autocorrelation(std::span<const StepMean> steps) {
  double squares = 0, products = 0;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const double d = steps[i].mean - steps[i - 1].mean;
    squares += d * d;
    if (i + 1 < steps.size()) products += d * (steps[i + 1].mean - steps[i].mean);
  }
  if (squares == 0) return 0;
  const double error = 1 / std::sqrt(static_cast<double>(steps.size()));
  return std::clamp(1 + 2 * products / squares + error, 0.0, 0.9);
}

// A mean over steps, its variance and the degrees of freedom of that.
struct Tenth {
  double mean = 0;
  double variance = 0;
  double freedom = 0;
};

Tenth TenthOf(std::span<const StepMean> steps, double rho) {
  const auto k = static_cast<double>(steps.size());
  double mean = 0, squares = 0, most = 0;
  for (const StepMean& step : steps) mean += step.mean / k;
  for (const StepMean& step : steps) {
    squares += (step.mean - mean) * (step.mean - mean);
    most += step.most_variance / (k * k);
  }
  const double inflation = (1 + rho) / (1 - rho);
  const double effective = std::max(2.0, k / inflation);
  // Steps that go along with one another spread less around their own mean.
  const double spare = std::max(1.0, k - 1);
  const double shrunk = std::max(0.25, 1 - (inflation - 1) / spare);
  const double variance = squares / spare / shrunk / effective;
  // Few independent steps do not tell their variance, and twice the limit is rarely chance.
  constexpr double kKnown = 1e6;
  if (std::isfinite(most) && (effective < static_cast<double>(kLeastTenth) || 2 * most < variance))
    return {mean, most, kKnown};
  return {mean, variance, effective - 1};
}

ChangeVerdict VerdictOf(double low, double high) {
  return low > 0    ? ChangeVerdict::kRose
         : high < 0 ? ChangeVerdict::kFell
                    : ChangeVerdict::kWithinChance;
}

std::size_t TenthOfSteps(std::size_t steps) {
  return std::min(std::max(steps / 10, kLeastTenth), std::max<std::size_t>(1, steps / 2));
}

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

// The groups that a step trains on.
double BatchGroups(const StepMeasurements& step) { return step.groups - step.groups_replaced; }

Change RewardChange(std::span<const StepMeasurements> steps) {
  std::vector<StepMean> means;
  for (const StepMeasurements& step : steps) {
    // Completions of one prompt may agree whatever the prompt: each group counts once.
    means.push_back({step.drawn_raw_reward_mean,
                     step.raw_reward_std * step.raw_reward_std / BatchGroups(step)});
  }
  return ChangeOver(means);
}

Change AccuracyChange(std::span<const StepMeasurements> steps) {
  std::vector<StepMean> means;
  for (const StepMeasurements& step : steps)
    means.push_back({step.accuracy, step.accuracy * (1 - step.accuracy) / BatchGroups(step)});
  return ChangeOver(means);
}

// Measurements at the start, means over the last tenth of the steps, and means over all.
class Ends {
 public:
  explicit Ends(std::span<const StepMeasurements> steps) : steps_(steps) {
    const std::size_t tenth = TenthOfSteps(steps.size());
    if (!steps.empty()) last_ = steps.last(tenth);
  }

  // NaN where no step has measured it.
  double Start(double StepMeasurements::*field) const {
    return steps_.empty() ? StepMeasurements::kNotMeasured : steps_.front().*field;
  }

  double Last(double StepMeasurements::*field) const { return Mean(last_, field); }

  double All(double StepMeasurements::*field) const { return Mean(steps_, field); }

  std::size_t steps() const { return steps_.size(); }

 private:
  static double Mean(std::span<const StepMeasurements> steps, double StepMeasurements::*field) {
    double sum = 0, count = 0;
    for (const StepMeasurements& step : steps) {
      if (!std::isfinite(step.*field)) continue;
      sum += step.*field;
      ++count;
    }
    return StepMeasurements::Ratio(sum, count);
  }

  std::span<const StepMeasurements> steps_, last_;
};

using M = StepMeasurements;

constexpr double kManyUnscorable = 0.1;  // as the alarm of that name
constexpr double kManyTruncated = 0.5;
constexpr double kFewAnswers = 0.5;
constexpr double kFewTaught = 0.1;

// Why a run got worse. What the last completions look like is then a consequence.
std::string WhyItFell(const Ends& ends) {
  const double before = ends.Start(&M::entropy), after = ends.Last(&M::entropy);
  const bool certain = after < 0.2 * before;
  return fmt::format(
      "the updates made the policy worse, its entropy went from {:.2f} to {:.2f} nats: lower "
      "run.optim.lr (it was {:.2g}){} and start again with `buttress launch RUN.yaml --fresh`",
      before, after, ends.Last(&M::lr), certain ? ", or raise run.algorithm.entropy_coef," : "");
}

// Why few groups taught.
std::string WhyFewTaught(const Ends& ends, const std::string& explain) {
  const double wrong = ends.All(&M::acr_all_wrong), correct = ends.All(&M::acr_all_correct);
  if (wrong >= 0.5) {
    return fmt::format(
        "{:.0f} % of the groups were all wrong: the start model finds too few right answers; teach "
        "it some with `buttress sft`, take easier prompts, or check the verifier with `buttress "
        "verify`",
        100 * wrong);
  }
  if (correct >= 0.5) {
    return fmt::format("{:.0f} % of the groups were all correct: add harder prompts; {}",
                       100 * correct, explain);
  }
  return "most groups have equal rewards; " + explain + " names the causes";
}

// Why nothing rose.
std::string WhyNothingRose(const Learned& learned, const Ends& ends, const std::string& explain) {
  if (ends.Last(&M::truncated_share) >= kManyTruncated) {
    return fmt::format(
        "{:.0f} % of the last completions were cut: raise run.sampling.max_tokens, or teach the "
        "model to stop",
        100 * ends.Last(&M::truncated_share));
  }
  if (learned.taught < kFewTaught) return WhyFewTaught(ends, explain);
  if (ends.Last(&M::format_share) < kFewAnswers) {
    return fmt::format(
        "the verifier found an answer in {:.0f} % of the last completions: teach the format with "
        "`buttress sft`",
        100 * ends.Last(&M::format_share));
  }
  if (ends.Last(&M::unchanged_versions) >= 1) {
    return fmt::format(
        "the last steps changed no weight: raise run.optim.lr (it was {:.2g}), or set "
        "run.optim.precision: stochastic",
        ends.Last(&M::lr));
  }
  return fmt::format(
      "{:.0f} % of the groups taught, but the policy did not get better: raise run.optim.lr (it "
      "was {:.2g}) or run.steps, and check that the start model knows more than the commonest "
      "answers",
      100 * learned.taught, ends.Last(&M::lr));
}

std::string LookAt(const Learned& learned, const Ends& ends, std::string_view run) {
  const std::string samples = fmt::format("`buttress samples {}`", run);
  const std::string explain = fmt::format("`buttress explain {}`", run);
  if (learned.unscorable >= kManyUnscorable) {
    return fmt::format("{:.0f} % of the completions had no verdict: {} shows why",
                       100 * learned.unscorable, samples);
  }
  if (learned.fell() && !learned.rose()) return WhyItFell(ends);
  const bool held_out_rose = learned.held_out && learned.held_out->verdict == ChangeVerdict::kRose;
  const bool accuracy_rose = learned.accuracy.verdict == ChangeVerdict::kRose;
  if (learned.reward.verdict == ChangeVerdict::kRose && std::isfinite(learned.accuracy.first) &&
      !accuracy_rose && !held_out_rose)
    return "the reward rose and the accuracy did not: " + samples + " shows what is rewarded";
  if (learned.rose() && learned.held_out && !held_out_rose) {
    return "the training prompts went better and the held-out ones did not: add prompts, or "
           "held-out prompts for a narrower interval; " +
           samples + " shows what is rewarded";
  }
  if (learned.rose()) return samples + " shows what it writes now";
  if (ends.steps() < kLeastSteps && learned.taught >= kFewTaught) {
    return fmt::format("{} steps are too few to tell; raise run.steps and launch again",
                       ends.steps());
  }
  return WhyNothingRose(learned, ends, explain);
}

nlohmann::ordered_json ChangeJson(const Change& change, const char* first, const char* last) {
  return {
      {first, change.first}, {last, change.last},   {"difference", change.difference},
      {"low", change.low},   {"high", change.high}, {"verdict", ChangeVerdictName(change.verdict)}};
}

// "0.253 to 0.610: +0.357 (+0.301 to +0.413), rose", with `scale` times the numbers.
std::string ChangeText(const Change& change, double scale, int digits) {
  if (!std::isfinite(change.first)) return "not measured";
  std::string text =
      fmt::format("{:.{}f} to {:.{}f}", scale * change.first, digits, scale * change.last, digits);
  if (std::isfinite(change.low)) {
    text += fmt::format(": {:+.{}f} ({:+.{}f} to {:+.{}f})", scale * change.difference, digits,
                        scale * change.low, digits, scale * change.high, digits);
  }
  return fmt::format("{}, {}", text, ChangeVerdictName(change.verdict));
}

std::string Headline(const Learned& learned) {
  const Change& most_telling = learned.held_out                        ? *learned.held_out
                               : std::isfinite(learned.accuracy.first) ? learned.accuracy
                                                                       : learned.reward;
  if (most_telling.verdict == ChangeVerdict::kRose) return "yes";
  if (most_telling.verdict == ChangeVerdict::kFell) return "no, it got worse";
  if (learned.rose()) return "in part";
  if (learned.fell()) return "no, it got worse";
  if (learned.taught == 0) return "no: no group taught anything";
  return learned.reward.verdict == ChangeVerdict::kTooFewSteps ? "not known: too few steps"
                                                               : "no: nothing rose beyond chance";
}

}  // namespace

std::string_view ChangeVerdictName(ChangeVerdict verdict) {
  static constexpr std::array<std::string_view, 4> kNames = {"rose", "fell", "within chance",
                                                             "too few steps"};
  return kNames[static_cast<std::size_t>(verdict)];
}

// By the expansion in 1 / freedom (Abramowitz and Stegun 26.7.5), which is within 0.2 % from 3
// degrees of freedom on.
double StudentT95(double freedom) {
  constexpr std::array<double, 2> kSmall = {12.706, 4.303};
  if (freedom < 3) return kSmall[freedom < 2 ? 0 : 1];
  constexpr double z = kNormal95, s = z * z;
  const double f = freedom;
  return z + z * (s + 1) / (4 * f) + z * ((5 * s + 16) * s + 3) / (96 * f * f) +
         z * (((3 * s + 19) * s + 17) * s - 15) / (384 * f * f * f) +
         z * ((((79 * s + 776) * s + 1482) * s - 1920) * s - 945) / (92160 * f * f * f * f);
}

Change ChangeOver(std::span<const StepMean> steps) {
  std::vector<StepMean> known;
  for (const StepMean& step : steps) {
    if (std::isfinite(step.mean)) known.push_back(step);
  }
  if (known.empty()) return {};
  const std::span<const StepMean> all = known;
  const std::size_t tenth = TenthOfSteps(all.size());
  const bool enough = all.size() >= kLeastSteps;
  const double rho = Autocorrelation(all);
  const Tenth first = TenthOf(all.first(tenth), rho), last = TenthOf(all.last(tenth), rho);
  Change change{.first = first.mean, .last = last.mean, .difference = last.mean - first.mean};
  if (!enough) return change;
  double width = 0;
  if (const double variance = first.variance + last.variance; variance > 0) {
    const double freedom = variance * variance /
                           (first.variance * first.variance / first.freedom +
                            last.variance * last.variance / last.freedom);
    width = StudentT95(freedom) * std::sqrt(variance);
  }
  change.low = change.difference - width;
  change.high = change.difference + width;
  change.verdict = VerdictOf(change.low, change.high);
  return change;
}

std::optional<Change> PairedChange(std::span<const double> before, std::span<const double> after) {
  double n = 0, first = 0, last = 0, squares = 0;
  bool shares = false;
  for (std::size_t i = 0; before.size() == after.size() && i < before.size(); ++i) {
    if (!std::isfinite(before[i]) || !std::isfinite(after[i])) continue;
    ++n;
    first += before[i];
    last += after[i];
    squares += (after[i] - before[i]) * (after[i] - before[i]);
    for (const double value : {before[i], after[i]}) shares = shares || (value != 0 && value != 1);
  }
  if (n == 0) return std::nullopt;
  Change change{.first = first / n, .last = last / n, .difference = (last - first) / n};
  const double spread = squares - (last - first) * (last - first) / n;
  if (shares && n > 1 && spread > 1e-12) {
    const double width = StudentT95(n - 1) * std::sqrt(spread / (n - 1) / n);
    change.low = change.difference - width;
    change.high = change.difference + width;
    change.verdict = VerdictOf(change.low, change.high);
    return change;
  }
  // Two more prompts: half a prompt for each combination of right and wrong.
  const double centre = (last - first) / (n + 2);
  const double error = std::sqrt(squares + 1 - (last - first) * (last - first) / (n + 2)) / (n + 2);
  change.low = centre - kNormal95 * error;
  change.high = centre + kNormal95 * error;
  change.verdict = VerdictOf(change.low, change.high);
  return change;
}

Learned LearnedOf(std::span<const StepMeasurements> steps, std::span<const double> before,
                  std::span<const double> after, std::string_view run) {
  Learned learned;
  learned.reward = RewardChange(steps);
  learned.accuracy = AccuracyChange(steps);
  learned.held_out = PairedChange(before, after);
  double completions = 0, unscorable = 0, groups = 0, taught = 0;
  for (const StepMeasurements& step : steps) {
    completions += step.completions;
    unscorable += step.unscorable;
    groups += step.groups;
    if (step.updates > 0) taught += step.groups_informative;
  }
  learned.unscorable = Share(unscorable, completions);
  learned.taught = Share(taught, groups);
  learned.look_at = LookAt(learned, Ends(steps), run) + "; more: docs/not_learning.md";
  return learned;
}

nlohmann::ordered_json LearnedJson(const Learned& learned) {
  nlohmann::ordered_json json = {{"reward", ChangeJson(learned.reward, "first", "last")},
                                 {"accuracy", ChangeJson(learned.accuracy, "first", "last")}};
  if (learned.held_out) json["held_out"] = ChangeJson(*learned.held_out, "before", "after");
  json["unscorable"] = learned.unscorable;
  json["taught"] = learned.taught;
  if (!learned.cause.empty()) json["cause"] = learned.cause;
  json["look_at"] = learned.look_at;
  return json;
}

std::string LearnedText(const Learned& learned) {
  std::string text = fmt::format("did it learn? {}\n", Headline(learned));
  text += fmt::format("  raw reward  {}\n", ChangeText(learned.reward, 1, 3));
  text += fmt::format("  accuracy %  {}\n", ChangeText(learned.accuracy, 100, 1));
  if (learned.held_out)
    text += fmt::format("  held-out %  {}\n", ChangeText(*learned.held_out, 100, 1));
  text += fmt::format("  groups      {:.1f} % taught; {:.1f} % of the completions had no verdict\n",
                      100 * learned.taught, 100 * learned.unscorable);
  if (!learned.cause.empty()) text += fmt::format("  cause       {}\n", learned.cause);
  return text + fmt::format("  look at     {}", learned.look_at);
}

}  // namespace buttress
