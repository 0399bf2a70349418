#include "cli/train/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "cli/output.h"
#include "lib/base/os/file.h"
#include "lib/ledger/audit.h"
#include "lib/measure/best_model.h"
#include "lib/measure/eval_files.h"
#include "lib/measure/steps_file.h"
#include "lib/rl/collapse/acr.h"
#include "lib/rl/collapse/sources.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

double TokensPerSecond(const std::vector<StepMeasurements>& steps) {
  if (steps.size() < 2) return 0;
  const double seconds = steps.back().time_unix - steps.front().time_unix;
  const double tokens = std::accumulate(
      steps.begin() + 1, steps.end(), 0.0,
      [](double sum, const StepMeasurements& step) { return sum + step.generated_tokens; });
  return seconds > 0 ? tokens / seconds : 0;
}

// What the learner (rank 0) did with its time.
struct Pace {
  double wall = 0, busy = 0, fresh = 0;                   // accepted tokens per second
  double waited = 0, groups = 0, weights = 0, peers = 0;  // shares of the time
  double token_age = StepMeasurements::kNotMeasured;      // mean, in versions
};

Pace PaceOf(const std::vector<StepMeasurements>& steps) {
  double tokens = 0, fresh = 0, ages = 0, seconds = 0, busy = 0;
  Pace pace;
  for (const StepMeasurements& step : steps) {
    seconds += step.seconds_step;
    busy += step.seconds_busy;
    pace.groups += step.seconds_wait + step.seconds_fetch;
    pace.weights += step.seconds_wait_weights;
    pace.peers += step.seconds_wait_peers;
    if (!(step.accepted_tokens > 0)) continue;
    tokens += step.accepted_tokens;
    fresh += step.accepted_tokens * step.freshness;
    ages += step.accepted_tokens * step.token_age_mean;
  }
  if (tokens > 0) pace.token_age = ages / tokens;
  if (!(seconds > 0)) return pace;
  pace.wall = tokens / seconds;
  pace.fresh = fresh / seconds;
  if (busy > 0) pace.busy = tokens / busy;
  for (double* share : {&pace.groups, &pace.weights, &pace.peers})
    pace.waited += * share /= seconds;
  return pace;
}

nlohmann::ordered_json ToJson(const Pace& pace) {
  return {{"wall_tokens_per_second", pace.wall},
          {"busy_tokens_per_second", pace.busy},
          {"fresh_tokens_per_second", pace.fresh},
          {"token_age_mean", pace.token_age},
          {"waiting_share",
           {{"groups", pace.groups}, {"weights", pace.weights}, {"peers", pace.peers}}}};
}

std::string PaceText(const Pace& pace) {
  return fmt::format(
      "accepted tokens/s: {:.0f} fresh, {:.0f} by the wall clock, {:.0f} of the busy time; the "
      "learner waited {:.0f} % (groups {:.0f}, weights {:.0f}, peers {:.0f})\n",
      pace.fresh, pace.wall, pace.busy, 100 * pace.waited, 100 * pace.groups, 100 * pace.weights,
      100 * pace.peers);
}

// What dynamic sampling and masks cost, over the run.
struct Price {
  double groups = 0, kept_groups = 0, tokens = 0, kept_tokens = 0;
  // Mean raw rewards by group, and ACR, of all drawn groups and of those that were kept.
  double reward = 0, kept_reward = 0, acr = 0, kept_acr = 0;
};

// Adds `value` times `weight` to `sum` if both were measured.
void AddWeighted(double value, double weight, double& sum, double& weights) {
  if (!std::isfinite(value) || !(weight > 0)) return;
  sum += value * weight;
  weights += weight;
}

Price PriceOf(const std::vector<StepMeasurements>& steps) {
  Price price;
  double drawn = 0, kept = 0, comparable = 0, kept_comparable = 0;
  for (const StepMeasurements& step : steps) {
    price.groups += step.groups;
    price.kept_groups += step.kept_groups;
    price.tokens += step.drawn_tokens;
    price.kept_tokens += step.kept_tokens;
    AddWeighted(step.drawn_raw_reward_mean, step.groups, price.reward, drawn);
    AddWeighted(step.kept_raw_reward_mean, step.kept_groups, price.kept_reward, kept);
    AddWeighted(step.acr, step.groups - step.unscorable_groups, price.acr, comparable);
    AddWeighted(step.kept_acr, step.kept_groups, price.kept_acr, kept_comparable);
  }
  const auto mean = [](double& sum, double weight) {
    sum = weight > 0 ? sum / weight : StepMeasurements::kNotMeasured;
  };
  mean(price.reward, drawn);
  mean(price.kept_reward, kept);
  mean(price.acr, comparable);
  mean(price.kept_acr, kept_comparable);
  return price;
}

