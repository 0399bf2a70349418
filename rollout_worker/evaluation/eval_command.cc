#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/report/status.h"
#include "lib/config/load.h"
#include "rollout_worker/commands.h"
#include "rollout_worker/evaluation/eval.h"
#include "rollout_worker/evaluation/server_flags.h"

namespace buttress {
namespace {

struct Flags {
  std::string config;
  std::vector<std::string> overrides;
  std::string model;
  std::string adapter;
  ServerFlags server;
  std::string tokenizer;
  std::string prompts;
  std::string verifier;
  std::string dtype;
  std::string device;
  std::string out;
  std::string results;
  bool use_all = false;
  bool json = false;
  std::int64_t limit = 0;
  std::int64_t completions = 1;
  std::vector<std::int64_t> ks;
  std::int64_t max_tokens = 0;
  std::int64_t gpu = -1;
  std::int64_t threads = 0;
  double temperature = 0;
  double top_p = 1;
  std::int32_t top_k = 0;
  std::uint64_t seed = 1;

  void AddTo(CLI::App& app) {
    app.add_option("file,--config", config,
                   "run file whose data, reward, stops, sampling.max_tokens and dtype are used");
    app.add_option("--set", overrides, "KEY=VALUE, overrides the run file")
        ->allow_extra_args(false);
    app.add_option(
        "--model", model,
        "Hugging Face folder; with --server, the name that the server has for its model; "
        "default: its only one");
    app.add_option("--adapter", adapter, "PEFT folder of adapters for the model");
    server.AddTo(app);
    app.add_option(
        "--tokenizer", tokenizer,
        "folder with tokenizer and config.json of the server's model: prompts are sent as "
        "tokens to /v1/completions; default: as messages to /v1/chat/completions");
    app.add_option("--prompts", prompts, "JSONL of prompts and answers")->required();
    app.add_option("--verifier", verifier,
                   "verifier (buttress verify --list); default: of the run file");
    app.add_flag("--use-all", use_all, "countdown: every number exactly once");
    app.add_option("--limit", limit, "evaluate only the first N prompts; 0 = all")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--completions", completions, "completions per prompt, for pass@k and maj@k")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{1}, kMaxVotes));
    app.add_option("--k", ks,
                   "k of pass@k and maj@k: 1,8,64; default: powers of two up to --completions")
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, kMaxVotes));
    app.add_option("--temperature", temperature, "0 = greedy")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--top-p", top_p, "nucleus mass; 1 = off")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--top-k", top_k, "highest-probability tokens kept; 0 = off")
        ->capture_default_str()
        ->check(CLI::NonNegativeNumber);
    app.add_option("--max-tokens", max_tokens,
                   "token limit of a completion; default: of the run file, or 256")
        ->check(CLI::PositiveNumber);
    app.add_option("--seed", seed, "seed of sampling")->capture_default_str();
    app.add_option("--dtype", dtype, "float32 | bfloat16; default: of the run file, or float32");
    app.add_option("--device", device, "cpu | cuda; default: of the run file, or cpu");
    app.add_option("--gpu", gpu, "GPU of cuda, from 0; default: of the run file, or the first")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--threads", threads, "default: one per core")->check(CLI::PositiveNumber);
    app.add_flag("--json", json, "print the result as one JSON object");
    app.add_option("--out", out, "also write this object to a file");
    app.add_option("--results", results,
                   "append the verdicts of each prompt to this file as it ends; the same command "
                   "continues where it was stopped");
  }
};

// Sets the model folder or the server.
Status NameModel(const Flags& flags, EvalOptions& options) {
  BUTTRESS_ASSIGN_OR_RETURN(options.server, flags.server.Options());
  if (options.server.url.empty()) {
    if (!flags.tokenizer.empty())
      return InvalidArgument("--tokenizer is of a server; add --server");
    options.model.path = flags.model;
    options.adapter = flags.adapter;
    return flags.model.empty() ? InvalidArgument(
                                     "name the model's folder with --model, or a server with "
                                     "--server")
                               : OkStatus();
  }
  if (!flags.adapter.empty())
    return InvalidArgument(
        "--adapter is of a model folder; let the server serve the adapters, and name them with "
        "--model");
  options.model.path = flags.tokenizer;
  options.server.model = flags.model;
  return OkStatus();
}

