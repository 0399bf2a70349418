#include "lib/measure/alarms.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "lib/base/report/check.h"
#include "lib/rl/collapse/collapse_metrics.h"
#include "lib/rl/collapse/difficulty.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

// An alarm ends once its value is a tenth below (above, for a floor) the limit, so that a value
// that hovers at the limit raises it once.
constexpr double kReleased = 0.9;

double SharePerCompletion(double count, const StepMeasurements& step) {
  return step.completions > 0 ? count / step.completions : StepMeasurements::kNotMeasured;
}

// 0 for what was not measured.
double Known(double value) { return std::isfinite(value) ? value : 0; }

// The share of a batch from which the rest of it makes no difference.
constexpr double kNearlyAll = 0.9;

// Below this share of prompts with a right completion most groups of a batch teach nothing.
constexpr double kFewSolved = 0.1;

// "0 of 32 prompts have a right completion ..."; empty where enough of them have one.
std::string SolvedNotice(const SolvedPrompts& solved, bool informative) {
  const auto [prompts, right, tries] = solved;
  std::vector<double> of_prompts(static_cast<std::size_t>(prompts), 0.0);
  std::fill_n(of_prompts.begin(), right, 1.0);
  const Estimate share = MeanOver(of_prompts);
  if (prompts == 0 || share.mean >= kFewSolved) return "";
  return fmt::format(
      "first batch: {} of {} prompts have a right completion in {} tries (95 %: {:.0f} to {:.0f} "
      "%): {}; see docs/not_learning.md",
      right, prompts, tries, 100 * share.low, 100 * share.high,
      right > 0     ? "most groups teach nothing"
      : informative ? "only what else is rewarded can be learned"
                    : "there is nothing to reinforce");
}

// In a solved task a policy is certain, and groups are constant, because they are right. What the
// verifier may have to do with that still rings: kCollapseUnexplained and its own alarms.
bool EndsWithTheTask(Alarm alarm) {
  return alarm == Alarm::kEntropyLow || alarm == Alarm::kEntropyFalling ||
         alarm == Alarm::kResponsesAlike || alarm == Alarm::kCollapse ||
         alarm == Alarm::kNoGradient;
}

// float32 log-probs of two engines agree to 1e-4 nats, those of bfloat16 to about 1e-2.
constexpr double kKlOfEqualWeights = 0.02;

}  // namespace

AlarmWords WordsOf(Alarm alarm) {
  static constexpr std::array<AlarmWords, kAlarms> kWords = {{
      {"The policy hardly varies: its entropy has stayed below the floor.",
       "If accuracy still rises, lower local.learner.alarms.entropy_floor. Otherwise raise "
       "run.algorithm.entropy_coef or the temperature, or go back to an earlier checkpoint."},
      {"The policy loses its variety: the entropy falls fast.",
       "Lower run.optim.lr, raise the upper clip, or add an entropy bonus before groups collapse."},
      {"Learner and sampler, or the policy and its start, have drifted apart.",
       "Lower run.optim.lr or run.batch.max_age, or add a KL loss. A jump at one step points to "
       "the sampler: compare its log-probs by `buttress logprobs`."},
      {"The completions of a prompt are nearly copies of each other.",
       "Raise the temperature or the entropy bonus; `buttress samples` shows what they are."},
      {"Most groups have equal rewards, whatever is done about it.",
       "`buttress explain` names the causes and what would help. Virtual samples give such groups "
       "a gradient, but they teach nothing new of their prompts."},
      {"Most groups give no gradient, after virtual samples and replacement.",
       "`buttress explain` names the causes. Mix easier and harder prompts, raise "
       "run.sampling.group_size, or set run.batch.zero_variance: resample."},
      {"More groups collapse than the difficulty of the prompts explains.",
       "`buttress explain` names the cause: often a verifier that judges a prompt always alike, "
       "copies, or weights that workers do not load."},
      {"The verifier cannot judge many completions.",
       "Look at the reasons by `buttress samples RUN --class unscorable` and fix the verifier, "
       "its sandbox or its server."},
      {"Many completions reach the token limit before an answer.",
       "Raise run.sampling.max_tokens, or teach a format that ends; `buttress samples` shows "
       "where they are cut."},
      {"The length of completions has left that of the first steps.",
       "Read the samples: growth without a better reward is often repetition, and a fall is "
       "often a reward that needs no reasoning."},
      {"Two verifiers disagree on the same completions.",
       "Read such completions by `buttress samples` and check the verifier by `buttress "
       "audit-verifier`: the policy may have learned its errors."},
      {"A verifier misjudges answers whose verdict is known.",
       "`buttress status` names the source and such an answer. Do not trust the rewards since; fix "
       "the verifier, its settings or the reference answers, which `buttress audit-verifier` tries "
       "alone."},
      {"Nearly all completions are right: the task is solved.",
       "Stop here, or train on harder prompts. If that is too good to be true, try the verifier by "
       "`buttress audit-verifier`."},
  }};
  return kWords[static_cast<std::size_t>(alarm)];
}

