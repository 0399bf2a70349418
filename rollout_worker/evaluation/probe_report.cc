#include "rollout_worker/evaluation/probe_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

#include "lib/config/sources.h"
#include "lib/explain/group_size.h"
#include "lib/rl/advantage/advantage.h"

namespace buttress {
namespace {

constexpr std::array<std::int64_t, 5> kSizes = {4, 8, 16, 32, 64};
constexpr double kHalf = 0.5;
constexpr double kMany = 0.2;  // of the completions cut, without an answer or a verdict

Estimate OneMinus(const Estimate& estimate) {
  return {1 - estimate.mean, 1 - estimate.high, 1 - estimate.low, estimate.prompts};
}

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string Range(const Estimate& estimate) {
  return fmt::format("{} ({:.1f} to {:.1f})", Percent(estimate.mean), 100 * estimate.low,
                     100 * estimate.high);
}

// The mean over prompts of the share of their completions of which `is` holds.
Estimate ShareOf(std::span<const ProbedPrompt> prompts,
                 const std::function<bool(const EvalCompletion&)>& is) {
  std::vector<double> shares;
  for (const ProbedPrompt& prompt : prompts) {
    const auto held = std::ranges::count_if(prompt.completions, is);
    shares.push_back(static_cast<double>(held) / static_cast<double>(prompt.completions.size()));
  }
  return MeanOver(shares);
}

SampledPrompt Sampled(const ProbedPrompt& prompt) {
  std::vector<double> rewards;
  std::vector<Outcome> outcomes;
  for (const EvalCompletion& one : prompt.completions) {
    rewards.push_back(one.reward);
    outcomes.push_back(one.outcome);
  }
  return SampledPromptOf(rewards, outcomes);
}

Successes SuccessesOf(const SampledPrompt& prompt) {
  const Trials trials = prompt.trials();
  return {static_cast<std::int64_t>(trials.correct), static_cast<std::int64_t>(trials.scored)};
}

Estimate PassAt(std::span<const SampledPrompt> prompts, std::int64_t k) {
  std::vector<double> passes;
  for (const SampledPrompt& prompt : prompts) {
    const Successes successes = SuccessesOf(prompt);
    if (successes.scored >= k) passes.push_back(PassAtK(successes, k));
  }
  return MeanOver(passes);
}

void AddRates(const RunConfig& config, const ProbeFacts& facts,
              std::span<const SampledPrompt> prompts, ProbeReport& report) {
  const std::int64_t own = config.run.sampling.group_size;
  std::set<std::int64_t> sizes(kSizes.begin(), kSizes.end());
  sizes.insert(own);
  for (const std::int64_t size : sizes) report.sizes.push_back(GroupRateAt(prompts, size));
  report.own = *std::ranges::find(report.sizes, own, &GroupRate::size);
  report.mixed = OneMinus(report.own.constant);
  std::vector<double> never, always;
  for (const SampledPrompt& prompt : prompts) {
    const auto& [correct, scored] = SuccessesOf(prompt);
    if (scored == 0) continue;
    never.push_back(correct == 0 ? 1 : 0);
    always.push_back(correct == scored ? 1 : 0);
  }
  report.never = MeanOver(never);
  report.always = MeanOver(always);
  report.accuracy = PassAt(prompts, 1);
  std::size_t completions = 0;
  for (const ProbedPrompt& prompt : facts.prompts)
    completions = std::max(completions, prompt.completions.size());
  for (const std::int64_t k : {1, 4, 16}) {
    if (k <= static_cast<std::int64_t>(completions)) report.pass[k] = PassAt(prompts, k);
  }
  std::map<std::string, std::vector<SampledPrompt>> by_source;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    by_source[facts.prompts[i].source].push_back(prompts[i]);
  for (const auto& [source, of] : by_source)
    report.sources[source] = {static_cast<std::int64_t>(of.size()), PassAt(of, 1),
                              OneMinus(GroupRateAt(of, own).constant)};
}

void AddAnswers(const ProbeFacts& facts, ProbeReport& report) {
  std::vector<ProbedPrompt> read;
  std::ranges::copy_if(facts.prompts, std::back_inserter(read), &ProbedPrompt::has_answers);
  std::vector<PromptSum> distinct, modes;
  for (const ProbedPrompt& prompt : read) {
    std::map<std::string, std::int64_t> wrong;
    std::set<std::string> answers;
    for (const EvalCompletion& one : prompt.completions) {
      if (one.answer.empty()) continue;
      answers.insert(one.answer);
      if (one.outcome == Outcome::kWrong) ++wrong[one.answer];
    }
    std::int64_t most = 0;
    for (const auto& [answer, count] : wrong) most = std::max(most, count);
    distinct.push_back({static_cast<double>(answers.size()), 1});
    modes.push_back(
        {static_cast<double>(most) / static_cast<double>(prompt.completions.size()), 1});
  }
  report.distinct = RatioOf(distinct);
  report.wrong_mode = RatioOf(modes);
  report.answered = ShareOf(read, [](const auto& one) { return !one.answer.empty(); });
  report.truncated = ShareOf(facts.prompts, [](const auto& one) { return one.truncated; });
  report.unscorable =
      ShareOf(facts.prompts, [](const auto& one) { return one.outcome == Outcome::kUnscorable; });
}

void AddTokens(const ProbeFacts& facts, ProbeReport& report) {
  std::vector<std::int64_t> lengths;
  std::vector<PromptSum> by_prompt, entropies;
  for (const ProbedPrompt& prompt : facts.prompts) {
    PromptSum& sum = by_prompt.emplace_back();
    for (const EvalCompletion& one : prompt.completions) {
      lengths.push_back(one.tokens);
      sum.sum += static_cast<double>(one.tokens);
      sum.weight += 1;
    }
  }
  std::vector<PromptSum> kls, references;
  for (const SampledTokens& sums : facts.sampled) {
    entropies.push_back({-sums.logprob, sums.tokens});
    kls.push_back({sums.logprob - sums.reference.logprob, sums.tokens});
    references.push_back({sums.reference.entropy, sums.tokens});
  }
  if (!facts.reference.empty()) {
    report.reference_kl = RatioOf(kls);
    report.reference_entropy = RatioOf(references);
  }
  report.tokens = RatioOf(by_prompt);
  report.entropy = RatioOf(entropies);
  if (lengths.empty()) return;
  std::ranges::sort(lengths);
  report.median_tokens = lengths[(lengths.size() - 1) / 2];
  report.ninth_decile_tokens = lengths[(lengths.size() - 1) * 9 / 10];
}

void AddEpisodes(const ProbeFacts& facts, ProbeReport& report) {
  std::vector<PromptSum> turns, tool_calls;
  for (const ProbedPrompt& prompt : facts.prompts) {
    PromptSum& answered = turns.emplace_back();
    PromptSum& called = tool_calls.emplace_back();
    for (const EvalCompletion& one : prompt.completions) {
      if (!one.episode) continue;
      report.episodes.Add(*one.episode);
      answered.sum += static_cast<double>(one.episode->turns);
      called.sum += static_cast<double>(one.episode->tool_calls);
      answered.weight += 1;
      called.weight += 1;
    }
  }
  report.turns = RatioOf(turns);
  report.tool_calls = RatioOf(tool_calls);
}

void AddCost(const RunConfig& config, const ProbeFacts& facts, ProbeReport& report) {
  const BatchConfig& batch = config.run.batch;
  if (batch.zero_variance == ZeroVariancePolicy::kResample) {
    const auto most = static_cast<double>(batch.resample.cap) + 1;
    report.resampled = report.mixed.mean * most > 1 ? 1 / report.mixed.mean : most;
  }
  double sampled = 0;
  for (const ProbedPrompt& prompt : facts.prompts) {
    for (const EvalCompletion& one : prompt.completions) sampled += static_cast<double>(one.tokens);
  }
  report.run_completions = static_cast<double>(StepsOf(config.run, facts.rows)) *
                           static_cast<double>(batch.prompts) *
                           static_cast<double>(config.run.sampling.group_size) * report.resampled;
  report.run_tokens = report.run_completions * report.tokens.mean;
  report.run_seconds = sampled > 0 ? report.run_tokens * facts.seconds / sampled : 0;
}

// Why groups are constant, for a run that cannot learn.
std::string CauseOf(const ProbeReport& report) {
  if (report.truncated.mean > kHalf)
    return "most completions are cut at run.sampling.max_tokens; raise it";
  if (report.answered.prompts > 0 && report.answered.mean == 0)
    return "the verifier found no answer in any completion; show the format in the prompt, or "
           "teach it with `buttress sft`";
  if (report.always.mean > report.never.mean)
    return "the prompts are solved already; use harder ones";
  return "the prompts are too hard for the model; use easier ones, or teach the task with "
         "`buttress sft` first";
}

void Conclude(const RunConfig& config, const ProbeFacts& facts, ProbeReport& report) {
  const std::int64_t size = config.run.sampling.group_size;
  const Estimate& mixed = report.mixed;
  report.verdict = ProbeVerdict::kCannotLearn;
  const bool judged = report.unscorable.mean < 1;
  if (!judged) {
    report.conclusion = "the verifier scored no completion; the log says why";
    return;
  }
  if (facts.gold.tried > 0 && facts.gold.failed == facts.gold.tried) {
    report.conclusion = fmt::format(
        "the verifier calls none of {} reference answers right, as {}; see `buttress "
        "audit-verifier`",
        facts.gold.tried, facts.gold.example);
    return;
  }
  const bool other_signal =
      InfoOf(config.run.algorithm.advantage).on_constant_group != "exactly 0" &&
      report.accuracy.mean > 0 && report.accuracy.mean < 1;
  if (mixed.high < kLeastMixed && !other_signal) {
    report.conclusion =
        fmt::format("at most {} of the groups of {} are mixed, and {} is the least: {}",
                    Percent(mixed.high), size, Percent(kLeastMixed), CauseOf(report));
    return;
  }
  report.verdict = ProbeVerdict::kNoInformation;
  if (report.own.basis == RateBasis::kBound) {
    report.conclusion = fmt::format(
        "at least {} of the groups of {} are mixed, and a --group-size of {} or more says how many",
        Percent(mixed.low), size, (size + 1) / 2);
  } else {
    report.conclusion = fmt::format("{} of the groups of {} are mixed", Range(mixed), size);
  }
  if (mixed.low >= kLeastMixed) {
    report.verdict = ProbeVerdict::kCanLearn;
  } else if (mixed.high < kLeastMixed) {
    report.conclusion +=
        fmt::format("; the others teach by {}", ChoiceName(config.run.algorithm.advantage));
  } else {
    report.conclusion +=
        fmt::format("; whether that is {} is open: raise --prompts", Percent(kLeastMixed));
  }
}

// The least size at which half of the groups are mixed.
std::string AdviceOnSize(const ProbeReport& report) {
  for (const GroupRate& rate : report.sizes) {
    if (rate.basis == RateBasis::kBound || rate.constant.mean > kHalf) continue;
    return fmt::format("half of the groups are mixed from {} completions on: {}{}", rate.size,
                       Range(OneMinus(rate.constant)),
                       rate.constant.high > kHalf ? ", which may be less than half" : "");
  }
  return "no group size that was measured has half of its groups mixed";
}

void Advise(const RunConfig& config, const ProbeFacts& facts,
            std::span<const SampledPrompt> prompts, ProbeReport& report) {
  std::vector<std::string>& advice = report.advice;
  if (facts.gold.failed > 0)
    advice.push_back(
        fmt::format("the verifier refuses {} of {} reference answers, as {}; see "
                    "`buttress audit-verifier`",
                    facts.gold.failed, facts.gold.tried, facts.gold.example));
  if (facts.spoiled.failed > 0)
    advice.push_back(
        fmt::format("the verifier accepts {} of {} spoiled answers, as {}; see "
                    "`buttress audit-verifier`",
                    facts.spoiled.failed, facts.spoiled.tried, facts.spoiled.example));
  if (report.unscorable.low > kMany)
    advice.push_back("many completions have no verdict; the log says why");
  if (report.truncated.low > kMany)
    advice.push_back("many completions are cut; raise run.sampling.max_tokens");
  if (report.answered.prompts > 0 && report.answered.high < 1 - kMany)
    advice.push_back(
        "many completions have no answer; show the format in the prompt, or teach it with "
        "`buttress sft`");
  if (report.never.low > kHalf)
    advice.push_back(
        "most prompts are never solved; use easier ones, or `buttress sft` on solutions first");
  if (report.always.low > kHalf)
    advice.push_back("most prompts are always solved; use harder ones");
  const Estimate& mixed = report.mixed;
  if (report.verdict != ProbeVerdict::kCanLearn || report.own.basis == RateBasis::kBound) return;
  advice.push_back(AdviceOnSize(report));
  const std::int64_t size = config.run.sampling.group_size;
  if (const auto difficulty = DifficultyOf(prompts)) {
    std::vector<SizeRemedy> sizes = CompareSizes({{*difficulty, 1}}, size);
    std::erase_if(sizes, [prompts](const SizeRemedy& remedy) {
      return GroupRateAt(prompts, remedy.size).basis == RateBasis::kBound;
    });
    const std::string of_size = AdviseSize(sizes, size);
    if (!of_size.empty()) advice.push_back(of_size);
  }
  const BatchConfig& batch = config.run.batch;
  if (batch.zero_variance != ZeroVariancePolicy::kResample && mixed.high < kHalf &&
      mixed.mean * static_cast<double>(batch.resample.cap + 1) > 1)
    advice.push_back(fmt::format(
        "run.batch.zero_variance: resample fills the batch with mixed groups, for {:.1f} ({:.1f} "
        "to {:.1f}) groups drawn for each",
        1 / mixed.mean, 1 / mixed.high, 1 / mixed.low));
}

}  // namespace

MeanInterval RatioOf(std::span<const PromptSum> prompts) {
  double sum = 0, weight = 0, squares = 0;
  for (const PromptSum& prompt : prompts) {
    sum += prompt.sum;
    weight += prompt.weight;
  }
  if (weight <= 0) return {};
  MeanInterval ratio;
  ratio.mean = sum / weight;
  if (prompts.size() < 2) return ratio;
  for (const PromptSum& prompt : prompts) {
    const double off = prompt.sum - ratio.mean * prompt.weight;
    squares += off * off;
  }
  constexpr double kNormal95 = 1.959963984540054;
  const auto n = static_cast<double>(prompts.size());
  const double half = kNormal95 * std::sqrt(squares * n / (n - 1)) / weight;
  ratio.low = ratio.mean - half;
  ratio.high = ratio.mean + half;
  return ratio;
}

ProbeReport ReportOf(const RunConfig& config, const ProbeFacts& facts) {
  std::vector<SampledPrompt> prompts;
  for (const ProbedPrompt& prompt : facts.prompts) prompts.push_back(Sampled(prompt));
  ProbeReport report;
  AddRates(config, facts, prompts, report);
  AddAnswers(facts, report);
  AddTokens(facts, report);
  AddEpisodes(facts, report);
  AddCost(config, facts, report);
  Conclude(config, facts, report);
  Advise(config, facts, prompts, report);
  return report;
}

}  // namespace buttress
