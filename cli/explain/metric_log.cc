#include "cli/explain/metric_log.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/explain/dump_row.h"
#include "lib/base/os/file.h"
#include "lib/data/line_reader.h"

namespace buttress {
namespace {

// How other trainers name the collapse of groups in their logs.
enum class MetricUse : std::uint8_t {
  kCollapsed,    // share of groups with equal rewards
  kInformative,  // share of the other groups
  kAllCorrect,   // share of groups with equal rewards, all right
  kAllWrong,     // and all wrong
  kDropped,      // number of groups with equal rewards
};

struct MetricName {
  std::string_view name;  // a metric has this name, or ends in a slash and it
  MetricUse use;
  std::string_view trainer;
  double scale = 1;             // of the value
  std::string_view whole = {};  // the metric to divide by; empty: none
};

using enum MetricUse;

// Names for the same use are tried in this order.
constexpr MetricName kNames[] = {
    {"frac_reward_zero_std", kCollapsed, "TRL"},
    {"rollout_reward/group_zero_std_frac", kCollapsed, "torchtitan"},
    {"rollout_reward/group_zero_std_frac/mean", kCollapsed, "torchtitan"},
    {"training/n_zero_adv_groups", kCollapsed, "Agent Lightning", 1, "training/n_groups"},
    {"training/filter_groups/filtered_groups", kCollapsed, "verl", 1,
     "training/filter_groups/generated_groups"},
    {"dynamic_filtering_pass_rate", kInformative, "OpenRLHF", 0.01},
    {"async/keep_rate", kInformative, "SkyRL"},
    {"fractions/effective", kInformative, "rLLM"},
    {"fractions/too_easy", kAllCorrect, "rLLM"},
    {"fractions/too_hard", kAllWrong, "rLLM"},
    {"by_group/frac_mixed", kInformative, "tinker-cookbook"},
    {"by_group/frac_all_good", kAllCorrect, "tinker-cookbook"},
    {"by_group/frac_all_bad", kAllWrong, "tinker-cookbook"},
    {"baseline_reward/pct_mixed", kInformative, "NeMo RL", 0.01},
    {"baseline_reward/pct_1", kAllCorrect, "NeMo RL", 0.01},
    {"baseline_reward/pct_0", kAllWrong, "NeMo RL", 0.01},
    {"solved_all", kAllCorrect, "prime-rl"},
    {"solved_none", kAllWrong, "prime-rl"},
    {"data/step_num_groups_trainable", kInformative, "ART", 1, "data/step_num_groups_submitted"},
    {"training/filter_groups/evicted_samples", kDropped, "verl"},
    {"reward/num_zero_variance_filtered", kDropped, "SkyRL"},
    {"async/num_groups_dropped", kDropped, "SkyRL"},
    {"training_sample_builder/num_groups_dropped_zero_std", kDropped, "torchtitan"},
    {"training_sample_builder/num_groups_dropped_zero_std/sum", kDropped, "torchtitan"},
};

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kStateBytesMax = std::int64_t{256} << 20;
constexpr std::size_t kPointsMax = 1'000'000;

// The value of a metric of this name, or one that ends in it.
std::optional<double> Find(const MetricLine& line, std::string_view name) {
  for (const auto& [key, value] : line.values) {
    if (key == name) return value;
    if (key.size() > name.size() && key.ends_with(name) && key[key.size() - name.size() - 1] == '/')
      return value;
  }
  return std::nullopt;
}

std::optional<double> ValueOf(const MetricLine& line, const MetricName& metric) {
  const std::optional<double> value = Find(line, metric.name);
  if (!value || metric.whole.empty())
    return value ? std::optional(*value * metric.scale) : std::nullopt;
  const std::optional<double> whole = Find(line, metric.whole);
  if (!whole || *whole <= 0) return std::nullopt;
  return *value * metric.scale / *whole;
}

std::optional<double> FirstOf(const MetricLine& line, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto value = Find(line, name)) return value;
  }
  return std::nullopt;
}

class LogBuilder {
 public:
  explicit LogBuilder(const std::string& path) { log_.path = path; }

