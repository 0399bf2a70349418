#include "cli/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/explain/run_report.h"
#include "cli/run_client.h"
#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/config/run_identity.h"
#include "lib/measure/steps_file.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr double kUnknown = StepMeasurements::kNotMeasured;

constexpr Endpoint kEndpoints[] = {
    {"raw_reward_last", "raw reward, last tenth", false,
     [](const ComparedRun& run) { return run.learned.reward.last; }},
    {"accuracy_last", "accuracy, last tenth", true,
     [](const ComparedRun& run) { return run.learned.accuracy.last; }},
    {"held_out_after", "held-out accuracy after", true,
     [](const ComparedRun& run) { return run.after ? run.after->accuracy : kUnknown; }},
    {"held_out_difference", "held-out, after minus before", true,
     [](const ComparedRun& run) {
       return run.learned.held_out ? run.learned.held_out->difference : kUnknown;
     }},
    {"acr", "ACR", false,
     [](const ComparedRun& run) {
       const CollapseCounts& counts = run.report.counts;
       return counts.constant() + counts.mixed > 0 ? counts.acr() : kUnknown;
     }},
};

Result<std::optional<Accuracy>> AccuracyIn(const std::string& path) {
  if (!fs::exists(path)) return std::optional<Accuracy>();
  BUTTRESS_ASSIGN_OR_RETURN(Accuracy accuracy, ReadAccuracy(path));
  return std::optional(std::move(accuracy));
}

Result<std::vector<StepMeasurements>> ReadStepsIn(const std::string& folder) {
  const std::string path = JoinPath(folder, "steps.jsonl");
  return ReadSteps(fs::exists(path) ? path : ReceivedStepsPath(folder));
}

std::string WithoutSlash(const fs::path& path) {
  return (path.has_filename() ? path : path.parent_path()).string();
}

Result<ComparedRun> ReadRun(const std::string& named) {
  RunFlags flags;
  flags.run = named;
  ComparedRun run;
  auto config = ConfigOf(flags);
  if (!config.ok())
    return InvalidArgument(named + ": expected the folder of a run; " + config.status().message());
  run.config = *std::move(config);
  run.folder = WithoutSlash(fs::absolute(run.config.local.out).lexically_normal());
  BUTTRESS_ASSIGN_OR_RETURN(run.steps, ReadStepsIn(run.folder));
  BUTTRESS_ASSIGN_OR_RETURN(run.before, AccuracyIn(JoinPath(run.folder, "eval_before.json")));
  BUTTRESS_ASSIGN_OR_RETURN(run.after, AccuracyIn(JoinPath(run.folder, "eval_after.json")));
  run.learned = LearnedOf(run.steps, run.before.value_or(Accuracy()).by_row,
                          run.after.value_or(Accuracy()).by_row, run.folder);
  BUTTRESS_ASSIGN_OR_RETURN(run.report, ReadReport(run.folder));
  run.finished = fs::exists(JoinPath(run.folder, "summary.json"));
  for (const StepMeasurements& step : run.steps) {
    const auto add = [](double value, double& sum) { sum += std::isfinite(value) ? value : 0; };
    add(step.drawn_tokens, run.tokens);
    add(step.trained_tokens, run.trained_tokens);
    add(step.seconds_step, run.seconds);
  }
  return run;
}

// Names the runs by what follows the last folder that all of them are in.
void NameRuns(std::vector<ComparedRun>& runs) {
  std::vector<std::vector<std::string>> paths;
  for (const ComparedRun& run : runs) {
    auto& parts = paths.emplace_back();
    for (const auto& part : fs::path(run.folder).lexically_normal()) {
      if (!part.empty()) parts.push_back(part.string());
    }
  }
  std::size_t common = 0;
  const auto same = [&](const std::vector<std::string>& parts) {
    return common + 1 < parts.size() && parts[common] == paths[0][common];
  };
  while (std::ranges::all_of(paths, same)) ++common;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t part = common; part < paths[i].size(); ++part)
      runs[i].label += (runs[i].label.empty() ? "" : "/") + paths[i][part];
  }
}