Result<EvalOptions> OptionsFrom(const Flags& flags) {
  RunConfig config;
  if (!flags.config.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(config, LoadRunConfig(flags.config, flags.overrides));
  } else if (!flags.overrides.empty()) {
    return InvalidArgument("--set overrides settings of a run file; add --config");
  } else if (flags.verifier.empty()) {
    return InvalidArgument("name the verifier with --verifier, or a run file with --config");
  }
  EvalOptions options = EvalOptionsOf(config);
  BUTTRESS_RETURN_IF_ERROR(NameModel(flags, options));
  if (!flags.dtype.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(options.model.dtype, FindChoice<ModelDtype>(flags.dtype));
  }
  options.prompts = flags.prompts;
  if (!flags.verifier.empty()) options.reward.verifier = flags.verifier;
  options.reward.use_all = options.reward.use_all || flags.use_all;
  options.worker.threads =
      flags.threads > 0 ? flags.threads : std::max(1u, std::thread::hardware_concurrency());
  if (!flags.device.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(options.worker.device, FindChoice<ComputeDevice>(flags.device));
  }
  if (flags.gpu >= 0) options.worker.gpu = flags.gpu;
  options.sampling.temperature = flags.temperature;
  options.sampling.top_p = flags.top_p;
  options.sampling.top_k = flags.top_k;
  options.sampling.seed = flags.seed;
  if (flags.max_tokens > 0)
    options.sampling.max_tokens = static_cast<std::int32_t>(flags.max_tokens);
  options.limit = flags.limit;
  options.completions = flags.completions;
  options.results = flags.results;
  if (flags.completions > 1 && flags.temperature == 0) {
    return InvalidArgument(
        fmt::format("--completions {} at --temperature 0 gives equal completions of each prompt; "
                    "expected a temperature above 0",
                    flags.completions));
  }
  for (const std::int64_t k : flags.ks) {
    if (k > flags.completions) {
      return InvalidArgument(
          fmt::format("--k {0} needs --completions {0} or more; it is {1}", k, flags.completions));
    }
  }
  return options;
}

nlohmann::ordered_json ToJson(const Estimate& estimate) {
  return {{"mean", estimate.mean},
          {"low", estimate.low},
          {"high", estimate.high},
          {"prompts", estimate.prompts}};
}

std::vector<std::int64_t> KsOf(const Flags& flags) {
  return flags.ks.empty() ? PowersUpTo(flags.completions) : flags.ks;
}

void AddRates(const EvalResult& result, const Flags& flags, nlohmann::ordered_json& json) {
  json["avg_at_k"] = ToJson(result.scores.Avg());
  for (const std::int64_t k : KsOf(flags)) {
    json["pass_at_k"][std::to_string(k)] = ToJson(result.scores.PassAt(k));
    json["maj_at_k"][std::to_string(k)] = ToJson(result.scores.MajAt(k));
  }
}

void PrintRates(const EvalResult& result, const Flags& flags) {
  std::printf("avg@k %s, for every k; 95 %% intervals over %lld prompts\n",
              PercentText(result.scores.Avg()).c_str(),
              static_cast<long long>(result.scores.Avg().prompts));
  std::printf("    k  pass@k                     maj@k\n");
  for (const std::int64_t k : KsOf(flags)) {
    std::printf("%5lld  %-25s  %s\n", static_cast<long long>(k),
                PercentText(result.scores.PassAt(k)).c_str(),
                PercentText(result.scores.MajAt(k)).c_str());
  }
}

