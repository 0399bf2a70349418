#include "lib/explain/post_mortem.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "lib/explain/facts.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

class Mean {
 public:
  void Add(double value) {
    sum_ += value;
    ++count_;
  }

  std::optional<double> value() const {
    return count_ == 0 ? std::nullopt : std::optional(sum_ / static_cast<double>(count_));
  }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

std::int64_t CountVerdicts(const GroupFacts& group) {
  return std::ranges::count_if(group.completions, &CompletionFacts::has_verdict);
}

// Adds the means over the completions and groups of a step.
void AddMeans(const std::vector<GroupFacts>& groups, const std::vector<GroupContext>& contexts,
              const CauseRules& rules, StepPoint& point) {
  Mean reward, accuracy, length, surprisal, similarity;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    for (const CompletionFacts& c : groups[k].completions) {
      ++point.completions;
      point.truncated += IsTruncated(c, contexts[k]) ? 1 : 0;
      if (c.scorable()) reward.Add(c.raw_reward);
      if (c.scorable() && c.outcome != Outcome::kUnspecified)
        accuracy.Add(c.outcome == Outcome::kCorrect ? 1 : 0);
      if (c.tokens) length.Add(*c.tokens);
      if (!c.tokens && c.text.known()) length.Add(c.text.length);
      if (c.logprob && c.tokens.value_or(0) > 0) surprisal.Add(-*c.logprob / *c.tokens);
    }
    const GroupCopies copies = FindCopies(groups[k]);
    if (copies.known >= 2 && copies.words >= rules.room_words) similarity.Add(copies.similarity);
    point.near_collapse +=
        IsNearCollapse(groups[k].deciding_rewards(), groups[k].outcomes()) ? 1 : 0;
  }
  point.raw_reward_mean = reward.value();
  point.accuracy = accuracy.value();
  point.length_mean = length.value();
  point.surprisal_mean = surprisal.value();
  point.similarity = similarity.value();
}

// Share of groups below which a cause is not mentioned, unless that of the recent groups is above.
constexpr double kMinShare = 0.01;
// Runs with an ACR-100 above 0.5 ended badly (arXiv 2605.21125), on the prompts and with the group
// size of that paper.
constexpr double kEarlyCollapse = 0.5;

// ", mostly of source 'x'" if there are several sources and one has more than half.
std::string MainSource(const Report& report, Cause cause) {
  if (report.sources.size() < 2) return "";
  for (const auto& [name, tally] : report.sources) {
    if (2 * tally.of(cause) > report.all.of(cause)) return ", mostly of source '" + name + "'";
  }
  return "";
}

void AdviseOnCauses(const Report& report, std::vector<std::string>& steps) {
  const GroupCounts recent = report.all.Recent();
  std::vector<Cause> order;
  for (std::size_t i = 0; i < kCauses; ++i) {
    if (Share(report.all.causes[i], report.all.groups) >= kMinShare ||
        Share(recent.causes[i], recent.groups) >= kMinShare)
      order.push_back(static_cast<Cause>(i));
  }
  std::ranges::stable_sort(order, std::greater<>(), [&](Cause cause) {
    return std::pair(recent.of(cause), report.all.of(cause));
  });
  for (const Cause cause : order) {
    const CauseInfo& info = InfoOf(cause);
    const std::int64_t groups = report.all.of(cause);
    steps.push_back(fmt::format("{} ({} groups, {:.1f} % of all; {} of the last {}{}): {}.",
                                info.name, groups, 100 * Share(groups, report.all.groups),
                                ShareText(recent.of(cause), recent.groups), recent.groups,
                                MainSource(report, cause), info.fix));
  }
}

}  // namespace

PostMortem::PostMortem(const CauseRules& rules,
                       std::function<void(const CollapsedGroup&)> on_collapsed)
    : rules_(rules), on_collapsed_(std::move(on_collapsed)), run_history_(rules) {}

// Compares the observed and the expected rate over the same groups, those with a history.
void PostMortem::AddExpectedAcr(const std::vector<GroupFacts>& groups, StepPoint& point) {
  double expected = 0;
  std::int64_t constant = 0;
  for (const GroupFacts& group : groups) {
    const CollapseClass collapse = group.collapse();
    const PromptHistory recent = run_history_.RecentOf(group);
    if (recent.scored == 0 || collapse == CollapseClass::kUnscorable || !group.judged()) continue;
    ++point.with_history;
    const bool mixed = collapse == CollapseClass::kMixed;
    constant += mixed ? 0 : 1;
    const Difficulty& difficulty = run_history_.DifficultyOf(group.source);
    const double rate = difficulty.Constant(TrialsOf(recent), CountVerdicts(group));
    expected += rate;
    history_gain_.Add(mixed ? 0 : 1, difficulty.Constant({}, CountVerdicts(group)), rate);
  }
  if (point.with_history == 0) return;
  point.observed_acr = Share(constant, point.with_history);
  point.expected_acr = expected / static_cast<double>(point.with_history);
}