nlohmann::ordered_json ToJson(const Price& price) {
  return {{"groups_drawn", price.groups}, {"groups_kept", price.kept_groups},
          {"tokens_drawn", price.tokens}, {"tokens_kept", price.kept_tokens},
          {"reward_drawn", price.reward}, {"reward_kept", price.kept_reward},
          {"acr_drawn", price.acr},       {"acr_kept", price.kept_acr}};
}

// Empty where every group that was drawn was kept.
std::string PriceText(const Price& price) {
  if (!(price.kept_groups < price.groups)) return "";
  return fmt::format(
      "drawn {:.0f} groups and {:.0f} tokens, kept {:.0f} and {:.0f} ({:.2f} tokens drawn for each "
      "kept); raw reward {:.3f} drawn, {:.3f} kept; ACR {:.3f} drawn, {:.3f} kept\n",
      price.groups, price.tokens, price.kept_groups, price.kept_tokens,
      price.tokens / price.kept_tokens, price.reward, price.kept_reward, price.acr, price.kept_acr);
}

nlohmann::ordered_json SourcesJson(const std::map<std::string, CollapseCounts>& sources) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [source, counts] : sources) {
    json[source] = {{"groups", counts.groups},         {"all_correct", counts.all_correct},
                    {"all_wrong", counts.all_wrong},   {"other_constant", counts.other_constant},
                    {"unscorable", counts.unscorable}, {"acr", AcrJson(counts)}};
  }
  return json;
}

// "4 collapsed (ACR 1.000), 476 unscorable", the latter where there are some.
std::string CollapseText(const CollapseCounts& counts) {
  std::string text = fmt::format("{} collapsed (ACR {})", counts.constant(), AcrText(counts, 3));
  if (counts.unscorable > 0) text += fmt::format(", {} unscorable", counts.unscorable);
  return text;
}

// A line for each source; empty for one.
std::string SourcesText(const std::map<std::string, CollapseCounts>& sources) {
  std::string text;
  for (const auto& [source, counts] : sources) {
    text +=
        fmt::format("  source {}: {} groups, {}\n", source, counts.groups, CollapseText(counts));
  }
  return sources.size() > 1 ? text : "";
}

nlohmann::ordered_json ToJson(const std::vector<EvalRow>& evals) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const EvalRow& row : evals) json.push_back(nlohmann::ordered_json::parse(EvalToJson(row)));
  return json;
}

// The first, the best and the last evaluation; empty without one.
std::string EvalsText(const std::vector<EvalRow>& evals) {
  std::vector<EvalRow> scored;
  std::ranges::copy_if(evals, std::back_inserter(scored),
                       [](const EvalRow& row) { return std::isfinite(row.accuracy); });
  if (scored.empty()) return "";
  const EvalRow& best = *std::ranges::max_element(scored, {}, &EvalRow::accuracy);
  const auto text = [](const EvalRow& row) {
    return fmt::format("{:.1f} % after step {}", 100 * row.accuracy, row.step);
  };
  return fmt::format(
      "held-out accuracy during the run, {} evaluations: first {}, best {}, last {}\n",
      scored.size(), text(scored.front()), text(best), text(scored.back()));
}

std::string BestText(const std::optional<BestMark>& best) {
  if (!best) return "";
  return fmt::format("best model: of step {}, {} {:.3f}\n", best->step, best->by, best->value);
}

// The parts of the folder of a run, by name.
std::string PlacesText(const std::string& out, bool has_best) {
  std::vector<std::pair<const char*, const char*>> places = {{"model", "model/"},
                                                             {"checkpoint", "checkpoint/"},
                                                             {"ledger", "ledger.db"},
                                                             {"summary", "summary.json"},
                                                             {"logs", "logs/"}};
  if (has_best) places.insert(places.begin() + 1, {"best model", "best/"});
  std::string text;
  for (const auto& [what, path] : places)
    text += fmt::format("  {:<11}{}\n", what, JoinPath(out, path));
  return text;
}

