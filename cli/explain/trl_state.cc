#include "cli/explain/trl_state.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace buttress {
namespace {

namespace fs = std::filesystem;

constexpr char kState[] = "trainer_state.json";
constexpr std::string_view kCheckpoint = "checkpoint-";

// The newest state of a run in its folder, which may not exist.
fs::path StateIn(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / kState, error)) return folder / kState;
  std::int64_t newest = -1;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with(kCheckpoint)) continue;
    const char* const end = name.data() + name.size();
    if (std::from_chars(name.data() + kCheckpoint.size(), end, step).ptr == end)
      newest = std::max(newest, step);
  }
  return folder / (std::string(kCheckpoint) + std::to_string(newest)) / kState;
}

// Of a whole number; 0 for anything else.
std::int64_t NumberOf(const nlohmann::json& state, const char* name) {
  const auto found = state.find(name);
  return found != state.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

bool IsEvaluation(const nlohmann::json& entry) {
  if (!entry.is_object() || NumberOf(entry, "step") == 0) return false;
  return std::ranges::any_of(entry.items(),
                             [](const auto& item) { return item.key().starts_with("eval_"); });
}

}  // namespace

TrlEvaluations EvaluationsOf(const std::string& dump) {
  TrlEvaluations evaluations;
  const fs::path folder = fs::absolute(dump).parent_path();
  for (const fs::path& place : {folder, folder.parent_path()}) {
    std::ifstream file(StateIn(place));
    const nlohmann::json state = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!state.is_object() || !state.contains("log_history")) continue;
    for (const nlohmann::json& entry : state["log_history"])
      if (IsEvaluation(entry)) evaluations.steps.insert(NumberOf(entry, "step"));
    evaluations.known = NumberOf(state, "global_step");
    if (!evaluations.steps.empty()) evaluations.interval = NumberOf(state, "eval_steps");
    return evaluations;
  }
  return evaluations;
}

}  // namespace buttress
