#include "cli/explain/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "lib/explain/conclusion.h"
#include "lib/explain/post_mortem.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

constexpr std::size_t kBins = 12;  // rows of the table over time
constexpr std::size_t kShownTallies = 8;
constexpr std::size_t kShownPrompts = 5;

std::string Name(Cause cause) { return std::string(InfoOf(cause).name); }

Cause Largest(const CauseCounts& causes) {
  return static_cast<Cause>(std::ranges::max_element(causes) - causes.begin());
}

std::string Overview(const Report& report) {
  const CollapseCounts& c = report.counts;
  std::string text = fmt::format("{} groups, {} completions, {} steps\n", c.groups,
                                 report.completions, report.steps.size());
  const std::string classes = report.has_verdicts
                                  ? fmt::format("all-correct {}, all-wrong {}, other {}",
                                                c.all_correct, c.all_wrong, c.other_constant)
                                  : fmt::format("equal rewards {}", c.other_constant);
  text += fmt::format(
      "ACR {} = {} of {} groups ({}); unscorable {}, near collapse {}, by rounding only {}\n",
      AcrText(c, 3), c.constant(), c.constant() + c.mixed, classes, c.unscorable,
      report.near_collapse, report.rounding_only);
  text += DescribeExpected(report) + "\n";
  if (c.constant() + c.mixed == 0) return text;
  return text + fmt::format("ACR-100 {:.3f}, sigma-ACR {:.3f}\n", report.acr_100, report.sigma_acr);
}

std::string Causes(const Report& report) {
  std::string text = fmt::format("\nwhy {} groups gave no signal:\n", report.all.collapsed);
  for (std::size_t i = 0; i < kCauses; ++i) {
    const std::int64_t count = report.all.causes[i];
    if (count == 0) continue;
    const double share = Share(count, report.all.collapsed);
    text += fmt::format("  {:<18} {:8}  {:5.1f} %  {}\n", Name(static_cast<Cause>(i)), count,
                        100 * share, std::string(static_cast<std::size_t>(share * 40 + 0.5), '#'));
    const auto example =
        std::ranges::find(report.examples, static_cast<Cause>(i),
                          [](const CollapsedGroup& g) { return g.diagnosis.cause; });
    if (example != report.examples.end())
      text += fmt::format("      {:.60}: {:.200}\n", example->where, example->diagnosis.evidence);
  }
  return text;
}

std::string OverTime(const Report& report) {
  const bool surprisal = std::ranges::any_of(
      report.steps, [](const StepPoint& p) { return p.surprisal_mean.has_value(); });
  std::string text =
      "\n     steps          ACR  expected  trunc.  raw reward  accuracy    length  " +
      std::string(surprisal ? " surprisal" : "similarity") + "  largest cause\n";
  const std::size_t bins = std::min(kBins, report.steps.size());
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const std::size_t begin = bin * report.steps.size() / bins;
    const std::size_t end = (bin + 1) * report.steps.size() / bins;
    StepPoint sum;
    double reward = 0, accuracy = 0, length = 0, trend = 0, expected = 0;
    std::int64_t rewards = 0, accuracies = 0, lengths = 0, trends = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const StepPoint& p = report.steps[i];
      sum.counts.Add(p.counts);
      for (std::size_t cause = 0; cause < kCauses; ++cause) sum.causes[cause] += p.causes[cause];
      sum.completions += p.completions;
      sum.truncated += p.truncated;
      sum.with_history += p.with_history;
      expected += p.expected_acr * static_cast<double>(p.with_history);
      if (p.raw_reward_mean) reward += *p.raw_reward_mean, ++rewards;
      if (p.accuracy) accuracy += *p.accuracy, ++accuracies;
      if (p.length_mean) length += *p.length_mean, ++lengths;
      const auto& value = surprisal ? p.surprisal_mean : p.similarity;
      if (value) trend += *value, ++trends;
    }
    const auto mean = [](double total, std::int64_t count, int decimals) {
      return count > 0 ? fmt::format("{:.{}f}", total / static_cast<double>(count), decimals)
                       : std::string("-");
    };
    const std::int64_t worst = *std::ranges::max_element(sum.causes);
    text +=
        fmt::format("{:7} - {:<7} {:>5}  {:>8}  {:3.0f} %  {:>10}  {:>8}  {:>8}  {:>10}  {}\n",
                    report.steps[begin].step, report.steps[end - 1].step, AcrText(sum.counts, 2),
                    mean(expected, sum.with_history, 2),
                    100 * Share(sum.truncated, sum.completions), mean(reward, rewards, 3),
                    mean(accuracy, accuracies, 2), mean(length, lengths, 0), mean(trend, trends, 3),
                    worst == 0 ? "-"
                               : fmt::format("{} {:.0f} %", Name(Largest(sum.causes)),
                                             100 * Share(worst, sum.counts.groups)));
  }
  return text;
}