Line FitLine(std::span<const double> values) {
  BUTTRESS_CHECK(values.size() >= 2, "FitLine needs at least two values");
  const auto n = static_cast<double>(values.size());
  double mean = 0;
  for (const double value : values) mean += value / n;
  double slope = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    slope += (static_cast<double>(i) - (n - 1) / 2) * (values[i] - mean);
  slope *= 12.0 / (n * (n * n - 1));  // sum of (i - (n - 1) / 2)^2 is n (n^2 - 1) / 12
  return {mean - slope * (n - 1) / 2, mean + slope * (n - 1) / 2};
}

double FallOf(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const Line line = FitLine(values);
  return line.first > 0 ? std::max(0.0, 1.0 - line.last / line.first) : 0.0;
}

void MovingAverage::Add(double value) {
  if (!std::isfinite(value)) return;
  value_ = value_ ? kReadingDecay * *value_ + (1.0 - kReadingDecay) * value : value;
  ++values_;
}

void RecentShare::Add(double part, double whole) {
  if (!std::isfinite(part) || !std::isfinite(whole)) return;
  part_ = kReadingDecay * part_ + part;
  whole_ = kReadingDecay * whole_ + whole;
}

double RecentShare::least() const {
  if (whole_ <= 0) return 0;
  return WilsonInterval(std::clamp(part_ / whole_, 0.0, 1.0), whole_).low;
}

void ExcessSum::Add(double observed, double expected, double groups) {
  // No single step decides: the tails of small counts are heavier than those of a normal variable.
  constexpr double kMostExcess = 4;
  const double most = std::min(1.0, expected + kFitBias);
  const double deviation = std::sqrt(most * (1 - most) / groups);
  if (!std::isfinite(observed) || !std::isfinite(deviation)) return;
  const double excess = deviation > 0 ? (observed - most) / deviation : 0;
  sum_ = std::max(0.0, sum_ + std::min(kMostExcess, excess) - kSlack);
  crossed_ = sum_ > kBound || (crossed_ && sum_ > 0);
  sum_ = std::min(sum_, kBound + kMostExcess);
}

void AlarmMonitor::Average(const StepMeasurements& step) {
  kl_.Add(std::max(step.kl, step.ref_kl));
  // A first step without responses begins the average at 1.
  distinct_.Add(std::isfinite(step.distinct_share) ? step.distinct_share : distinct_.value_or(1));
  collapse_.Add(step.acr);
  // Of the groups drawn: where constant ones are replaced, the accuracy is that of the rest.
  solved_.Add(std::max(Known(step.accuracy), Known(step.acr_all_correct)));
  no_gradient_.Add(step.acr_effective);
  unexplained_.Add(step.acr, step.acr_expected, step.groups - step.unscorable_groups);
  unscorable_.Add(SharePerCompletion(step.unscorable, step));
  truncated_.Add(step.truncated_share);
  disagreement_.Add(step.disagreement * step.twice_verified, step.twice_verified);
  if (std::isfinite(step.start_kl)) start_kl_ = step.start_kl;
  length_.Add(step.length_mean);
  if (std::isfinite(step.length_mean) && lengths_++ < kLengthSteps)
    first_lengths_ += step.length_mean;
  if (!std::isfinite(step.acr)) return;
  if (first_acr_.size() < kAcr100Steps) first_acr_.push_back(step.acr);
  last_acr_.push_back(step.acr);
  if (last_acr_.size() > kSigmaSteps) last_acr_.pop_front();
}

bool AlarmMonitor::LengthDrifts() const {
  if (lengths_ <= kLengthSteps || first_lengths_ <= 0) return false;
  const double factor = length_.value_or(0) / (first_lengths_ / static_cast<double>(kLengthSteps));
  const double limit = (active(Alarm::kLengthDrift) ? kReleased : 1.0) * config_.length_factor;
  return factor > limit || factor < 1 / limit;
}