  // `is_log` says that nothing but a log has such lines.
  void Add(const MetricLine& line, bool is_log) {
    CollapsePoint point;
    bool found = false;
    for (const MetricName& metric : kNames) {
      const std::optional<double> value = ValueOf(line, metric);
      if (!value) continue;
      found = Use(metric, *value, point) || found;
    }
    const std::optional<double> reward =
        FirstOf(line, {"reward", "critic/rewards/mean", "critic/score/mean", "reward/mean",
                       "rollout_reward/_mean"});
    if (!found && reward && is_log) ++without_rate_;
    if (!found || log_.points.size() == kPointsMax) return;
    if (!point.acr && point.all_correct && point.all_wrong)
      point.acr = *point.all_correct + *point.all_wrong;
    point.step = line.step.value_or(static_cast<std::int64_t>(log_.points.size()) + 1);
    point.reward = reward;
    point.length = FirstOf(line, {"completions/mean_length", "response_length/mean",
                                  "response_length", "completion_length"});
    log_.points.push_back(point);
  }

  std::optional<MetricLog> Take() {
    if (log_.points.empty()) return std::nullopt;
    return std::move(log_);
  }

  // The error of a file that is surely a log.
  Status Lacks() const {
    if (without_rate_ == 0 || !log_.points.empty()) return OkStatus();
    return FailedPrecondition(
        log_.path + " is a log of " + std::to_string(without_rate_) +
        " steps without a rate of collapse; verl logs one with algorithm.filter_groups, TRL with "
        "GRPO's frac_reward_zero_std. For the causes give the completions, as verl writes them "
        "with trainer.rollout_data_dir and TRL with log_completions");
  }

 private:
  bool Use(const MetricName& metric, double value, CollapsePoint& point) {
    std::optional<double>& place = metric.use == MetricUse::kAllCorrect ? point.all_correct
                                   : metric.use == MetricUse::kAllWrong ? point.all_wrong
                                   : metric.use == MetricUse::kDropped  ? point.dropped
                                                                        : point.acr;
    if (place) return false;
    place = metric.use == MetricUse::kInformative ? 1 - value : value;
    if (log_.trainer.empty()) log_.trainer = metric.trainer;
    const std::string name(metric.name);
    if (std::ranges::find(log_.names, name) == log_.names.end()) log_.names.push_back(name);
    return true;
  }

  MetricLog log_;
  std::int64_t without_rate_ = 0;  // lines with a reward
};

Result<std::optional<MetricLog>> ReadLines(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader, LineReader::Open(path));
  LogBuilder builder(path);
  while (true) {
    std::string_view line;
    BUTTRESS_ASSIGN_OR_RETURN(const bool found, reader->Next(line));
    if (!found) break;
    // An object of JSON may as well be a row of completions.
    builder.Add(ReadMetricLine(line), !line.starts_with("{\""));
  }
  BUTTRESS_RETURN_IF_ERROR(builder.Lacks());
  return builder.Take();
}

// The state of a Hugging Face Trainer, which is one object over many lines.
Result<std::optional<MetricLog>> ReadState(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kStateBytesMax));
  const json state = ParseLine(text);
  if (!state.is_object() || !state.contains("log_history") || !state["log_history"].is_array())
    return std::optional<MetricLog>();
  LogBuilder builder(path);
  for (const json& entry : state["log_history"]) builder.Add(ReadMetricObject(entry), true);
  BUTTRESS_RETURN_IF_ERROR(builder.Lacks());
  return builder.Take();
}

Result<std::optional<MetricLog>> ReadLog(const std::string& path) {
  if (path.ends_with(".json")) {
    auto state = ReadState(path);
    if (!state.ok() || *state) return state;
  }
  return ReadLines(path);
}

std::int64_t NumberBehindDash(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return std::atoll(name.c_str() + name.rfind('-') + 1);
}

// The files of a folder that may be logs, the best one first.
std::vector<std::string> Candidates(const std::string& folder) {
  std::vector<std::string> files;
  std::vector<fs::path> checkpoints;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".jsonl" || extension == ".log") files.push_back(entry.path().string());
    if (entry.path().filename().string().starts_with("checkpoint-"))
      checkpoints.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::ranges::sort(checkpoints, std::greater<>(), NumberBehindDash);
  if (!checkpoints.empty())
    files.insert(files.begin(), (checkpoints.front() / "trainer_state.json").string());
  files.insert(files.begin(), JoinPath(folder, "trainer_state.json"));
  return files;
}

}  // namespace

Result<std::optional<MetricLog>> ReadMetricLog(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return ReadLog(path);
  for (const std::string& file : Candidates(path)) {
    if (!fs::is_regular_file(file, error)) continue;
    BUTTRESS_ASSIGN_OR_RETURN(std::optional<MetricLog> log, ReadLog(file));
    if (log) return log;
  }
  return std::optional<MetricLog>();
}

}  // namespace buttress