std::optional<Cause> PostMortem::Classify(const GroupFacts& group, const GroupContext& context,
                                          StepPoint& point) {
  const CollapseClass collapse = group.collapse();
  point.counts.Add(collapse);
  std::optional<Cause> cause;
  if (collapse != CollapseClass::kMixed) {
    CollapsedGroup collapsed = {group.step,
                                group.prompt_id,
                                group.source,
                                group.sampler,
                                group.where,
                                collapse,
                                Diagnose(group, context, rules_),
                                group.judged()};
    cause = collapsed.diagnosis.cause;
    const auto at = static_cast<std::size_t>(*cause);
    ++point.causes[at];
    point.rounding_only += DiffersByRounding(group) ? 1 : 0;
    if (on_collapsed_) on_collapsed_(collapsed);
    if (shown_[at]++ < static_cast<std::int64_t>(kExamples))
      report_.examples.push_back(std::move(collapsed));
  }
  report_.all.Add(group.step, cause);
  report_.sources[group.source].Add(group.step, cause);
  if (!group.sampler.empty()) report_.samplers[group.sampler].Add(group.step, cause);
  return cause;
}

Status PostMortem::Add(const std::vector<GroupFacts>& groups) {
  if (groups.empty()) return OkStatus();
  std::vector<PromptHistory> history;
  std::vector<int> last_constant;
  for (const GroupFacts& group : groups) {
    history.push_back(run_history_.HistoryOf(group));
    const auto found = run_history_.prompts().find(group.prompt_id);
    const bool seen = found != run_history_.prompts().end();
    last_constant.push_back(!seen ? -1 : found->second.last_collapsed ? 1 : 0);
    ++sizes_[static_cast<std::int64_t>(group.completions.size())];
  }
  BUTTRESS_RETURN_IF_ERROR(remedies_.Add(groups[0].step, groups, history, last_constant));
  StepPoint& point = report_.steps.emplace_back();
  point.step = groups[0].step;
  AddExpectedAcr(groups, point);
  const std::vector<GroupContext> contexts = run_history_.Contexts(groups);
  AddMeans(groups, contexts, rules_, point);
  std::vector<std::optional<Cause>> causes;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    causes.push_back(Classify(groups[k], contexts[k], point));
    report_.has_verdicts = report_.has_verdicts || CountVerdicts(groups[k]) > 0;
    report_.lengths_are_tokens =
        report_.lengths_are_tokens || groups[k].completions[0].tokens.has_value();
  }
  report_.credit.Add(groups);
  run_history_.Record(groups, causes);
  return OkStatus();
}

Report PostMortem::Finish(std::int64_t misjudged_sources) {
  report_.misjudged_sources = misjudged_sources;
  std::vector<double> acr;
  double observed = 0, expected = 0;
  for (const StepPoint& point : report_.steps) {
    report_.counts.Add(point.counts);
    report_.completions += point.completions;
    report_.rounding_only += point.rounding_only;
    report_.near_collapse += point.near_collapse;
    report_.with_history += point.with_history;
    observed += point.observed_acr * static_cast<double>(point.with_history);
    expected += point.expected_acr * static_cast<double>(point.with_history);
    if (point.counts.constant() + point.counts.mixed > 0) acr.push_back(point.counts.acr());
  }
  if (report_.with_history > 0) {
    report_.observed_acr = observed / static_cast<double>(report_.with_history);
    report_.expected =
        IntervalOf(expected / static_cast<double>(report_.with_history), report_.with_history,
                   report_.counts.constant() + report_.counts.mixed);
    report_.excess = ExcessOf(report_.observed_acr, report_.expected.rate, report_.with_history,
                              report_.counts.constant() + report_.counts.mixed);
    report_.expected_informs = history_gain_.significant() || report_.excess.significant();
  }
  report_.history_steps = rules_.history_steps;
  report_.credit_episodes = rules_.credit_episodes;
  report_.never_right = run_history_.NeverRight();
  report_.truth = run_history_.truth();
  report_.acr_100 = Acr100(acr);
  report_.sigma_acr = SigmaAcr(acr);
  std::ranges::stable_sort(report_.examples, {},
                           [](const CollapsedGroup& group) { return group.diagnosis.cause; });
  for (const auto& [prompt_id, record] : run_history_.prompts()) {
    if (record.collapsed > 1) report_.worst_prompts.push_back({prompt_id, record});
  }
  const auto worse = [](const PromptSummary& a, const PromptSummary& b) {
    return std::tie(b.record.collapsed, a.record.groups, a.prompt_id) <
           std::tie(a.record.collapsed, b.record.groups, b.prompt_id);
  };
  const std::size_t kept = std::min(kWorstPrompts, report_.worst_prompts.size());
  std::partial_sort(report_.worst_prompts.begin(),
                    report_.worst_prompts.begin() + static_cast<std::ptrdiff_t>(kept),
                    report_.worst_prompts.end(), worse);
  report_.worst_prompts.resize(kept);
  const auto common =
      std::ranges::max_element(sizes_, {}, [](const auto& size) { return size.second; });
  report_.remedies =
      remedies_.Finish(common == sizes_.end() ? 1 : common->first, run_history_.Difficulties());
  report_.prompts_left_out = run_history_.prompts_left_out();
  return std::move(report_);
}