std::string ClosingText(const RunConfig& config, const RunSummary& summary,
                        const CollapseCounts& collapse,
                        const std::map<std::string, CollapseCounts>& sources,
                        const SkippedPrompts& skipped, const std::vector<StepMeasurements>& steps,
                        const std::vector<EvalRow>& evals, const std::optional<BestMark>& best) {
  std::string text = fmt::format("\n{} steps in {:.0f} s; {} groups accepted, {}\n", steps.size(),
                                 summary.wall_seconds, collapse.groups, CollapseText(collapse));
  text += SourcesText(sources) + SkippedText(skipped) + PriceText(PriceOf(steps)) +
          PaceText(PaceOf(steps));
  if (summary.before && summary.after) {
    text += fmt::format("held-out accuracy, greedy, {} prompts: {} before, {} after\n",
                        summary.after->prompts, summary.before->Text(), summary.after->Text());
  }
  text += EvalsText(evals) + BestText(best);
  return text + PlacesText(config.local.out, best.has_value());
}

}  // namespace

std::string EvalLine(const EvalRow& row) {
  const std::string accuracy = std::isfinite(row.accuracy)
                                   ? row.completions == row.prompts
                                         ? Accuracy{row.accuracy, row.prompts}.Text()
                                         : fmt::format("{:.1f} %", 100 * row.accuracy)
                                   : "no verdict";
  return fmt::format(
      "held-out accuracy after step {}: {}; {} completions of {} prompts, {:.0f} % cut", row.step,
      accuracy, row.completions, row.prompts, 100 * row.truncated_share());
}

Result<Learned> ReadLearned(const std::string& out, const RunSummary& summary) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps,
                            ReadSteps(JoinPath(out, "steps.jsonl")));
  return LearnedOf(steps, summary.before.value_or(Accuracy{}).by_row,
                   summary.after.value_or(Accuracy{}).by_row, out);
}

Result<std::string> WriteSummary(const RunConfig& config, const RunSummary& summary) {
  const std::string& out = config.local.out;
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<StepMeasurements> steps,
                            ReadSteps(JoinPath(out, "steps.jsonl")));
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<EvalRow> evals, ReadEvals(out));
  BUTTRESS_ASSIGN_OR_RETURN(const std::optional<BestMark> best, ReadBest(out));
  BUTTRESS_ASSIGN_OR_RETURN(const auto ledger, LedgerReader::Open(JoinPath(out, "ledger.db")));
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerAudit audit, AuditLedger(*ledger));
  if (const std::vector<std::string> violations = audit.violations(); !violations.empty()) {
    return DataLoss(
        fmt::format("the ledger contradicts itself: {} ({} violations in total); keep {} and "
                    "report it",
                    violations.front(), violations.size(), out));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const auto by_source, ledger->Skipped());
  const SkippedPrompts skipped = SkippedPromptsOf(by_source);
  const CollapseCounts& collapse = audit.recounted;
  SourceNames names;
  const auto sources = ReportedSources(audit.recounted_by_source, names);
  nlohmann::ordered_json json;
  json["run"] = config.run.name;
  if (summary.before) json["accuracy_before"] = summary.before->accuracy;
  if (summary.after) json["accuracy_after"] = summary.after->accuracy;
  if (summary.after) json["held_out_prompts"] = summary.after->prompts;
  if (!evals.empty()) json["evaluations"] = ToJson(evals);
  if (best) json["best"] = {{"step", best->step}, {"by", best->by}, {"value", best->value}};
  json["learned"] = LearnedJson(summary.learned);
  json["steps"] = steps.size();
  json["groups_accepted"] = collapse.groups;
  json["groups_collapsed"] = collapse.constant();
  json["groups_all_correct"] = collapse.all_correct;
  json["groups_all_wrong"] = collapse.all_wrong;
  json["groups_other_constant"] = collapse.other_constant;
  json["groups_unscorable"] = collapse.unscorable;
  json["acr"] = AcrJson(collapse);
  json["sources"] = SourcesJson(sources);
  json["skipped"] = skipped;
  json["dynamic_sampling"] = ToJson(PriceOf(steps));
  json["tokens_per_second"] = TokensPerSecond(steps);
  json["speed"] = ToJson(PaceOf(steps));
  json["wall_seconds"] = summary.wall_seconds;
  json["restarts"] = summary.restarts;
  json["peak_rss_bytes"] = summary.peak_rss_bytes;
  json["collective"] = ChoiceName(config.local.learner.collective);
  json["engine"] = ChoiceName(config.local.worker.engine);
  json["advantage"] = ChoiceName(config.run.algorithm.advantage);
  BUTTRESS_RETURN_IF_ERROR(WriteFileAtomic(JoinPath(out, "summary.json"), json.dump(2) + "\n"));
  return ClosingText(config, summary, collapse, sources, skipped, steps, evals, best);
}

}  // namespace buttress
