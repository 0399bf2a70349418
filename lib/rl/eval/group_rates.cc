#include "lib/rl/eval/group_rates.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "lib/base/report/check.h"
#include "lib/rl/collapse/acr.h"

namespace buttress {
namespace {

std::int64_t ScoredOf(const SampledPrompt& prompt) {
  return static_cast<std::int64_t>(prompt.trials().scored);
}

// The number that half of the prompts or more have.
std::int64_t MostCounted(std::span<const SampledPrompt> prompts) {
  if (prompts.empty()) return 0;
  std::vector<std::int64_t> scored;
  for (const SampledPrompt& prompt : prompts) scored.push_back(ScoredOf(prompt));
  const auto middle = scored.begin() + static_cast<std::ptrdiff_t>((scored.size() - 1) / 2);
  std::ranges::nth_element(scored, middle);
  return *middle;
}

Estimate CountedRate(std::span<const SampledPrompt> prompts, std::int64_t size) {
  std::vector<double> chances;
  for (const SampledPrompt& prompt : prompts) {
    if (ScoredOf(prompt) >= size) chances.push_back(ConstantChance(prompt, size));
  }
  return MeanOver(chances);
}

}  // namespace

Trials SampledPrompt::trials() const {
  Trials trials;
  for (const RewardLevel& level : levels) {
    trials.correct += static_cast<double>(level.correct);
    trials.scored += static_cast<double>(level.count());
  }
  return trials;
}

bool SampledPrompt::binary() const {
  const auto with = [this](std::int64_t RewardLevel::*outcome) {
    return std::ranges::count_if(levels,
                                 [outcome](const auto& level) { return level.*outcome > 0; });
  };
  return with(&RewardLevel::correct) <= 1 && with(&RewardLevel::wrong) <= 1 &&
         std::ranges::all_of(
             levels, [](const auto& level) { return level.correct == 0 || level.wrong == 0; });
}

SampledPrompt SampledPromptOf(std::span<const double> rewards, std::span<const Outcome> outcomes) {
  std::vector<std::pair<double, bool>> scored;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    if (IsScorable(rewards[i], outcomes, i))
      scored.emplace_back(rewards[i], outcomes[i] == Outcome::kCorrect);
  }
  std::ranges::sort(scored);
  SampledPrompt prompt;
  for (const auto& [reward, correct] : scored) {
    if (prompt.levels.empty() || !EqualRewards(prompt.levels.back().reward, reward))
      prompt.levels.push_back({.reward = reward});
    ++(correct ? prompt.levels.back().correct : prompt.levels.back().wrong);
  }
  return prompt;
}

double ConstantChance(const SampledPrompt& prompt, std::int64_t size) {
  const std::int64_t n = ScoredOf(prompt);
  BUTTRESS_CHECK(1 <= size && size <= n, "a group is drawn from as many completions or more");
  double sum = 0;
  for (const RewardLevel& level : prompt.levels) {
    double chance = level.count() >= size ? 1.0 : 0.0;
    for (std::int64_t i = 0; i < size && chance > 0; ++i)
      chance *= static_cast<double>(level.count() - i) / static_cast<double>(n - i);
    sum += chance;
  }
  return std::min(1.0, sum);
}

GroupRate GroupRateAt(std::span<const SampledPrompt> prompts, std::int64_t size) {
  const std::int64_t most = MostCounted(prompts);
  if (size <= most) return {size, RateBasis::kCounted, CountedRate(prompts, size)};
  GroupRate rate{.size = size};
  if (most < 2) return rate;
  const auto difficulty = size <= 2 * most ? DifficultyOf(prompts) : std::nullopt;
  if (!difficulty) {
    rate.constant = CountedRate(prompts, most);
    rate.constant.mean = std::numeric_limits<double>::quiet_NaN();
    rate.constant.low = 0;
    return rate;
  }
  rate.basis = RateBasis::kFitted;
  // Of the expected rate, that of endless groups.
  const auto fitted = static_cast<std::int64_t>(prompts.size());
  const ExpectedRate expected =
      IntervalOf(difficulty->Constant({}, size), std::numeric_limits<std::int64_t>::max(), fitted);
  rate.constant = {expected.rate, expected.low, expected.high, fitted};
  return rate;
}

std::optional<Difficulty> DifficultyOf(std::span<const SampledPrompt> prompts) {
  std::vector<GroupTrials> groups;
  for (const SampledPrompt& prompt : prompts) {
    if (!prompt.binary()) return std::nullopt;
    if (!prompt.levels.empty()) groups.push_back({.before = {}, .own = prompt.trials()});
  }
  return groups.empty() ? std::nullopt : std::optional(Difficulty::Fit(groups));
}

}  // namespace buttress
