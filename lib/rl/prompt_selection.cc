#include "lib/rl/prompt_selection.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/report/check.h"

namespace buttress {
namespace {

// Constants of the released code of GRESO.
constexpr double kLeastChance = 0.01;
constexpr double kBaseStep = 0.01;
constexpr double kLeastBase = 0.05;
constexpr double kMostBase = 0.95;
constexpr double kEasyShare = 1.0 / 3.0;
constexpr double kHardShare = 2.0 / 3.0;

// A Gamma(shape, 1) variate for shape >= 1 (Marsaglia and Tsang 2000). Normal and uniform numbers
// have keys of their own, because those of one key come from the same bits.
double SampleGamma(double shape, RandomKey key) {
  RandomStream normals({MixSeed(key.seed, 0), key.stream});
  RandomStream uniforms({MixSeed(key.seed, 1), key.stream});
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normals.Normal();
    const double root = 1.0 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log1p(-uniforms.Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double MoveBase(double base, double share, double target) {
  return share >= target ? std::max(base - kBaseStep, kLeastBase)
                         : std::min(base + kBaseStep, kMostBase);
}

}  // namespace

std::string_view SkipReasonName(SkipReason reason) {
  static constexpr std::array<std::string_view, kSkipReasons> kNames = {"easy", "hard", "constant",
                                                                        "farther", "over_long"};
  return kNames[static_cast<std::size_t>(reason)];
}

void AddGroup(std::span<const double> raw_rewards, std::span<const Outcome> outcomes,
              CollapseClass collapse, std::uint64_t pass, double decay, PromptRecord& record) {
  record.last_pass = pass;
  double sum = 0;
  double correct = 0, wrong = 0;
  std::int64_t scorable = 0;
  for (std::size_t i = 0; i < raw_rewards.size(); ++i) {
    if (!IsScorable(raw_rewards[i], outcomes, i)) continue;
    ++scorable;
    sum += raw_rewards[i];
    correct += outcomes[i] == Outcome::kCorrect ? 1 : 0;
    wrong += outcomes[i] == Outcome::kWrong ? 1 : 0;
  }
  if (scorable == 0) return;
  const double mean = sum / static_cast<double>(scorable);
  record.easy_in_a_row = mean >= kEasyReward ? record.easy_in_a_row + 1 : 0;
  record.hard_in_a_row = mean <= kHardReward ? record.hard_in_a_row + 1 : 0;
  record.last_constant =
      collapse != CollapseClass::kMixed && collapse != CollapseClass::kUnscorable;
  record.correct = decay * record.correct + correct;
  record.wrong = decay * record.wrong + wrong;
}

double GresoSkipProbability(std::int64_t in_a_row, double base) {
  return 1.0 - std::max(std::pow(base, static_cast<double>(in_a_row)), kLeastChance);
}

GresoBases AdaptGreso(const GresoBases& bases, const CollapseCounts& step, double target) {
  const auto classed = static_cast<double>(step.constant() + step.mixed);
  if (classed == 0) return bases;
  return {
      MoveBase(bases.easy, static_cast<double>(step.all_correct) / classed, target * kEasyShare),
      MoveBase(bases.hard, static_cast<double>(step.all_wrong) / classed, target * kHardShare)};
}

std::optional<SkipReason> GresoSkips(const PromptRecord& record, const GresoBases& bases,
                                     double uniform) {
  if (uniform < GresoSkipProbability(record.easy_in_a_row, bases.easy)) return SkipReason::kEasy;
  if (uniform < GresoSkipProbability(record.hard_in_a_row, bases.hard)) return SkipReason::kHard;
  return std::nullopt;
}

double GresoDrawProbability(const PromptRecord& record, const GresoBases& bases) {
  return 1.0 - std::max(GresoSkipProbability(record.easy_in_a_row, bases.easy),
                        GresoSkipProbability(record.hard_in_a_row, bases.hard));
}

bool SpeedSkips(const PromptRecord& record, std::uint64_t pass, std::int64_t rest) {
  return record.last_constant && pass - record.last_pass <= static_cast<std::uint64_t>(rest);
}

double SampleBeta(double a, double b, RandomKey key) {
  BUTTRESS_CHECK(a >= 1 && b >= 1, "a and b of a Beta posterior are at least 1");
  const double x = SampleGamma(a, {MixSeed(key.seed, 2), key.stream});
  return x / (x + SampleGamma(b, {MixSeed(key.seed, 3), key.stream}));
}

double ThompsonRate(const PromptRecord& record, RandomKey key) {
  return SampleBeta(1.0 + record.correct, 1.0 + record.wrong, key);
}

std::size_t NearestRate(std::span<const double> rates, double target) {
  BUTTRESS_CHECK(!rates.empty(), "the candidates are not empty");
  std::size_t nearest = 0;
  for (std::size_t i = 1; i < rates.size(); ++i) {
    if (std::abs(rates[i] - target) < std::abs(rates[nearest] - target)) nearest = i;
  }
  return nearest;
}

std::optional<SkipReason> PassedOver(const SelectionConfig& selection, std::uint64_t seed,
                                     const PromptPlace& place, const PromptRecord& record,
                                     const GresoBases& bases) {
  if (selection.mode == SelectionMode::kSpeed) {
    const bool rests = SpeedSkips(record, place.pass, selection.speed.rest);
    return rests ? std::optional(SkipReason::kConstant) : std::nullopt;
  }
  if (selection.mode != SelectionMode::kGreso) return std::nullopt;
  const RandomKey key{MixSeed(seed, HashText("prompt skip")), place.pass};
  return GresoSkips(record, bases, UniformAt(key, place.row));
}

}  // namespace buttress
