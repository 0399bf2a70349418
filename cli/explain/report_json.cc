#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/counts_json.h"
#include "cli/explain/report.h"
#include "lib/explain/advice.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

std::string Line(const ordered_json& object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

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
  object.update({{"near_collapse", point.near_collapse},
                 {"by_rounding", point.rounding_only},
                 {"with_history", point.with_history},
                 {"observed_acr", point.observed_acr},
                 {"expected_acr", point.expected_acr},
                 {"completions", point.completions},
                 {"truncated", point.truncated},
                 {"reward_mean", point.reward_mean},
                 {"length_mean", Known(point.length_mean)},
                 {"surprisal_mean", Known(point.surprisal_mean)},
                 {"similarity", Known(point.similarity)},
                 {"causes", CausesJson(point.causes)}});
  return object;
}

ordered_json TalliesJson(const std::map<std::string, Tally>& tallies) {
  ordered_json object = ordered_json::object();
  for (const auto& [name, tally] : tallies) {
    object[name] = {{"groups", tally.groups},
                    {"without_signal", tally.collapsed},
                    {"causes", CausesJson(tally.causes)}};
  }
  return object;
}

ordered_json RemediesJson(const RemedyReport& remedies) {
  ordered_json object;
  for (const EstimatorRemedy& e : remedies.estimators) {
    object["estimators"].push_back(
        {{"name", e.name},
         {"with_advantage", e.with_advantage},
         {"constant_with_advantage", e.collapsed_with_advantage},
         {"virtual_groups", e.virtual_groups},
         {"push_on_constant_groups", e.push()},
         {"setting", e.setting},
         {"mean_absolute_advantage",
          remedies.completions == 0 ? 0.0
                                    : e.sum_absolute / static_cast<double>(remedies.completions)}});
  }
  object["draws_for_each_informative_group"] = std::isfinite(remedies.draws_for_full_batch)
                                                   ? ordered_json(remedies.draws_for_full_batch)
                                                   : ordered_json();
  object["skip"] = {{"visits", remedies.skip.visits},
                    {"skipped", remedies.skip.skipped},
                    {"constant_again", remedies.skip.rightly}};
  for (const SizeRemedy& size : remedies.sizes)
    object["group_size"].push_back({{"times", size.times}, {"expected_acr", size.expected_acr}});
  return object;
}

}  // namespace

std::string CollapsedGroupJson(const CollapsedGroup& group) {
  ordered_json object = {{"step", group.step},
                         {"prompt", group.prompt_id},
                         {"source", group.source},
                         {"where", group.where},
                         {"collapse", CollapseClassName(group.collapse)},
                         {"cause", InfoOf(group.diagnosis.cause).name},
                         {"evidence", group.diagnosis.evidence}};
  if (!group.sampler.empty()) object["sampler"] = group.sampler;
  return Line(object);
}

std::string ReportJson(const ReportHead& head, const Report& report) {
  ordered_json object = {
      {"path", head.path}, {"description", head.description}, {"remarks", head.remarks}};
  object.update(CountsJson(report.counts));
  object.update({{"completions", report.completions},
                 {"near_collapse", report.near_collapse},
                 {"by_rounding", report.rounding_only},
                 {"without_signal", report.all.collapsed},
                 {"causes", CausesJson(report.all.causes)},
                 {"with_history", report.with_history},
                 {"observed_acr", report.observed_acr},
                 {"expected_acr", report.expected.rate},
                 {"expected_low", report.expected.low},
                 {"expected_high", report.expected.high},
                 {"excess_probability", report.excess.probability},
                 {"history_steps", report.history_steps},
                 {"never_right", report.never_right},
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
  object["remedies"] = RemediesJson(report.remedies);
  object["next_steps"] = NextSteps(report);
  object["steps"] = ordered_json::array();
  for (const StepPoint& point : report.steps) object["steps"].push_back(StepJson(point));
  return Line({{"summary", object}});
}

}  // namespace buttress