std::string Tallies(const char* what, const std::map<std::string, Tally>& tallies) {
  if (tallies.size() < 2) return "";
  std::vector<std::pair<std::string, Tally>> worst(tallies.begin(), tallies.end());
  std::ranges::stable_sort(worst, std::greater<>(), [](const auto& t) {
    const GroupCounts recent = t.second.Recent();
    return Share(recent.collapsed, recent.groups);
  });
  std::string text = fmt::format("\nworst {} of late:\n", what);
  for (std::size_t i = 0; i < std::min(kShownTallies, worst.size()); ++i) {
    const auto& [name, tally] = worst[i];
    const GroupCounts recent = tally.Recent();
    text += fmt::format("  {:<30.30} {} of the last {} groups without a signal",
                        name.empty() ? "(none)" : name, ShareText(recent.collapsed, recent.groups),
                        recent.groups);
    if (recent.collapsed > 0) text += ", mostly " + Name(Largest(recent.causes));
    text += fmt::format("; {:.1f} % of all {}\n", 100 * Share(tally.collapsed, tally.groups),
                        tally.groups);
  }
  return text;
}

std::string SuccessRate(const SeenPrompt& prompt) {
  const PromptHistory& history = prompt.history;
  return history.scored > 0 ? fmt::format("{:.2f}", Share(history.correct, history.scored))
                            : "not known";
}

std::string Prompts(const Report& report) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kShownPrompts, report.worst_prompts.size()); ++i) {
    const auto& [id, record] = report.worst_prompts[i];
    text += fmt::format("  {} of {} groups without a signal, success rate {}: {:.110}\n",
                        record.collapsed, record.groups, SuccessRate(record), id);
  }
  return text.empty() ? "" : "\nworst prompts:\n" + text;
}

// Where the gradient that an estimator adds on constant groups points.
std::string PushText(const EstimatorRemedy& remedy) {
  const double push = remedy.push();
  if (remedy.collapsed_with_advantage > 0 && remedy.constant == 0) return "to an unknown side";
  if (push == 0) return remedy.collapsed_with_advantage > 0 ? "nowhere: noise" : "nowhere";
  return fmt::format("{} ({:+.3f})", push > 0 ? "towards what is right" : "away from what is right",
                     push);
}

std::string SignalText(const EstimatorRemedy& remedy) {
  return remedy.signal_per_token ? fmt::format("x{:.2f}", *remedy.signal_per_token) : "unknown";
}

std::string WeightsText(const EstimatorRemedy& remedy) {
  std::string text;
  for (const std::optional<double>& weight : remedy.weights)
    text += (text.empty() ? "" : ", ") + (weight ? fmt::format("{:.2f}", *weight) : "-");
  return text;
}

std::string SizesText(const RemedyReport& r) {
  if (r.sizes.empty()) return "";
  std::string text = "\nother group sizes, by the difficulty of the recent prompts:\n";
  for (const SizeRemedy& size : r.sizes) {
    text += fmt::format("  {:<22} ACR {:.3f}, {:.2f} times the signal to noise per token\n",
                        fmt::format("groups of {}", size.size), size.expected_acr,
                        size.signal_per_token);
    if (size.size == r.size) continue;
    text += fmt::format(
        "  {:<22} run.sampling.group_size={}; verl: actor_rollout_ref.rollout.n={}; TRL: "
        "num_generations={}\n",
        "", size.size, size.size, size.size);
  }
  std::size_t shown = 0;
  for (const auto& [source, sizes] : r.source_sizes) {
    if (shown++ == kShownTallies) break;
    text += fmt::format("  {:<22.22} ", source.empty() ? "(none)" : source);
    for (const SizeRemedy& size : sizes) {
      text += fmt::format("{}{}: ACR {:.2f}, x{:.2f}", &size == sizes.data() ? "" : "; ", size.size,
                          size.expected_acr, size.signal_per_token);
    }
    text += "\n";
  }
  return text;
}

