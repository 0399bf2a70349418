// Reads one line of a trainer's log of metrics.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace buttress {

// The numbers of one logged step by name; those of nested objects by names with slashes.
struct MetricLine {
  std::optional<std::int64_t> step;
  std::map<std::string, double> values;
};

// Reads an object of JSON: a line of JSONL, as {"step": 3, "data": {"reward/mean": 0.5}}, or an
// element of log_history in trainer_state.json. Texts that are numbers count as numbers.
MetricLine ReadMetricObject(const nlohmann::json& object);

// Reads a line of any of these forms; other lines give no values. Pure.
//   {"step": 3, "reward": 0.5}                           JSON
//   (TaskRunner pid=7) step:3 - critic/score/mean:0.5    the console of verl
//   Global step 3: {'reward': 0.5, 'kl': '1e-3'}         a dict of Python: OpenRLHF and TRL
MetricLine ReadMetricLine(std::string_view line);

}  // namespace buttress
