#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "rollout_worker/evaluation/probe_report.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kSourcesShown = 32;

std::string_view NameOf(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::kCanLearn:
      return "can learn";
    case ProbeVerdict::kCannotLearn:
      return "cannot learn";
    case ProbeVerdict::kNoInformation:
      return "no information";
  }
  return "";
}

std::string_view NameOf(RateBasis basis) {
  switch (basis) {
    case RateBasis::kCounted:
      return "counted";
    case RateBasis::kFitted:
      return "fitted";
    case RateBasis::kBound:
      return "bound";
  }
  return "";
}

std::string Line(std::string_view name, const std::string& value) {
  return fmt::format("  {:<42}{}\n", name, value);
}

std::string Line(std::string_view name, const Estimate& estimate) {
  return Line(name, PercentText(estimate));
}

std::string MeanText(const MeanInterval& mean, int decimals) {
  std::string text = fmt::format("{:5.{}f}", mean.mean, decimals);
  if (std::isfinite(mean.low))
    text += fmt::format(" [{:.{}f}, {:.{}f}]", mean.low, decimals, mean.high, decimals);
  return text;
}

std::string SizeLine(const GroupRate& rate, std::int64_t own) {
  const std::string head = fmt::format("  {:>4}{}  ", rate.size, rate.size == own ? "*" : " ");
  const Estimate& acr = rate.constant;
  if (rate.basis == RateBasis::kBound)
    return head + fmt::format("no information: at most {:.1f} %\n", 100 * acr.high);
  const Estimate mixed = {1 - acr.mean, 1 - acr.high, 1 - acr.low, acr.prompts};
  return head + fmt::format("{}   {}{}\n", PercentText(acr), PercentText(mixed),
                            rate.basis == RateBasis::kFitted ? "   extrapolated" : "");
}

std::string ControlText(const ControlCount& count, std::string_view outcome) {
  if (count.tried == 0) return "none can be made";
  return fmt::format("{} of {} {}", count.tried - count.failed, count.tried, outcome);
}

std::string TimeText(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} minutes", seconds / 60);
  return fmt::format("{:.1f} hours", seconds / 3600);
}

std::string CountText(double count) {
  if (count < 1e6) return fmt::format("{:.0f}", count);
  return fmt::format("{:.3g} million", count / 1e6);
}

std::int64_t CompletionsOf(const ProbeFacts& facts) {
  std::size_t most = 0;
  for (const ProbedPrompt& prompt : facts.prompts) most = std::max(most, prompt.completions.size());
  return static_cast<std::int64_t>(most);
}

std::string CostText(const RunConfig& config, const ProbeReport& report) {
  const std::string drawn =
      report.resampled > 1
          ? fmt::format(", {:.2f} groups drawn for each that trains", report.resampled)
          : "";
  std::string text = Line("completions", CountText(report.run_completions) + drawn) +
                     Line("sampled tokens", CountText(report.run_tokens)) +
                     Line("sampling at the rate of this probe", TimeText(report.run_seconds));
  if (config.local.launch.workers > 1)
    text += Line(
        "", fmt::format("in one process; the run has {} workers", config.local.launch.workers));
  return text;
}

std::string EpisodesText(const ProbeReport& report) {
  const EpisodeTotals& episodes = report.episodes;
  if (episodes.episodes == 0) return "";
  std::vector<std::string> ends;
  for (const auto& [end, count] : episodes.ends) ends.push_back(fmt::format("{} {}", end, count));
  return "episodes\n" + Line("turns", MeanText(report.turns, 2)) +
         Line("tool calls", MeanText(report.tool_calls, 2)) +
         Line("failed tool calls, in all", std::to_string(episodes.failed_tool_calls)) +
         Line("ends", fmt::format("{}", fmt::join(ends, ", ")));
}

std::string EntropyText(const ProbeReport& report) {
  if (std::isfinite(report.entropy.mean)) return MeanText(report.entropy, 3);
  return report.episodes.episodes > 0 ? "not measured of episodes" : "not given by the server";
}

std::string SourcesText(const ProbeReport& report) {
  if (report.sources.size() < 2) return "";
  std::string text = "\nsource               prompts  accuracy               mixed groups\n";
  std::size_t shown = 0;
  for (const auto& [source, rates] : report.sources) {
    if (++shown > kSourcesShown)
      return text + fmt::format("  and {} more (--json)\n", report.sources.size() - kSourcesShown);
    text += fmt::format("  {:<18} {:>7}  {}   {}\n", source, rates.prompts,
                        PercentText(rates.accuracy), PercentText(rates.mixed));
  }
  return text;
}

ordered_json JsonOf(const Estimate& estimate) {
  ordered_json json = {{"mean", nullptr},
                       {"low", estimate.low},
                       {"high", estimate.high},
                       {"prompts", estimate.prompts}};
  if (std::isfinite(estimate.mean)) json["mean"] = estimate.mean;
  return json;
}

ordered_json JsonOf(const MeanInterval& mean) {
  if (!std::isfinite(mean.mean)) return nullptr;
  ordered_json json = {{"mean", mean.mean}};
  if (std::isfinite(mean.low)) json.update({{"low", mean.low}, {"high", mean.high}});
  return json;
}

