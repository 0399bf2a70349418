// The collapse rate of a run of another trainer, from its log of metrics. A log has rates and no
// groups, so it shows how much collapsed, and not why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/explain/metric_line.h"
#include "lib/base/report/status.h"

namespace buttress {

// What a line of a log says about its step.
struct CollapsePoint {
  std::int64_t step = 0;
  std::optional<double> acr;          // share of groups whose rewards are equal
  std::optional<double> all_correct;  // the parts of it, where the trainer tells them apart
  std::optional<double> all_wrong;
  std::optional<double> dropped;  // groups, where the log has their number and not their share
  std::optional<double> reward;
  std::optional<double> length;
};

struct MetricLog {
  std::string path;
  std::string trainer;             // whose names were found
  std::vector<std::string> names;  // of the metrics that gave the rates
  std::vector<CollapsePoint> points;
};

// Reads a log of metrics: JSONL, trainer_state.json, or the text that a trainer printed; or of a
// folder trainer_state.json, that of its last checkpoint, or the first *.jsonl or *.log that is
// one. nullopt if there is none. kInvalidArgument for a file that cannot be read;
// kFailedPrecondition, with what can be read instead, for a printed log or trainer_state.json that
// has rewards and no rate of collapse.
Result<std::optional<MetricLog>> ReadMetricLog(const std::string& path);

// A report for a terminal, and {"summary": {...}} as a line.
std::string MetricLogText(const MetricLog& log);
std::string MetricLogJson(const MetricLog& log);

}  // namespace buttress
