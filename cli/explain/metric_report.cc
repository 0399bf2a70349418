// The report of explain about a log of metrics.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/explain/metric_log.h"
#include "lib/rl/collapse/collapse_metrics.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using Value = std::optional<double> CollapsePoint::*;

constexpr std::size_t kRows = 12;  // of the table over time

std::optional<double> MeanOf(std::span<const CollapsePoint> points, Value value) {
  double sum = 0;
  std::size_t count = 0;
  for (const CollapsePoint& point : points) {
    if (!(point.*value)) continue;
    sum += *(point.*value);
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

std::string Cell(std::span<const CollapsePoint> points, Value value, int decimals) {
  const std::optional<double> mean = MeanOf(points, value);
  return mean ? fmt::format("{:.{}f}", *mean, decimals) : "-";
}

std::vector<double> Series(const MetricLog& log) {
  std::vector<double> acr;
  for (const CollapsePoint& point : log.points) {
    if (point.acr) acr.push_back(*point.acr);
  }
  return acr;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string OverTime(const MetricLog& log) {
  std::string text =
      "\n     steps          ACR  all-correct  all-wrong   dropped    reward    length\n";
  const std::size_t rows = std::min(kRows, log.points.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t begin = row * log.points.size() / rows;
    const std::size_t end = (row + 1) * log.points.size() / rows;
    const auto part = std::span(log.points).subspan(begin, end - begin);
    text += fmt::format(
        "{:7} - {:<7} {:>5}  {:>11}  {:>9}  {:>8}  {:>8}  {:>8}\n", part.front().step,
        part.back().step, Cell(part, &CollapsePoint::acr, 2),
        Cell(part, &CollapsePoint::all_correct, 2), Cell(part, &CollapsePoint::all_wrong, 2),
        Cell(part, &CollapsePoint::dropped, 1), Cell(part, &CollapsePoint::reward, 3),
        Cell(part, &CollapsePoint::length, 0));
  }
  return text;
}

ordered_json Json(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

}  // namespace

std::string MetricLogText(const MetricLog& log) {
  std::string text =
      fmt::format("{}: log of {}, {} steps\n", log.path, log.trainer, log.points.size());
  text += "collapse is read from " + Joined(log.names) + "\n";
  const std::vector<double> acr = Series(log);
  if (acr.empty()) {
    text +=
        "the log has the number of groups that were dropped and not their share, so it has no "
        "ACR\n";
  } else {
    text += fmt::format(
        "ACR {:.3f} on average, {:.3f} at the end; ACR-100 {:.3f}, sigma-ACR "
        "{:.3f}\n",
        *MeanOf(log.points, &CollapsePoint::acr), acr.back(), Acr100(acr), SigmaAcr(acr));
  }
  text += OverTime(log);
  return text +
         "\na log has rates and no groups: the causes need the completions, as verl writes them "
         "with trainer.rollout_data_dir and TRL with log_completions\n";
}

std::string MetricLogJson(const MetricLog& log) {
  ordered_json steps = ordered_json::array();
  for (const CollapsePoint& point : log.points) {
    steps.push_back({{"step", point.step},
                     {"acr", Json(point.acr)},
                     {"all_correct", Json(point.all_correct)},
                     {"all_wrong", Json(point.all_wrong)},
                     {"dropped", Json(point.dropped)},
                     {"reward", Json(point.reward)},
                     {"length", Json(point.length)}});
  }
  const std::vector<double> acr = Series(log);
  ordered_json summary = {
      {"log", log.path},          {"trainer", log.trainer},
      {"metrics", log.names},     {"acr", Json(MeanOf(log.points, &CollapsePoint::acr))},
      {"acr_100", nullptr},       {"sigma_acr", nullptr},
      {"steps", std::move(steps)}};
  if (!acr.empty()) summary["acr_100"] = Acr100(acr);
  if (!acr.empty()) summary["sigma_acr"] = SigmaAcr(acr);
  return ordered_json{{"summary", std::move(summary)}}.dump() + "\n";
}

}  // namespace buttress