ordered_json JsonOf(const ControlCount& count) {
  return {{"tried", count.tried}, {"failed", count.failed}, {"example", count.example}};
}

}  // namespace

std::string ProbeText(const RunConfig& config, const ProbeFacts& facts, const ProbeReport& report) {
  const std::int64_t n = CompletionsOf(facts), own = config.run.sampling.group_size;
  const bool answers = report.answered.prompts > 0;
  std::string text =
      fmt::format("conclusion: {}: {}\n", NameOf(report.verdict), report.conclusion) +
      fmt::format(
          "{} of {} prompts, {} completions of each, {:.1f} s; intervals of 95 % over "
          "prompts\n\ngroup  expected ACR            mixed\n",
          facts.prompts.size(), facts.rows, n, facts.seconds);
  for (const GroupRate& rate : report.sizes) text += SizeLine(rate, own);
  text +=
      "  * of the run\n" + SourcesText(report) + "\nprompts\n" +
      Line(fmt::format("none of {} completions right", n), report.never) +
      Line(fmt::format("all of {} completions right", n), report.always) +
      (answers ? Line("different answers", MeanText(report.distinct, 1)) +
                     Line("share of the most frequent wrong answer", MeanText(report.wrong_mode, 2))
               : "");
  text += "completions\n" + Line("accuracy", report.accuracy);
  for (const auto& [k, pass] : report.pass) {
    if (k > 1) text += Line(fmt::format("pass@{}", k), pass);
  }
  text += (answers ? Line("with an answer", report.answered)
                   : Line("with an answer", "the verifier does not say")) +
          Line("cut at max_tokens", report.truncated) +
          Line("without a verdict", report.unscorable) +
          Line("tokens", fmt::format("{}, median {}, ninth decile {}", MeanText(report.tokens, 1),
                                     report.median_tokens, report.ninth_decile_tokens)) +
          Line("entropy, nats per token", EntropyText(report)) + EpisodesText(report);
  if (!facts.reference.empty())
    text += "against " + facts.reference + "\n" +
            Line("KL from it, nats per token", MeanText(report.reference_kl, 3)) +
            Line("its entropy at the same places", MeanText(report.reference_entropy, 3));
  text += "verifier\n" + Line("reference answers", ControlText(facts.gold, "are right")) +
          Line("spoiled answers", ControlText(facts.spoiled, "are wrong")) + "the planned run\n" +
          CostText(config, report);
  if (!report.advice.empty()) text += "\nwhat to do\n";
  for (const std::string& advice : report.advice) text += "  - " + advice + "\n";
  return text;
}

std::string ProbeJson(const RunConfig& config, const ProbeFacts& facts, const ProbeReport& report) {
  ordered_json json = {{"verdict", NameOf(report.verdict)},
                       {"conclusion", report.conclusion},
                       {"prompts", facts.prompts.size()},
                       {"rows", facts.rows},
                       {"completions", CompletionsOf(facts)},
                       {"group_size", config.run.sampling.group_size},
                       {"seconds", facts.seconds},
                       {"mixed", JsonOf(report.mixed)}};
  for (const GroupRate& rate : report.sizes)
    json["acr"][std::to_string(rate.size)] = {{"basis", NameOf(rate.basis)},
                                              {"rate", JsonOf(rate.constant)}};
  for (const auto& [source, rates] : report.sources)
    json["sources"][source] = {{"prompts", rates.prompts},
                               {"accuracy", JsonOf(rates.accuracy)},
                               {"mixed", JsonOf(rates.mixed)}};
  json["never_right"] = JsonOf(report.never);
  json["always_right"] = JsonOf(report.always);
  json["accuracy"] = JsonOf(report.accuracy);
  for (const auto& [k, pass] : report.pass) json["pass_at_k"][std::to_string(k)] = JsonOf(pass);
  json["answered"] = JsonOf(report.answered);
  json["truncated"] = JsonOf(report.truncated);
  json["unscorable"] = JsonOf(report.unscorable);
  json["distinct_answers"] = JsonOf(report.distinct);
  json["wrong_mode"] = JsonOf(report.wrong_mode);
  json["tokens"] = JsonOf(report.tokens);
  json["median_tokens"] = report.median_tokens;
  json["ninth_decile_tokens"] = report.ninth_decile_tokens;
  json["entropy"] = JsonOf(report.entropy);
  if (report.episodes.episodes > 0)
    json["episodes"] = {{"turns", JsonOf(report.turns)},
                        {"tool_calls", JsonOf(report.tool_calls)},
                        {"failed_tool_calls", report.episodes.failed_tool_calls},
                        {"at_limit", report.episodes.at_limit()},
                        {"ends", report.episodes.ends}};
  if (!facts.reference.empty())
    json["reference"] = {{"model", facts.reference},
                         {"kl", JsonOf(report.reference_kl)},
                         {"entropy", JsonOf(report.reference_entropy)}};
  json["gold"] = JsonOf(facts.gold);
  json["spoiled"] = JsonOf(facts.spoiled);
  json["run"] = {{"completions", report.run_completions},
                 {"tokens", report.run_tokens},
                 {"seconds", report.run_seconds},
                 {"drawn_per_trained", report.resampled}};
  json["advice"] = report.advice;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace buttress