std::string WhatRemediesGive(const Report& report) {
  const RemedyReport& r = report.remedies;
  std::string text = fmt::format(
      "\nother estimators on the same groups, by their signal to noise per token against grpo on "
      "prompts of this difficulty; w(p) grad p is the expected gradient, at p = {}, {}, {}:\n",
      kWeightRates[0], kWeightRates[1], kWeightRates[2]);
  for (const EstimatorRemedy& e : r.estimators) {
    text += fmt::format(
        "  {:<22} {} signal to noise; {:.1f} % of groups with an advantage; constant ones are "
        "pushed {}; w(p) {}\n  {:<22} {}\n",
        e.name, SignalText(e), 100 * Share(e.with_advantage, r.groups), PushText(e), WeightsText(e),
        "", e.setting);
  }
  text += fmt::format(
      "  {:<22} {:.2f} prompts drawn per informative group, {:.0f} % of the tokens without use\n"
      "  {:<22} run.batch.zero_variance=resample; verl: algorithm.filter_groups.enable=True\n",
      "resample (DAPO)", r.draws_for_full_batch, 100 * (1 - 1 / r.draws_for_full_batch), "");
  if (r.skip.visits > 0) {
    text += fmt::format("  {:<22} {} of {} visits saved, {:.0f} % of them constant again\n",
                        "skip (GRESO)", r.skip.skipped, r.skip.visits,
                        100 * Share(r.skip.rightly, r.skip.skipped));
    text += fmt::format("  {:<22} run.data.selection.mode=greso\n", "");
  }
  return text + SizesText(r);
}

using nlohmann::ordered_json;

ordered_json CausesJson(const CauseCounts& causes) {
  ordered_json object = ordered_json::object();
  for (std::size_t i = 0; i < kCauses; ++i)
    object[std::string(InfoOf(static_cast<Cause>(i)).name)] = causes[i];
  return object;
}

ordered_json Known(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json StepJson(const StepPoint& point) {
  ordered_json object = {{"step", point.step}};
  object.update(CountsJson(point.counts));
  object["acr"] = AcrJson(point.counts);
  object.update({{"near_collapse", point.near_collapse},
                 {"by_rounding", point.rounding_only},
                 {"with_history", point.with_history},
                 {"observed_acr", point.observed_acr},
                 {"expected_acr", point.expected_acr},
                 {"completions", point.completions},
                 {"truncated", point.truncated},
                 {"raw_reward_mean", Known(point.raw_reward_mean)},
                 {"accuracy", Known(point.accuracy)},
                 {"length_mean", Known(point.length_mean)},
                 {"surprisal_mean", Known(point.surprisal_mean)},
                 {"similarity", Known(point.similarity)},
                 {"causes", CausesJson(point.causes)}});
  return object;
}

ordered_json TalliesJson(const std::map<std::string, Tally>& tallies) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, tally] : tallies) {
    const GroupCounts recent = tally.Recent();
    const double share = Share(recent.collapsed, recent.groups);
    const ShareInterval interval = WilsonInterval(share, static_cast<double>(recent.groups));
    object[name] = {{"groups", tally.groups},
                    {"without_signal", tally.collapsed},
                    {"causes", CausesJson(tally.causes)},
                    {"recent",
                     {{"groups", recent.groups},
                      {"without_signal", recent.collapsed},
                      {"share", share},
                      {"low", interval.low},
                      {"high", interval.high},
                      {"causes", CausesJson(recent.causes)}}}};
  }
  return object;
}

ordered_json SizesJson(const std::vector<SizeRemedy>& sizes) {
  ordered_json array = ordered_json::array();
  for (const SizeRemedy& size : sizes) {
    array.push_back({{"size", size.size},
                     {"expected_acr", size.expected_acr},
                     {"signal_per_token", size.signal_per_token}});
  }
  return array;
}

