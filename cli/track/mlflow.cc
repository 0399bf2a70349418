#include "cli/track/mlflow.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/bounded_json.h"
#include "lib/base/file.h"

namespace buttress {
namespace {

using nlohmann::json;

// Bounds of a log-batch request, and of the texts that older servers store.
constexpr std::size_t kMaxMetrics = 1000, kMaxSettings = 100, kMaxSettingBytes = 500;
constexpr HttpDeadlines kDeadlines = {
    .connect_ms = 5000, .first_byte_ms = 30000, .idle_ms = 30000, .whole_ms = 60000};
constexpr std::size_t kMaxReplyBytes = std::size_t{1} << 20;

std::int64_t Milliseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1000); }

json MetricJson(const Scalar& scalar, double time_unix) {
  return {{"key", MlflowName(scalar.name)},
          {"value", scalar.value},
          {"timestamp", Milliseconds(time_unix)},
          {"step", static_cast<std::int64_t>(scalar.step)}};
}

}  // namespace

std::string MlflowName(std::string_view name) {
  std::string accepted(name);
  for (char& c : accepted) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && std::string_view("_-. /").find(c) == std::string_view::npos) c = '_';
  }
  return accepted;
}

Result<std::unique_ptr<MlflowTracker>> MlflowTracker::Create(MlflowOptions options) {
  std::unique_ptr<MlflowTracker> tracker(new MlflowTracker(std::move(options)));
  BUTTRESS_RETURN_IF_ERROR(tracker->ReadState());
  return tracker;
}

Status MlflowTracker::ReadState() {
  const Result<std::string> text = ReadFile(options_.state_path);
  if (text.status().code() == StatusCode::kNotFound) return OkStatus();
  if (!text.ok()) return text.status();
  const json state = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&state](const char* key, auto is_of_type) {
    return state.is_object() && state.contains(key) && (state[key].*is_of_type)();
  };
  if (!has("url", &json::is_string) || !has("run_id", &json::is_string) ||
      !has("last_step", &json::is_number) || !has("last_time_unix", &json::is_number)) {
    return DataLoss(options_.state_path +
                    " is damaged; delete it, and the steps go to a new run of the server");
  }
  if (state["url"] != options_.url) return OkStatus();
  run_id_ = state["run_id"];
  last_step_ = state["last_step"];
  last_time_ = state["last_time_unix"];
  if (has("last_eval_time_unix", &json::is_number)) last_eval_time_ = state["last_eval_time_unix"];
  return OkStatus();
}

Status MlflowTracker::WriteState() const {
  const json state = {{"url", options_.url},
                      {"run_id", run_id_},
                      {"last_step", last_step_},
                      {"last_time_unix", last_time_},
                      {"last_eval_time_unix", last_eval_time_}};
  return WriteFileAtomic(options_.state_path, state.dump() + "\n");
}

Result<json> MlflowTracker::Post(const std::string& method, const json& request) {
  HttpRequest http;
  http.url = options_.url + "/api/2.0/mlflow/" + method;
  http.json = request.dump(-1, ' ', false, json::error_handler_t::replace);
  http.bearer = options_.token;
  http.deadlines = kDeadlines;
  http.max_body_bytes = kMaxReplyBytes;
  const std::string url = http.url;
  const Result<HttpReply> reply = std::move(http_.Fetch({std::move(http)}).front());
  if (!reply.ok()) return reply.status();
  if (reply->status != 200) {
    return Unavailable(
        fmt::format("{}: status {}: {}", url, reply->status, reply->body.substr(0, 300)));
  }
  Result<json> answer = ParseBoundedJson(reply->body);
  if (!answer.ok()) return answer.status().Annotate(url);
  return answer;
}

Result<std::string> MlflowTracker::ExperimentId() {
  BUTTRESS_ASSIGN_OR_RETURN(
      const json found,
      Post("experiments/search",
           {{"filter", "name = '" + options_.experiment + "'"}, {"max_results", 1}}));
  json answer = found.value("experiments", json::array());
  if (answer.is_array() && !answer.empty() && answer[0].is_object()) {
    answer = json(answer[0]);
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(answer, Post("experiments/create", {{"name", options_.experiment}}));
  }
  const json id = answer.value("experiment_id", json());
  if (!id.is_string()) return Unavailable(options_.url + ": an experiment without 'experiment_id'");
  return id.get<std::string>();
}