std::string DescribeExpected(const Report& report) {
  if (!report.has_verdicts)
    return "nothing says which completions are right, so it is not known what difficulty explains";
  if (report.with_history == 0) {
    return fmt::format(
        "no prompt was seen twice within {} steps, so it is not known what difficulty explains",
        report.history_steps);
  }
  const std::string seen = fmt::format("prompts seen in the {} steps before: observed {:.3f}, ",
                                       report.history_steps, report.observed_acr);
  if (!report.expected_informs) {
    return seen + fmt::format(
                      "expected {:.3f}: no information, since what earlier visits gave does not "
                      "predict these groups and the difficulty is fitted to them",
                      report.expected.rate);
  }
  return seen + fmt::format("expected {:.3f} ({:.3f} to {:.3f}; {} groups): {}",
                            report.expected.rate, report.expected.low, report.expected.high,
                            report.with_history, DescribeExcess(report.excess));
}

std::vector<std::string> NextSteps(const Report& report) {
  std::vector<std::string> steps;
  const auto share = [&](std::int64_t groups) { return Share(groups, report.all.groups); };
  if (report.misjudged_sources > 0) {
    steps.emplace_back(
        "Mend the verifier before anything else: it fails on answers whose verdict is known. The "
        "log of the coordinator and `buttress status` name the source and the answer that failed "
        "last, and `buttress audit-verifier` tries more.");
  }
  for (const auto& [source, completions] : report.never_right) {
    steps.push_back(fmt::format(
        "No completion of source '{}' was ever right, of {}: its p is below {:.2g} % (3 / {}). "
        "Score answers that are known to be right with `buttress verify` to tell a verifier that "
        "fails from prompts that are too hard.",
        source, completions, 100 * std::min(1.0, 3 / static_cast<double>(completions)),
        completions));
  }
  AdviseOnCauses(report, steps);
  std::string credit = report.credit.Advice(report.credit_episodes);
  if (!credit.empty()) steps.push_back(std::move(credit));
  if (report.excess.significant() && report.excess.difference > 0) {
    steps.push_back(fmt::format(
        "Of the groups of prompts seen in the {} steps before, {:.0f} % collapse where their "
        "difficulty predicts {:.0f} to {:.0f} %, {}: something other than difficulty is the cause.",
        report.history_steps, 100 * report.observed_acr, 100 * report.expected.low,
        100 * report.expected.high, DescribeExcess(report.excess)));
  }
  std::int64_t difficulty = 0;
  for (const Cause cause :
       {Cause::kTooEasy, Cause::kTooHard, Cause::kEasySource, Cause::kHardSource, Cause::kUnknown})
    difficulty += report.all.causes[static_cast<std::size_t>(cause)];
  if (share(difficulty) >= kMinShare) {
    const std::string size = AdviseSize(report.remedies.sizes, report.remedies.size);
    if (!size.empty()) steps.push_back(size);
    if (report.remedies.skip.skipped > 0) {
      const SkipRemedy& skip = report.remedies.skip;
      steps.push_back(
          fmt::format("Skipping prompts whose last group was constant would have saved {} of {} "
                      "visits; {:.0f} % of them were constant again.",
                      skip.skipped, skip.visits, 100 * Share(skip.rightly, skip.skipped)));
    }
  }
  if (report.steps.size() >= 25 && report.acr_100 > kEarlyCollapse) {
    steps.push_back(fmt::format(
        "The first steps have an ACR of {:.2f}. Runs of arXiv 2605.21125 that began above {:.1f} "
        "ended badly; that bound is of their prompts and group size, a warning and no forecast.",
        report.acr_100, kEarlyCollapse));
  }
  if (steps.empty()) steps.push_back("Nothing to fix: almost every group carries a signal.");
  return steps;
}

}  // namespace buttress
