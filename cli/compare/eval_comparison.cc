#include "cli/compare/eval_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "lib/rl/eval/paired_test.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

// "A", "B", ...: the columns of the table.
std::string Letter(std::size_t i) {
  return i < 26 ? std::string(1, static_cast<char>('A' + i)) : fmt::format("#{}", i + 1);
}

std::string ShortJson(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<ComparedEval> ReadEval(const std::string& path, EvalRecord& record) {
  BUTTRESS_ASSIGN_OR_RETURN(record, ReadEvalRecord(path));
  ComparedEval eval;
  eval.path = path;
  eval.settings = record.settings;
  eval.prompts = static_cast<std::int64_t>(record.prompts.size());
  if (record.prompts.empty()) return InvalidArgument(path + " has no prompt yet");
  eval.completions = static_cast<std::int64_t>(record.prompts[0].completions.size());
  return eval;
}

Status CheckSamePrompts(const ComparedEval& first, const ComparedEval& other) {
  const auto prompts = [](const ComparedEval& eval, const char* key) {
    return ShortJson(eval.settings.value(key, ordered_json()));
  };
  if (prompts(first, "prompts_sha256") == prompts(other, "prompts_sha256")) return OkStatus();
  return InvalidArgument(fmt::format(
      "{} has results on {} and {} on {}, whose SHA-256 differ; evaluate both on one file",
      first.path, prompts(first, "prompts"), other.path, prompts(other, "prompts")));
}

// A row beyond the end of one has no number.
std::optional<RateDifference> DifferenceOf(std::vector<double> first, std::vector<double> second) {
  const std::size_t rows = std::max(first.size(), second.size());
  first.resize(rows, std::numeric_limits<double>::quiet_NaN());
  second.resize(rows, std::numeric_limits<double>::quiet_NaN());
  const auto change = PairedChange(first, second);
  if (!change) return std::nullopt;
  RateDifference found{.change = *change};
  std::vector<double> differences;
  for (std::size_t i = 0; i < rows; ++i) {
    if (std::isfinite(second[i] - first[i])) differences.push_back(second[i] - first[i]);
  }
  found.p = PairedPValue(differences);
  found.only_first = std::ranges::count_if(differences, [](double d) { return d < 0; });
  found.only_second = std::ranges::count_if(differences, [](double d) { return d > 0; });
  return found;
}

// `by_row` returns the rate of EvalScores by row.
template <class ByRow>
ComparedRate RateOf(const std::vector<ComparedEval>& evals, const char* name, std::int64_t k,
                    const ByRow& by_row) {
  ComparedRate rate{.name = name, .k = k, .of = {}, .differences = {}};
  std::vector<double> first;
  for (const ComparedEval& eval : evals) {
    std::vector<double> rows = by_row(eval.totals.scores);
    rate.of.push_back(MeanOfRows(rows));
    if (&eval == &evals[0])
      first = std::move(rows);
    else
      rate.differences.push_back(DifferenceOf(first, std::move(rows)));
  }
  return rate;
}

std::vector<ComparedRate> RatesOf(const std::vector<ComparedEval>& evals) {
  std::vector<ComparedRate> rates = {
      RateOf(evals, "accuracy", 1, [](const EvalScores& scores) { return scores.ByRow(); })};
  const auto fewest = std::ranges::min(evals, {}, &ComparedEval::completions).completions;
  std::vector<std::int64_t> ks = PowersUpTo(fewest);
  std::erase(ks, 1);  // pass@1 and maj@1 are the accuracy
  for (const std::int64_t k : ks)
    rates.push_back(RateOf(evals, "pass", k, [k](const auto& of) { return of.PassByRow(k); }));
  for (const std::int64_t k : ks)
    rates.push_back(RateOf(evals, "maj", k, [k](const auto& of) { return of.MajByRow(k); }));
  return rates;
}

// "temperature: 0 | 0.7" for each setting in which results differ; paths and digests of what has
// the same bytes count as equal.
std::string SettingsText(const std::vector<ComparedEval>& evals) {
  std::string text;
  std::vector<std::string> keys;
  for (const ComparedEval& eval : evals) {
    for (const auto& [key, value] : eval.settings.items()) {
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    std::string values;
    bool differ = false;
    for (const ComparedEval& eval : evals) {
      const ordered_json value = eval.settings.value(key, ordered_json());
      differ = differ || value != evals[0].settings.value(key, ordered_json());
      const std::string shown = value.is_null() ? "-" : ShortJson(value);
      values +=
          (values.empty() ? "" : " | ") + (key.ends_with("_sha256") ? shown.substr(0, 12) : shown);
    }
    if (differ) text += fmt::format("  {}: {}\n", key, values);
  }
  return text.empty() ? "" : "settings that differ\n" + text;
}

std::string WithoutEndSpaces(const std::string& line) {
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string DifferenceText(const std::optional<RateDifference>& difference) {
  if (!difference) return fmt::format("{:>24}  {:>6}", "-", "-");
  const Change& change = difference->change;
  return fmt::format("{:+6.1f} % ({:+6.1f} to {:+6.1f})  {:6.2g}", 100 * change.difference,
                     100 * change.low, 100 * change.high, difference->p);
}

ordered_json ToJson(const Estimate& estimate) {
  return {{"mean", estimate.mean},
          {"low", estimate.low},
          {"high", estimate.high},
          {"prompts", estimate.prompts}};
}

ordered_json ToJson(const std::optional<RateDifference>& found) {
  if (!found) return nullptr;
  return {{"difference", found->change.difference},
          {"low", found->change.low},
          {"high", found->change.high},
          {"p", found->p},
          {"only_first", found->only_first},
          {"only_second", found->only_second}};
}

}  // namespace

std::string ComparedRate::Label() const {
  return name == "accuracy" ? name : fmt::format("{}@{}", name, k);
}

Result<EvalComparison> CompareEvals(const std::vector<std::string>& paths) {
  EvalComparison comparison;
  std::vector<EvalRecord> records(paths.size());
  std::map<std::int64_t, std::size_t> files;  // that have the row
  for (std::size_t i = 0; i < paths.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(ComparedEval eval, ReadEval(paths[i], records[i]));
    for (const EvalPrompt& prompt : records[i].prompts) ++files[prompt.row];
    comparison.evals.push_back(std::move(eval));
    BUTTRESS_RETURN_IF_ERROR(CheckSamePrompts(comparison.evals[0], comparison.evals[i]));
  }
  comparison.prompts = std::ranges::count_if(
      files, [&paths](const auto& row) { return row.second == paths.size(); });
  if (comparison.prompts == 0)
    return InvalidArgument("the results have no prompt in common; let the evaluations end");
  for (std::size_t i = 0; i < paths.size(); ++i) {
    for (const EvalPrompt& prompt : records[i].prompts) {
      if (files[prompt.row] == paths.size()) comparison.evals[i].totals.Add(prompt);
    }
    comparison.evals[i].totals.seconds = records[i].seconds;
  }
  comparison.rates = RatesOf(comparison.evals);
  return comparison;
}

std::string EvalComparisonText(const EvalComparison& comparison) {
  std::string text, head = fmt::format("{:<9}", "");
  const bool several = comparison.evals.size() > 1;
  for (std::size_t i = 0; i < comparison.evals.size(); ++i) {
    const ComparedEval& eval = comparison.evals[i];
    const EvalResult& totals = eval.totals;
    text += fmt::format(
        "{}  {}: {}, {} prompts, {} completions of each, {:.1f} % truncated, {} "
        "unscorable, {:.0f} tokens a completion\n",
        Letter(i), eval.path, ShortJson(eval.settings.value("model", ordered_json("?"))),
        eval.prompts, eval.completions,
        100.0 * static_cast<double>(totals.truncated) / static_cast<double>(totals.completions),
        totals.unscorable,
        static_cast<double>(totals.tokens) / static_cast<double>(totals.completions));
    head += fmt::format("  {:<24}", Letter(i));
  }
  if (several) text += SettingsText(comparison.evals);
  for (std::size_t i = 1; i < comparison.evals.size(); ++i)
    head += fmt::format("  {:<29}{:>6}", Letter(i) + " minus A", "p");
  text += "\n" + WithoutEndSpaces(head) + "\n";
  for (const ComparedRate& rate : comparison.rates) {
    std::string line = fmt::format("{:<9}", rate.Label());
    for (const Estimate& estimate : rate.of) line += fmt::format("  {:<24}", PercentText(estimate));
    for (const auto& difference : rate.differences) line += "  " + DifferenceText(difference);
    text += WithoutEndSpaces(line) + "\n";
  }
  text += fmt::format("{} prompts{}; intervals of 95 %\n", comparison.prompts,
                      several ? " that all have" : "");
  for (std::size_t i = 1; i < comparison.evals.size(); ++i) {
    if (const auto& difference = comparison.rates[0].differences[i - 1])
      text += fmt::format("{} prompts are better in A, {} in {}\n", difference->only_first,
                          difference->only_second, Letter(i));
  }
  return text;
}

ordered_json EvalComparisonJson(const EvalComparison& comparison) {
  ordered_json results = ordered_json::array(), rates = ordered_json::array();
  for (const ComparedEval& eval : comparison.evals)
    results.push_back({{"file", eval.path},
                       {"settings", eval.settings},
                       {"prompts", eval.prompts},
                       {"completions", eval.completions},
                       {"truncated", eval.totals.truncated},
                       {"unscorable", eval.totals.unscorable},
                       {"tokens", eval.totals.tokens},
                       {"seconds", eval.totals.seconds}});
  for (const ComparedRate& rate : comparison.rates) {
    ordered_json& row = rates.emplace_back(
        ordered_json{{"rate", rate.name}, {"k", rate.k}, {"of", ordered_json::array()}});
    for (const Estimate& estimate : rate.of) row["of"].push_back(ToJson(estimate));
    row["differences"] = ordered_json::array();
    for (const auto& difference : rate.differences)
      row["differences"].push_back(ToJson(difference));
  }
  return {{"results", std::move(results)},
          {"prompts", comparison.prompts},
          {"rates", std::move(rates)}};
}

}  // namespace buttress