std::vector<DifferingSetting> SettingsThatDiffer(const std::vector<ComparedRun>& runs) {
  std::vector<DifferingSetting> settings;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    for (const SettingChange& change : ChangesOf(runs[0].config, runs[i].config)) {
      auto row = std::ranges::find(settings, change.key, &DifferingSetting::key);
      if (row == settings.end())
        row = settings.insert(row, {change.key, std::vector(runs.size(), change.was)});
      row->values[i] = change.is;
    }
  }
  return settings;
}

std::vector<double> ValuesOf(const std::vector<ComparedRun>& runs, const SeedGroup& group,
                             const Endpoint& endpoint) {
  std::vector<double> values;
  for (const std::size_t i : group.runs) values.push_back(endpoint.of(runs[i]));
  return values;
}

// "grpo-seeds" for grpo-seeds/seed-1 and grpo-seeds/seed-2; else the names of the runs.
std::string LabelOf(const std::vector<ComparedRun>& runs, const std::vector<std::size_t>& group) {
  std::string names, parent = fs::path(runs[group[0]].folder).parent_path().string();
  for (const std::size_t i : group) {
    names += (names.empty() ? "" : ", ") + runs[i].label;
    if (fs::path(runs[i].folder).parent_path() != parent) parent.clear();
  }
  const std::string name = fs::path(parent).filename().string();
  return name.empty() ? names : name;
}

std::vector<SeedGroup> SeedGroups(const std::vector<ComparedRun>& runs) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> by_settings;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RunConfig config = runs[i].config;
    config.run.seed = 0;
    config.run.name = "";
    const std::string key = RunConfigHash(config);
    auto row = std::ranges::find(by_settings, key, &decltype(by_settings)::value_type::first);
    if (row == by_settings.end()) row = by_settings.insert(row, {key, {}});
    row->second.push_back(i);
  }
  std::vector<SeedGroup> groups;
  for (const auto& [key, indices] : by_settings) {
    std::vector<std::int64_t> seeds;
    for (const std::size_t i : indices) seeds.push_back(runs[i].config.run.seed);
    std::ranges::sort(seeds);
    if (indices.size() < 2 || std::ranges::adjacent_find(seeds) != seeds.end()) continue;
    SeedGroup& group = groups.emplace_back(SeedGroup{LabelOf(runs, indices), indices, {}});
    for (const Endpoint& endpoint : kEndpoints)
      group.endpoints.push_back(MeanOverRuns(ValuesOf(runs, group, endpoint)));
  }
  return groups;
}

// The SHA-256 that versions.json has of a file of the newest start; empty if it has none.
std::string RecordedDigest(const std::string& folder, const std::string& file) {
  const auto text = ReadFile(JoinPath(folder, "versions.json"));
  if (!text.ok()) return "";
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto starts = json.is_object() ? json.value("starts", nlohmann::json()) : json;
  if (!starts.is_array() || starts.empty() || !starts.back().is_object()) return "";
  for (const auto& known : starts.back().value("data", nlohmann::json::array())) {
    if (known.is_object() && known.value("path", nlohmann::json()) == file) {
      const auto digest = known.value("sha256", nlohmann::json());
      return digest.is_string() ? digest.get<std::string>() : "";
    }
  }
  return "";
}

bool HaveSameHeldOut(const ComparedRun& a, const ComparedRun& b) {
  const std::string &file_a = a.config.run.data.held_out, &file_b = b.config.run.data.held_out;
  const std::string digest_a = RecordedDigest(a.folder, file_a),
                    digest_b = RecordedDigest(b.folder, file_b);
  return digest_a.empty() || digest_b.empty() ? file_a == file_b : digest_a == digest_b;
}

