// What a finished run leaves: summary.json, curves.svg, and the text that ends `buttress launch`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lib/base/status.h"
#include "lib/config/run_config.h"

namespace buttress {

struct Accuracy {
  double accuracy = 0;  // correct / prompts
  std::int64_t prompts = 0;
};

// From the JSON that `rollout_worker eval --json` writes.
Result<Accuracy> ReadAccuracy(const std::string& path);

struct RunSummary {
  std::optional<Accuracy> before;
  std::optional<Accuracy> after;
  double wall_seconds = 0;
  int restarts = 0;
  std::map<std::string, std::int64_t> peak_rss_bytes;
};

// Adds what the ledger and steps.jsonl know (the run must be stopped), writes <out>/summary.json
// and <out>/curves.svg, and returns the closing text.
Result<std::string> WriteSummary(const RunConfig& config, const RunSummary& summary);

}  // namespace buttress
