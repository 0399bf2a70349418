// The data of the run's page as JSON, from steps.jsonl, the ledger, the payloads and the logs of
// the run's folder.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/page/run_points.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/samples/sample_reader.h"

namespace buttress {

// Not thread-safe.
class PageData {
 public:
  // `tokenizer` outlives the data. `ask` returns the state of the run within seconds.
  PageData(const RunConfig& config, const Tokenizer& tokenizer,
           std::function<Result<v1::GetRunStatusResponse>()> ask);

  // Returns one JSON object, a megabyte or two at most. Its `points` are those of steps after
  // `after`, or all if `generation` is not the present one. `more` says that there are further
  // points. What cannot be read is null, with the reason in `problems`.
  std::string Get(double after, std::int64_t generation);

 private:
  nlohmann::ordered_json AlarmsJson() const;
  void RefreshSlowly(std::vector<std::string>& problems);
  Result<nlohmann::ordered_json> NewestSamples();
  Result<nlohmann::ordered_json> Unsolved();

  const RunConfig config_;
  const Tokenizer& tokenizer_;
  const std::function<Result<v1::GetRunStatusResponse>()> ask_;
  RunPoints points_;
  std::unique_ptr<SampleReader> samples_;  // null before the ledger could be opened
  double refreshed_ = -1e9;                // monotonic seconds
  nlohmann::ordered_json slow_;            // samples, unsolved, log
};

// Returns the newest warnings and errors of the logs in `folder`, at most `most`, newest first:
// [{"time", "level", "who", "text"}]. Alarms, which the page shows by themselves, are left out.
nlohmann::ordered_json NewestWarnings(const std::string& folder, std::size_t most);

}  // namespace buttress