Status MlflowTracker::CreateRun(const std::string& experiment_id, double first_time) {
  BUTTRESS_ASSIGN_OR_RETURN(
      const json made,
      Post("runs/create", {{"experiment_id", experiment_id},
                           {"run_name", options_.run_name},
                           {"start_time", Milliseconds(first_time)},
                           {"tags", {{{"key", "mlflow.source.name"}, {"value", "buttress"}}}}}));
  const json::json_pointer id("/run/info/run_id");
  if (!made.contains(id) || !made[id].is_string())
    return Unavailable(options_.url + ": runs/create answers without 'run_id'");
  run_id_ = made[id];
  last_step_ = last_eval_time_ = 0;
  return SendSettings();
}

Status MlflowTracker::SendSettings() {
  std::vector<json> params;
  for (const auto& [key, value] : options_.settings)
    params.push_back({{"key", key}, {"value", value.substr(0, kMaxSettingBytes)}});
  for (std::size_t begin = 0; begin < params.size(); begin += kMaxSettings) {
    const auto first = params.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        params.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kMaxSettings, params.size()));
    const Result<json> sent =
        Post("runs/log-batch", {{"run_id", run_id_}, {"params", std::vector<json>(first, last)}});
    if (!sent.ok()) return sent.status();
  }
  return OkStatus();
}

Status MlflowTracker::SetRunning() {
  const auto answer = Post("runs/update", {{"run_id", run_id_}, {"status", "RUNNING"}});
  return answer.status();
}

Status MlflowTracker::Open(double first_time) {
  if (!run_id_.empty()) {
    BUTTRESS_RETURN_IF_ERROR(SetRunning());
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string experiment_id, ExperimentId());
    BUTTRESS_RETURN_IF_ERROR(CreateRun(experiment_id, first_time));
    BUTTRESS_RETURN_IF_ERROR(WriteState());
  }
  open_ = true;
  return OkStatus();
}

Status MlflowTracker::SendMetrics(const std::vector<json>& metrics) {
  return Post("runs/log-batch", {{"run_id", run_id_}, {"metrics", metrics}}).status();
}

Status MlflowTracker::Send(const std::vector<json>& metrics, const StepMeasurements& last) {
  BUTTRESS_RETURN_IF_ERROR(SendMetrics(metrics));
  last_step_ = last.step;
  last_time_ = last.time_unix;
  return WriteState();
}

// A step that is trained again has an earlier number and a later time.
bool MlflowTracker::Sent(const StepMeasurements& step) const {
  return step.step <= last_step_ && step.time_unix <= last_time_;
}

Status MlflowTracker::Add(std::span<const StepMeasurements> steps) {
  if (!open_ && !steps.empty()) BUTTRESS_RETURN_IF_ERROR(Open(steps.front().time_unix));
  std::vector<json> metrics;
  const StepMeasurements* last = nullptr;
  for (const StepMeasurements& step : steps) {
    if (Sent(step)) continue;
    const std::vector<Scalar> scalars = ScalarsOf(step);
    if (last != nullptr && metrics.size() + scalars.size() > kMaxMetrics) {
      BUTTRESS_RETURN_IF_ERROR(Send(metrics, *last));
      metrics.clear();
    }
    for (const Scalar& scalar : scalars) metrics.push_back(MetricJson(scalar, step.time_unix));
    last = &step;
  }
  return metrics.empty() ? OkStatus() : Send(metrics, *last);
}

Status MlflowTracker::AddEvaluations(std::span<const EvalRow> rows) {
  for (const EvalRow& row : rows) {
    if (row.time_unix <= last_eval_time_) continue;
    if (!open_) BUTTRESS_RETURN_IF_ERROR(Open(row.time_unix));
    std::vector<json> metrics;
    for (const Scalar& scalar : ScalarsOf(row))
      metrics.push_back(MetricJson(scalar, row.time_unix));
    BUTTRESS_RETURN_IF_ERROR(SendMetrics(metrics));
    last_eval_time_ = row.time_unix;
    BUTTRESS_RETURN_IF_ERROR(WriteState());
  }
  return OkStatus();
}

Status MlflowTracker::End(RunEnd end) {
  if (run_id_.empty()) return OkStatus();
  return Post("runs/update",
              {{"run_id", run_id_}, {"status", end == RunEnd::kFinished ? "FINISHED" : "KILLED"}})
      .status();
}

std::string MlflowTracker::Place() const {
  return options_.url + ", experiment " + options_.experiment;
}

}  // namespace buttress