double AlarmMonitor::acr_100() const {
  return first_acr_.empty() ? StepMeasurements::kNotMeasured : Acr100(first_acr_);
}

double AlarmMonitor::acr_sigma() const {
  if (last_acr_.empty()) return StepMeasurements::kNotMeasured;
  return SigmaAcr(std::vector<double>(last_acr_.begin(), last_acr_.end()));
}

std::vector<Alarm> AlarmMonitor::Observe(const StepMeasurements& step) {
  if (std::isfinite(step.entropy)) {
    low_entropy_steps_ = step.entropy < config_.entropy_floor ? low_entropy_steps_ + 1 : 0;
    entropies_.push_back(step.entropy);
    if (static_cast<std::int64_t>(entropies_.size()) > config_.trend_steps) entropies_.pop_front();
  }
  Average(step);
  const std::vector<double> trend(entropies_.begin(), entropies_.end());
  const bool whole_trend = static_cast<std::int64_t>(trend.size()) == config_.trend_steps;
  std::array<bool, kAlarms> holds{};
  const auto set = [&](Alarm alarm, bool value) { holds[static_cast<std::size_t>(alarm)] = value; };
  const auto above = [&](Alarm alarm, double value, double limit) {
    set(alarm, value > (active(alarm) ? kReleased * limit : limit));
  };
  set(Alarm::kEntropyLow, low_entropy_steps_ > config_.entropy_steps);
  if (whole_trend && config_.entropy_fall < 1)
    above(Alarm::kEntropyFalling, FallOf(trend), config_.entropy_fall);
  above(Alarm::kKlDrift, std::max(kl_average(), start_kl_), config_.kl_limit);
  const double floor =
      active(Alarm::kResponsesAlike) ? config_.distinct_floor / kReleased : config_.distinct_floor;
  set(Alarm::kResponsesAlike, distinct_.settled_or(1) < floor);
  above(Alarm::kCollapse, collapse_.settled_or(0), config_.acr_limit);
  above(Alarm::kNoGradient, no_gradient_.settled_or(0), config_.acr_limit);
  set(Alarm::kCollapseUnexplained, unexplained_.crossed());
  above(Alarm::kUnscorable, unscorable_.settled_or(0), config_.unscorable_limit);
  above(Alarm::kTruncated, truncated_.settled_or(0), config_.truncated_limit);
  set(Alarm::kLengthDrift, LengthDrifts());
  above(Alarm::kVerifiersDisagree, disagreement_.least(), config_.disagreement_limit);
  set(Alarm::kVerifierControls, step.misjudged_sources > 0);
  above(Alarm::kSolved, solved_.settled_or(0), kNearlyAll);
  const bool solved = holds[static_cast<std::size_t>(Alarm::kSolved)];
  std::vector<Alarm> begun;
  for (std::size_t i = 0; i < kAlarms; ++i) {
    if (solved && EndsWithTheTask(static_cast<Alarm>(i))) holds[i] = false;
    if (holds[i] && !active_[i]) begun.push_back(static_cast<Alarm>(i));
  }
  active_ = holds;
  return begun;
}

std::optional<EarlyEnd> Breaker::Observe(const StepMeasurements& step, const std::string& reason) {
  const bool unscorable =
      step.completions > 0 && step.unscorable >= config_.unscorable * step.completions;
  unscorable_steps_ = unscorable ? unscorable_steps_ + 1 : 0;
  if (unscorable && unscorable_steps_ == config_.unscorable_steps) {
    // The reason of a time-out names the setting to raise.
    const bool late = reason.find("run.reward.timeout_ms") != std::string::npos;
    return EarlyEnd{
        false,
        fmt::format("in {} steps in a row {:.3g} % of the completions or more had no verdict"
                    "{}{} (bound: local.learner.stop_when.unscorable_steps)",
                    unscorable_steps_, 100 * config_.unscorable,
                    reason.empty() ? "" : " (" + reason + ")",
                    late ? "" : "; fix run.reward.verifier, which `buttress verify` tries alone")};
  }
  if (config_.uninformative_steps > 0) {
    if (auto end = JudgeGroups(step)) return end;
  }
  if (config_.unchanged_steps > 0 &&
      step.unchanged_versions >= static_cast<double>(config_.unchanged_steps)) {
    return EarlyEnd{
        false, fmt::format("no weight changed in {:.0f} steps in a row; raise run.optim.lr (the "
                           "last rate was {:.3g}), or set run.optim.precision: stochastic, with "
                           "which bfloat16 weights learn from small updates (bound: "
                           "local.learner.stop_when.unchanged_steps)",
                           step.unchanged_versions, step.lr)};
  }
  return std::nullopt;
}

