#include "cli/steps_file.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/file.h"

namespace buttress {

Result<StepRecord> ParseStep(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DataLoss("not a JSON object: " + std::string(line.substr(0, 60)));
  StepRecord record;
  double step = 0, tokens = 0, groups = 0, replaced = 0, masked = 0;
  const std::pair<const char*, double*> fields[] = {
      {"step", &step},
      {"time_unix", &record.time_unix},
      {"reward_mean", &record.reward_mean},
      {"acr", &record.acr},
      {"acr_all_correct", &record.acr_all_correct},
      {"acr_all_wrong", &record.acr_all_wrong},
      {"acr_other", &record.acr_other},
      {"entropy", &record.entropy},
      {"kl", &record.kl},
      {"tokens_per_second", &record.tokens_per_second},
      {"age_mean", &record.age_mean},
      {"generated_tokens", &tokens},
      {"groups", &groups},
      {"groups_replaced", &replaced},
      {"groups_masked", &masked}};
  for (const auto& [name, value] : fields) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number()) {
      return DataLoss("field '" + std::string(name) + "' is missing or not a number");
    }
    *value = found->get<double>();
  }
  record.step = static_cast<std::int64_t>(step);
  record.generated_tokens = static_cast<std::int64_t>(tokens);
  record.groups = static_cast<std::int64_t>(groups);
  record.groups_replaced = static_cast<std::int64_t>(replaced);
  record.groups_masked = static_cast<std::int64_t>(masked);
  return record;
}

Result<std::vector<StepRecord>> ReadSteps(const std::string& path) {
  std::vector<StepRecord> records;
  auto text = ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return records;
  if (!text.ok()) return text.status();
  std::string_view rest = *text;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    auto record = ParseStep(rest.substr(0, end));
    if (!record.ok())
      return record.status().Annotate(path + ":" + std::to_string(records.size() + 1));
    records.push_back(*record);
    rest.remove_prefix(end + 1);
  }
  return records;
}

std::string StepLine(const StepRecord& record, std::int64_t total_steps, double seconds_left) {
  char left[32] = "?";
  if (seconds_left >= 0) {
    const int seconds = static_cast<int>(seconds_left);
    std::snprintf(left, sizeof left, "%dm%02ds", seconds / 60, seconds % 60);
  }
  char drawn[96] = "";
  if (record.groups_replaced > 0 || record.groups_masked > 0) {
    std::snprintf(drawn, sizeof drawn, "  drawn %lld (%lld replaced, %lld masked)",
                  static_cast<long long>(record.groups),
                  static_cast<long long>(record.groups_replaced),
                  static_cast<long long>(record.groups_masked));
  }
  char line[384];
  std::snprintf(line, sizeof line,
                "step %lld/%lld %3.0f%%  reward %.3f  acr %.2f (all-correct %.2f all-wrong %.2f "
                "other %.2f)%s  "
                "entropy %.3f  kl %.1e  %.0f tok/s  age %.1f  left %s",
                static_cast<long long>(record.step), static_cast<long long>(total_steps),
                100.0 * static_cast<double>(record.step) / static_cast<double>(total_steps),
                record.reward_mean, record.acr, record.acr_all_correct, record.acr_all_wrong,
                record.acr_other, drawn, record.entropy, record.kl, record.tokens_per_second,
                record.age_mean, left);
  return line;
}

double SecondsLeft(const std::vector<StepRecord>& records, std::int64_t total_steps) {
  constexpr std::size_t kWindow = 50;
  if (records.size() < 2) return -1;
  const StepRecord& last = records.back();
  const StepRecord& first = records[records.size() - std::min(kWindow, records.size())];
  if (last.step <= first.step) return -1;
  const double pace =
      (last.time_unix - first.time_unix) / static_cast<double>(last.step - first.step);
  return pace * static_cast<double>(total_steps - last.step);
}

}  // namespace buttress
