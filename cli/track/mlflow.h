// Sends the curves of a run to an MLflow tracking server (MLflow REST API 2.0).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/track/tracker.h"
#include "lib/http/http_client.h"

namespace buttress {

struct MlflowOptions {
  std::string url;         // http://host:5000
  std::string token;       // bearer; empty: none
  std::string experiment;  // created if the server has none of this name
  std::string run_name;
  std::map<std::string, std::string> settings;  // shown as parameters
  std::string state_path;  // file that remembers the run and the last step that was sent
};

// MLflow accepts letters, digits and "_-. /" in the name of a metric; other bytes become '_'.
std::string MlflowName(std::string_view name);

// The run of the state file goes on if it is one of the same server; else a new run is made with
// the first steps. A step that is trained again is added to the points of before.
class MlflowTracker : public Tracker {
 public:
  // kDataLoss if the state file is damaged. Asks the server nothing.
  static Result<std::unique_ptr<MlflowTracker>> Create(MlflowOptions options);

  // Errors name the URL, and what the server says.
  Status Add(std::span<const StepMeasurements> steps) override;
  // Sends each of them once, whatever starts again.
  Status AddEvaluations(std::span<const EvalRow> rows) override;
  Status End(RunEnd end) override;
  std::string Place() const override;

 private:
  explicit MlflowTracker(MlflowOptions options) : options_(std::move(options)) {}

  Status ReadState();
  Status WriteState() const;
  // Finds or makes the experiment and the run.
  Status Open(double first_time);
  Result<std::string> ExperimentId();
  Status CreateRun(const std::string& experiment_id, double first_time);
  Status SetRunning();
  Status SendSettings();
  bool Sent(const StepMeasurements& step) const;
  // Sends the metrics of whole steps, the last of which is `last`.
  Status Send(const std::vector<nlohmann::json>& metrics, const StepMeasurements& last);
  Status SendMetrics(const std::vector<nlohmann::json>& metrics);
  Result<nlohmann::json> Post(const std::string& method, const nlohmann::json& request);

  const MlflowOptions options_;
  HttpClient http_;
  bool open_ = false;
  std::string run_id_;
  double last_step_ = 0;       // that the server has
  double last_time_ = 0;       // at its end
  double last_eval_time_ = 0;  // of the newest evaluation without a step that the server has
};

}  // namespace buttress