nlohmann::ordered_json ToJson(const EpisodeTotals& episodes) {
  return {{"turns_mean", episodes.Mean(episodes.turns)},
          {"tool_calls_mean", episodes.Mean(episodes.tool_calls)},
          {"failed_tool_calls", episodes.failed_tool_calls},
          {"at_limit", episodes.at_limit()},
          {"ends", episodes.ends}};
}

void PrintEpisodes(const EpisodeTotals& episodes) {
  std::string ends;
  for (const auto& [end, count] : episodes.ends)
    ends += fmt::format("{}{} {}", ends.empty() ? "" : ", ", end, count);
  std::printf("episodes: %.2f turns, %.2f tool calls (%lld failed in all); ends: %s\n",
              episodes.Mean(episodes.turns), episodes.Mean(episodes.tool_calls),
              static_cast<long long>(episodes.failed_tool_calls), ends.c_str());
}

Status Report(const EvalResult& result, const Flags& flags) {
  nlohmann::ordered_json json;
  const bool scored = result.correct + result.wrong > 0;
  json["accuracy"] = scored ? nlohmann::ordered_json(result.accuracy()) : nullptr;
  json["prompts"] = result.prompts;
  json["completions"] = result.completions;
  json["correct"] = result.correct;
  json["wrong"] = result.wrong;
  json["unscorable"] = result.unscorable;
  json["truncated"] = result.truncated;
  json["temperature"] = flags.temperature;
  json["tokens"] = result.tokens;
  json["seconds"] = result.seconds;
  json["model"] = flags.model;
  if (!flags.server.server.url.empty()) json["server"] = flags.server.server.url;
  if (!flags.adapter.empty()) json["adapter"] = flags.adapter;
  json["prompts_file"] = flags.prompts;
  AddRates(result, flags, json);
  json["by_row"] = result.scores.ByRow();
  if (result.episodes.episodes > 0) json["episodes"] = ToJson(result.episodes);
  if (flags.json) {
    std::printf("%s\n", json.dump().c_str());
  } else {
    const Estimate avg = result.scores.Avg();
    std::string accuracy =
        scored ? fmt::format("{:g} %", std::round(1000 * result.accuracy()) / 10) : "-";
    if (flags.completions == 1 && scored)  // else the rates below have intervals
      accuracy += fmt::format(" [{:g}, {:g}]", std::round(1000 * avg.low) / 10,
                              std::round(1000 * avg.high) / 10);
    std::printf("accuracy %s (%lld of %lld; %lld unscorable, %lld truncated), %.0f tokens/s\n",
                accuracy.c_str(), static_cast<long long>(result.correct),
                static_cast<long long>(result.correct + result.wrong),
                static_cast<long long>(result.unscorable), static_cast<long long>(result.truncated),
                static_cast<double>(result.tokens) / result.seconds);
    if (result.episodes.episodes > 0) PrintEpisodes(result.episodes);
    if (flags.completions > 1) PrintRates(result, flags);
  }
  return flags.out.empty() ? OkStatus() : WriteFileAtomic(flags.out, json.dump() + "\n");
}

Status EvalByFlags(const Flags& flags, const LocalModels* models) {
  BUTTRESS_ASSIGN_OR_RETURN(const EvalOptions options, OptionsFrom(flags));
  BUTTRESS_ASSIGN_OR_RETURN(const EvalResult result, Evaluate(options, models));
  BUTTRESS_RETURN_IF_ERROR(Report(result, flags));
  if (result.unscorable == 0 || result.correct + result.wrong > 0) return OkStatus();
  return NothingToLearn(
      fmt::format("none of {} completions could be scored; try the verifier with `buttress verify`",
                  result.unscorable));
}

}  // namespace

int RunEval(int argc, char** argv, const LocalModels* models) {
  CLI::App app("Accuracy of a model folder, or of the model of a server, on a file of prompts",
               "eval");
  Flags flags;
  flags.AddTo(app);
  return RunCommand(app, argc, argv,
                    [&] { return flags.server.Tidy(EvalByFlags(flags, models), "eval"); });
}

}  // namespace buttress