std::optional<EarlyEnd> Breaker::JudgeGroups(const StepMeasurements& step) {
  const double comparable = step.groups - step.unscorable_groups;
  newest_.push_back({step.groups - step.groups_replaced, step.groups_informative, comparable,
                     std::round(Known(step.acr_all_correct) * comparable),
                     std::round(Known(step.acr_all_wrong) * comparable)});
  if (std::ssize(newest_) > config_.uninformative_steps) newest_.pop_front();
  Groups all;
  for (const Groups& groups : newest_) {
    all.trained += groups.trained;
    all.informative += groups.informative;
    all.comparable += groups.comparable;
    all.all_correct += groups.all_correct;
    all.all_wrong += groups.all_wrong;
  }
  if (std::ssize(newest_) < config_.uninformative_steps ||
      all.informative > (1 - config_.uninformative) * all.trained)
    return std::nullopt;
  return Uninformative(all);
}

EarlyEnd Breaker::Uninformative(const Groups& groups) const {
  const double share = config_.uninformative;
  const std::string steps = fmt::format("{} steps", config_.uninformative_steps);
  if (groups.comparable > 0 && groups.all_correct >= share * groups.comparable) {
    return {true,
            fmt::format("nothing left to learn: {} group of the last {} was all correct; add "
                        "harder prompts to train on",
                        groups.all_correct == groups.comparable ? "every" : "nearly every", steps)};
  }
  std::string fix =
      "raise run.sampling.group_size or run.sampling.temperature, or take a verifier that tells "
      "more answers apart";
  if (groups.comparable <= (1 - share) * groups.trained) {
    fix = "hardly a completion got a verdict; try run.reward.verifier with `buttress verify`";
  } else if (groups.all_wrong >= share * groups.comparable) {
    fix =
        "all were wrong: take easier prompts, teach the format first with `buttress sft`, or try "
        "the verifier with `buttress audit-verifier`";
  }
  const std::string few = groups.informative == 0 ? "no group"
                                                  : fmt::format("only {:.0f} of {:.0f} groups",
                                                                groups.informative, groups.trained);
  return {false, fmt::format("{} of {} in a row had differing deciding rewards; {} (bound: "
                             "local.learner.stop_when.uninformative)",
                             few, steps, fix)};
}

std::vector<std::string> FirstBatchNotices(const StepMeasurements& step,
                                           const SolvedPrompts& solved) {
  std::vector<std::string> notices;
  const double scored = step.completions - step.unscorable;
  if (step.completions > 0 && scored == 0) {
    notices.push_back("nothing of the first batch could be scored; see the log of the worker");
  } else if (step.unscorable > 0) {
    notices.push_back(fmt::format("{:.3g} % of the first batch could not be scored",
                                  100 * step.unscorable / step.completions));
  }
  if (std::string notice = SolvedNotice(solved, step.groups_informative > 0); !notice.empty()) {
    notices.push_back(std::move(notice));
  } else if (scored > 0 && step.groups_informative == 0) {
    notices.push_back(
        fmt::format("all deciding rewards of the first batch are equal within their groups (mean "
                    "reward {:.3g}); "
                    "such groups teach nothing",
                    step.raw_reward_mean));
  }
  if (step.completions > 0 && step.truncated_share >= kNearlyAll) {
    notices.push_back(
        fmt::format("{:.0f} % of the completions of the first batch were cut at "
                    "run.sampling.max_tokens; raise it, or check that the model knows its stop "
                    "token",
                    100 * step.truncated_share));
  }
  if (step.format_share <= 1 - kNearlyAll) {
    notices.push_back(fmt::format(
        "the verifier found an answer in {:.0f} % of the completions of the first batch",
        100 * step.format_share));
  }
  if (step.over_long_prompts > 0) {
    notices.push_back(fmt::format(
        "{:.0f} prompts were passed over before the first batch was full, because they are longer "
        "than run.data.max_prompt_tokens (run.data.over_long: drop)",
        step.over_long_prompts));
  }
  if (step.token_age_p99 == 0 && step.kl > kKlOfEqualWeights) {
    notices.push_back(fmt::format(
        "log-probs of worker and learner differ for the same weights: KL {:.2g} nats per token; "
        "check that both load the same model and dtype",
        step.kl));
  }
  return notices;
}

}  // namespace buttress