void PairHeldOut(Comparison& comparison) {
  if (comparison.runs.size() != 2) return;
  const ComparedRun &a = comparison.runs[0], &b = comparison.runs[1];
  if (!a.after || !b.after) {
    comparison.why_not_paired = "a run has no held-out accuracy after training";
    return;
  }
  if (!HaveSameHeldOut(a, b)) {
    comparison.why_not_paired = "their held-out prompts differ (run.data.held_out)";
    return;
  }
  const std::vector<double>&first = a.after->by_row, &second = b.after->by_row;
  const std::optional<Change> change = PairedChange(first, second);
  if (!change) {
    comparison.why_not_paired = "their evaluations do not have the same prompts one by one";
    return;
  }
  comparison.held_out.emplace(PairedHeldOut{*change});
  for (std::size_t i = 0; i < first.size(); ++i) {
    comparison.held_out->only_first += first[i] > second[i] ? 1 : 0;
    comparison.held_out->only_second += second[i] > first[i] ? 1 : 0;
  }
}

std::vector<double> Finite(std::span<const double> values) {
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  return finite;
}

// A mean with the variance of it, NaN for one value.
struct Spread {
  explicit Spread(std::span<const double> values) : n(static_cast<double>(values.size())) {
    for (const double value : values) mean += value / n;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    if (n > 0) variance = squares / (n - 1) / n;  // 0 / 0 for one value
  }

  double n = 0, mean = 0, variance = kUnknown;
};

RunsMean WithInterval(double mean, double variance, double freedom, std::size_t runs) {
  const double width = std::isfinite(variance) && freedom >= 1
                           ? StudentT95(freedom) * std::sqrt(variance)
                           : kUnknown;
  return {mean, mean - width, mean + width, runs};
}

}  // namespace

std::span<const Endpoint> Endpoints() { return kEndpoints; }

RunsMean MeanOverRuns(std::span<const double> values) {
  const std::vector<double> finite = Finite(values);
  if (finite.empty()) return {kUnknown, kUnknown, kUnknown, 0};
  const Spread spread(finite);
  return WithInterval(spread.mean, spread.variance, spread.n - 1, finite.size());
}

RunsMean DifferenceOfRuns(std::span<const double> first, std::span<const double> second) {
  const std::vector<double> a = Finite(first), b = Finite(second);
  if (a.empty() || b.empty()) return {kUnknown, kUnknown, kUnknown, 0};
  const Spread x(a), y(b);
  const double variance = x.variance + y.variance;
  // Equal values on both sides have no spread, and any number of degrees of freedom.
  const double freedom =
      variance == 0
          ? 1
          : variance * variance /
                (x.variance * x.variance / (x.n - 1) + y.variance * y.variance / (y.n - 1));
  return WithInterval(y.mean - x.mean, variance, freedom, a.size() + b.size());
}

Result<Comparison> CompareRuns(const std::vector<std::string>& folders) {
  if (folders.size() < 2) return InvalidArgument("a comparison takes two runs or more");
  Comparison comparison;
  for (const std::string& folder : folders) {
    BUTTRESS_ASSIGN_OR_RETURN(ComparedRun run, ReadRun(folder));
    for (const ComparedRun& other : comparison.runs) {
      std::error_code error;
      if (fs::equivalent(run.folder, other.folder, error))
        return InvalidArgument(run.folder + " is named twice");
    }
    comparison.runs.push_back(std::move(run));
  }
  NameRuns(comparison.runs);
  comparison.settings = SettingsThatDiffer(comparison.runs);
  comparison.seeds = SeedGroups(comparison.runs);
  if (comparison.seeds.size() == 2) {
    for (const Endpoint& endpoint : kEndpoints)
      comparison.seed_differences.push_back(
          DifferenceOfRuns(ValuesOf(comparison.runs, comparison.seeds[0], endpoint),
                           ValuesOf(comparison.runs, comparison.seeds[1], endpoint)));
  }
  PairHeldOut(comparison);
  return comparison;
}

}  // namespace buttress
