#include "lib/measure/eval_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "lib/base/os/file.h"
#include "lib/rl/eval/pass_at_k.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

// Calls visit(name, value) for every field, in the order of the file.
template <class Row, class Visit>
void ForEachField(Row& row, Visit visit) {
  visit("step", row.step);
  visit("learner_epoch", row.learner_epoch);
  visit("time_unix", row.time_unix);
  visit("accuracy", row.accuracy);
  visit("raw_reward_mean", row.raw_reward_mean);
  visit("prompts", row.prompts);
  visit("completions", row.completions);
  visit("unscorable", row.unscorable);
  visit("truncated", row.truncated);
  visit("tokens", row.tokens);
  visit("temperature", row.temperature);
  visit("seconds", row.seconds);
}

// The same for the fields that only episodes have.
template <class Means, class Visit>
void ForEachMean(Means& means, Visit visit) {
  visit("turns_mean", means.turns);
  visit("tool_calls_mean", means.tool_calls);
  visit("failed_tool_calls_mean", means.failed_tool_calls);
  visit("limit_share", means.at_limit);
}

Result<std::string> ReadOrEmpty(const std::string& path) {
  auto text = ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return std::string();
  return text;
}

// Reads "v<learner epoch>.<step>"; nullopt for another name.
std::optional<PendingEval> ParseName(std::string_view name) {
  PendingEval pending;
  const char* const end = name.data() + name.size();
  if (!name.starts_with('v')) return std::nullopt;
  const auto epoch = std::from_chars(name.data() + 1, end, pending.learner_epoch);
  if (epoch.ec != std::errc() || epoch.ptr == end || *epoch.ptr != '.') return std::nullopt;
  const auto step = std::from_chars(epoch.ptr + 1, end, pending.step);
  if (step.ec != std::errc() || step.ptr != end || pending.step < 0) return std::nullopt;
  return pending;
}

Status RemoveEval(const std::string& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  return error ? Unavailable("cannot remove " + folder + ": " + error.message()) : OkStatus();
}

}  // namespace

double EvalRow::truncated_share() const {
  return completions > 0 ? static_cast<double>(truncated) / static_cast<double>(completions)
                         : kNotMeasured;
}

std::string Accuracy::Text() const {
  std::vector<double> of_prompts(static_cast<std::size_t>(prompts), 0.0);
  const auto correct =
      static_cast<std::size_t>(std::lround(accuracy * static_cast<double>(prompts)));
  std::fill_n(of_prompts.begin(), std::min(correct, of_prompts.size()), 1.0);
  const Estimate estimate = MeanOver(of_prompts);
  return fmt::format("{:.1f} % ({:.1f} to {:.1f})", 100 * accuracy, 100 * estimate.low,
                     100 * estimate.high);
}

Result<Accuracy> ReadAccuracy(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("accuracy") || !json["accuracy"].is_number() ||
      !json.contains("prompts") || !json["prompts"].is_number_integer()) {
    return DataLoss(
        path +
        ": expected an object with 'accuracy' and 'prompts'; delete the file to evaluate again");
  }
  Accuracy accuracy{json["accuracy"].get<double>(), json["prompts"].get<std::int64_t>()};
  const auto rows = json.find("by_row");
  for (std::size_t i = 0; rows != json.end() && rows->is_array() && i < rows->size(); ++i)
    accuracy.by_row.push_back((*rows)[i].is_number() ? (*rows)[i].get<double>()
                                                     : EvalRow::kNotMeasured);
  return accuracy;
}

std::string EvalsPath(const std::string& out) { return JoinPath(out, "eval.jsonl"); }

std::string NewestEvalPath(const std::string& out) {
  return JoinPath(PendingEvalsFolder(out), "newest.json");
}

std::string EvalToJson(const EvalRow& row) {
  nlohmann::ordered_json json;
  ForEachField(row, [&](std::string_view name, const auto& value) {
    json[std::string(name)] = value;
    if (name == "truncated") json["truncated_share"] = row.truncated_share();
  });
  if (row.episodes) ForEachMean(*row.episodes, [&](const char* name, double v) { json[name] = v; });
  return json.dump();  // null for what is not finite
}

Result<EvalRow> ParseEval(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return DataLoss("not a JSON object");
  EvalRow row;
  std::string wrong;
  ForEachField(row, [&](const char* name, auto& value) {
    constexpr bool kReal = std::is_same_v<decltype(value), double&>;
    const auto found = json.find(name);
    const bool exists = found != json.end();
    if (exists && (kReal ? found->is_number() : found->is_number_integer()))
      found->get_to(value);
    else if (wrong.empty() && !(kReal && exists && found->is_null()))
      wrong = name;
  });
  if (json.contains("turns_mean")) {
    ForEachMean(row.episodes.emplace(), [&](const char* name, double& value) {
      const auto found = json.find(name);
      if (found != json.end() && found->is_number())
        found->get_to(value);
      else if (wrong.empty())
        wrong = name;
    });
  }
  if (!wrong.empty()) return DataLoss("field '" + wrong + "' is missing or not a number");
  return row;
}

Result<std::vector<EvalRow>> ReadEvals(const std::string& out) {
  const std::string path = EvalsPath(out);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadOrEmpty(path));
  std::vector<EvalRow> rows;
  std::size_t begin = 0, number = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    ++number;
    const auto row = ParseEval(std::string_view(text).substr(begin, end - begin));
    if (!row.ok()) {
      return DataLoss(fmt::format("{}:{}: {}; move the file aside, it is made anew", path, number,
                                  row.status().message()));
    }
    std::erase_if(rows, [&row](const EvalRow& before) { return before.step >= row->step; });
    rows.push_back(*row);
    begin = end + 1;
  }
  return rows;
}

Status AddEval(const std::string& out, const EvalRow& row) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadOrEmpty(EvalsPath(out)));
  return WriteFileAtomic(EvalsPath(out), text + EvalToJson(row) + "\n");
}

std::string PendingEvalsFolder(const std::string& out) { return JoinPath(out, "evals"); }

std::string PendingEvalFolderOf(const std::string& out, std::uint64_t learner_epoch,
                                std::int64_t step) {
  return JoinPath(PendingEvalsFolder(out), fmt::format("v{}.{}", learner_epoch, step));
}

std::string UnfinishedEvalFolder(const std::string& out) {
  return JoinPath(PendingEvalsFolder(out), "part");
}

std::vector<PendingEval> ListPendingEvals(const std::string& out) {
  std::vector<PendingEval> found;
  std::error_code error;
  for (fs::directory_iterator it(PendingEvalsFolder(out), error), end; !error && it != end;
       it.increment(error)) {
    auto pending = ParseName(it->path().filename().string());
    if (!pending) continue;
    pending->folder = it->path().string();
    found.push_back(*std::move(pending));
  }
  std::ranges::sort(found, {},
                    [](const PendingEval& one) { return std::tuple(one.learner_epoch, one.step); });
  return found;
}

Status RemovePendingEvalsAfter(const std::string& out, std::int64_t step) {
  BUTTRESS_RETURN_IF_ERROR(RemoveEval(UnfinishedEvalFolder(out)));
  for (const PendingEval& pending : ListPendingEvals(out)) {
    if (pending.step > step) BUTTRESS_RETURN_IF_ERROR(RemoveEval(pending.folder));
  }
  return OkStatus();
}

}  // namespace buttress