ordered_json RemediesJson(const RemedyReport& remedies) {
  ordered_json object;
  for (const EstimatorRemedy& e : remedies.estimators) {
    object["estimators"].push_back(
        {{"name", e.name},
         {"with_advantage", e.with_advantage},
         {"constant_with_advantage", e.collapsed_with_advantage},
         {"virtual_groups", e.virtual_groups},
         {"signal_per_token", Known(e.signal_per_token)},
         {"push_on_constant_groups", e.push()},
         {"setting", e.setting},
         {"mean_absolute_advantage", e.mean_absolute(remedies.completions)}});
  }
  object["draws_for_each_informative_group"] = std::isfinite(remedies.draws_for_full_batch)
                                                   ? ordered_json(remedies.draws_for_full_batch)
                                                   : ordered_json();
  object["skip"] = {{"visits", remedies.skip.visits},
                    {"skipped", remedies.skip.skipped},
                    {"constant_again", remedies.skip.rightly}};
  object["group_size"] = SizesJson(remedies.sizes);
  object["group_size_by_source"] = ordered_json::object();
  for (const auto& [source, sizes] : remedies.source_sizes)
    object["group_size_by_source"][source] = SizesJson(sizes);
  return object;
}

}  // namespace

std::string ReportText(const ReportHead& head, const Report& report) {
  std::string text = head.path + ": " + head.description + "\n";
  for (const std::string& remark : head.remarks) text += "  note: " + remark + "\n";
  if (report.prompts_left_out)
    text += "  note: more than " + std::to_string(RunHistory::kMaxPrompts) +
            " prompts; later prompts have no history\n";
  const Conclusion conclusion = Conclude(report);
  text += "conclusion: " + conclusion.name + ", " + conclusion.evidence + "\n" + Overview(report);
  if (report.all.collapsed > 0) text += Causes(report);
  text += OverTime(report) + Tallies("sources", report.sources) +
          Tallies("samplers", report.samplers) + Prompts(report) + WhatRemediesGive(report);
  text += "\nwhat to do next:\n";
  for (const std::string& step : NextSteps(report)) text += "  - " + step + "\n";
  return text;
}

std::string CollapsedGroupJson(const CollapsedGroup& group) {
  ordered_json object = {
      {"step", group.step},
      {"prompt", group.prompt_id},
      {"source", group.source},
      {"where", group.where},
      {"collapse", group.judged || !IsConstant(group.collapse) ? CollapseClassName(group.collapse)
                                                               : "equal_rewards"},
      {"cause", InfoOf(group.diagnosis.cause).name},
      {"evidence", group.diagnosis.evidence}};
  if (!group.sampler.empty()) object["sampler"] = group.sampler;
  return JsonLine(object);
}

std::string ReportJson(const ReportHead& head, const Report& report) {
  ordered_json object = {
      {"path", head.path}, {"description", head.description}, {"remarks", head.remarks}};
  object.update(CountsJson(report.counts));
  object["acr"] = AcrJson(report.counts);
  object.update({{"has_verdicts", report.has_verdicts},
                 {"completions", report.completions},
                 {"near_collapse", report.near_collapse},
                 {"by_rounding", report.rounding_only},
                 {"without_signal", report.all.collapsed},
                 {"causes", CausesJson(report.all.causes)},
                 {"with_history", report.with_history},
                 {"observed_acr", report.observed_acr},
                 {"expected_acr", report.expected.rate},
                 {"expected_informs", report.expected_informs},
                 {"expected_low", report.expected.low},
                 {"expected_high", report.expected.high},
                 {"excess_probability", report.excess.probability},
                 {"history_steps", report.history_steps},
                 {"never_right", report.never_right},
                 {"misjudged_sources", report.misjudged_sources},
                 {"acr_100", report.acr_100},
                 {"sigma_acr", report.sigma_acr}});
  object["sources"] = TalliesJson(report.sources);
  object["samplers"] = TalliesJson(report.samplers);
  object["worst_prompts"] = ordered_json::array();
  for (const auto& [id, record] : report.worst_prompts) {
    object["worst_prompts"].push_back({{"prompt", id},
                                       {"source", record.source},
                                       {"groups", record.groups},
                                       {"without_signal", record.collapsed},
                                       {"correct", record.history.correct},
                                       {"scored", record.history.scored}});
  }
  const Conclusion conclusion = Conclude(report);
  object["conclusion"] = {{"name", conclusion.name}, {"evidence", conclusion.evidence}};
  object["remedies"] = RemediesJson(report.remedies);
  object["next_steps"] = NextSteps(report);
  object["steps"] = ordered_json::array();
  for (const StepPoint& point : report.steps) object["steps"].push_back(StepJson(point));
  return JsonLine({{"summary", object}});
}

}  // namespace buttress
