#include "rollout_worker/evaluation/eval.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "lib/base/report/log.h"
#include "lib/config/load.h"
#include "lib/data/prompt_file.h"
#include "lib/policy/model_config.h"
#include "lib/policy/stop_set.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/episodes/episode_engine.h"
#include "rollout_worker/evaluation/episode_sampler.h"
#include "rollout_worker/evaluation/local_models.h"

namespace buttress {
namespace {

// Adds what decides the completions and their verdicts besides the model.
void AddSettings(const EvalOptions& options, const PromptFile& prompts,
                 nlohmann::ordered_json& settings) {
  const SamplingParams& sampling = options.sampling;
  settings["prompts"] = options.prompts;
  settings["prompts_sha256"] = prompts.sha256();
  settings["verifier"] = options.reward.verifier;
  // The other settings of run.data and run.reward.
  RunConfig config;
  config.run.data = options.data;
  config.run.reward = options.reward;
  config.run.data.prompts = config.run.data.held_out = "";
  settings["data_and_reward_sha256"] = RunConfigHash(config);
  settings["completions"] = options.completions;
  settings["temperature"] = sampling.temperature;
  settings["top_p"] = sampling.top_p;
  settings["top_k"] = sampling.top_k;
  settings["max_tokens"] = sampling.max_tokens;
  settings["min_tokens"] = sampling.min_tokens;
  settings["stop"] = sampling.stop;
  settings["stop_token_ids"] = sampling.stop_token_ids;
  settings["include_stop"] = sampling.include_stop;
  settings["seed"] = sampling.seed;
  AddEpisodeSettings(options.env, settings);
}

// Opens the prompts and the results of `buttress eval`.
Result<EvalInputs> OpenInputs(const EvalOptions& options, const Tokenizer& tokenizer,
                              nlohmann::ordered_json settings) {
  EvalInputs inputs;
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::shared_ptr<PromptFile> prompts,
      PromptFile::Open(options.prompts, options.data, tokenizer, AnswerFormsOf(options.reward)));
  BUTTRESS_ASSIGN_OR_RETURN(const DroppedRows dropped, prompts->CheckRows(/*stop=*/false));
  if (dropped.count > 0) {
    Log(kWarn, "prompts longer than run.data.max_prompt_tokens are left out",
        {{"dropped", dropped.count}, {"lines", dropped.first}});
  }
  const auto rows = static_cast<std::int64_t>(prompts->size());
  inputs.rows = options.limit > 0 ? std::min(options.limit, rows) : rows;
  inputs.read = [prompts](std::int64_t row) {
    return prompts->Read(static_cast<std::size_t>(row));
  };
  BUTTRESS_ASSIGN_OR_RETURN(inputs.verifiers, VerifierSet::Make(options.reward));
  if (options.results.empty()) return inputs;
  AddSettings(options, *prompts, settings);
  BUTTRESS_ASSIGN_OR_RETURN(inputs.results, EvalFile::Open(options.results, settings));
  return inputs;
}

// The parts of a run that its episodes need.
RunConfig EpisodesOf(const EvalOptions& options) {
  RunConfig config;
  config.run.seed = options.sampling.seed;
  config.run.model.path = options.model.path;
  config.run.data = options.data;
  config.run.reward = options.reward;
  config.run.env = options.env;
  config.local.worker = options.worker;
  // The port of the configuration is that of a worker, which may run on this machine.
  EpisodesConfig& agents = config.local.worker.episodes;
  if (agents.url.empty()) agents.listen = agents.listen.substr(0, agents.listen.rfind(':')) + ":0";
  return config;
}

// With the tokenizer of the model its template is applied here, and the server gets tokens; without
// it the server gets messages.
Result<EvalResult> EvaluateServer(EvalOptions options, const OpenEvalInputs& open) {
  const bool messages = options.model.path.empty();
  std::unique_ptr<Tokenizer> tokenizer = std::make_unique<MessagesTokenizer>();
  if (messages) {
    if (!options.data.template_arguments.empty())
      return InvalidArgument(
          "run.data.template_arguments are for a template that is applied here; name the model's "
          "folder with --tokenizer");
    options.data.chat_template = true;
    options.data.max_prompt_tokens = std::numeric_limits<std::int64_t>::max();
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Load(options.model.path));
  }
  if (options.env.on()) {
    if (messages)
      return InvalidArgument(
          "the conversations of run.env are encoded here; name the model's folder with "
          "--tokenizer");
    BUTTRESS_RETURN_IF_ERROR(CheckConversations(options));
    options.server.token_ids = true;
  }
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto sampler,
      OpenAiSampler::Open(options.server, messages ? tokenizer.get() : nullptr));
  if (options.env.on() && !sampler->is_vllm())
    return InvalidArgument(options.server.url +
                           " is neither vLLM nor `buttress serve`; the episodes of run.env need a "
                           "server that returns the tokens of its completions");
  const nlohmann::ordered_json settings = {{"model", sampler->model()},
                                           {"api", messages ? "chat" : "completions"}};
  SamplingParams sampling = options.sampling;
  if (!messages && sampler->is_vllm()) {
    BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(options.model.path));
    BUTTRESS_RETURN_IF_ERROR(
        DecideStops(config, tokenizer.get(), sampling).Annotate("run.sampling"));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const EvalInputs inputs, open(options, *tokenizer, settings));
  return SampleAndScore(options, inputs, sampling, *tokenizer, *sampler);
}

}  // namespace

EvalOptions EvalOptionsOf(const RunConfig& config) {
  const SamplingConfig& sampling = config.run.sampling;
  EvalOptions options;
  options.model = config.run.model;
  options.prompts = config.run.data.held_out;
  options.data = config.run.data;
  options.reward = config.run.reward;
  options.env = config.run.env;
  options.worker = config.local.worker;
  options.sampling.temperature = 0;
  options.sampling.seed = config.run.seed;
  options.sampling.max_tokens = static_cast<std::int32_t>(sampling.max_tokens);
  options.sampling.stop_token_ids.assign(sampling.stop_token_ids.begin(),
                                         sampling.stop_token_ids.end());
  options.sampling.stop = sampling.stop;
  options.sampling.include_stop = sampling.include_stop;
  return options;
}

void AddEpisodeSettings(const EnvConfig& env, nlohmann::ordered_json& settings) {
  if (!env.on()) return;
  RunConfig config;
  config.run.env = env;
  settings["env_sha256"] = RunConfigHash(config);
}

Result<EvalResult> Evaluate(const EvalOptions& options, const LocalModels* models) {
  return EvaluateInputs(options, models, OpenInputs);
}

Result<EvalResult> EvaluateInputs(const EvalOptions& options, const LocalModels* models,
                                  const OpenEvalInputs& open) {
  if (!options.server.url.empty()) return EvaluateServer(options, open);
  if (models != nullptr) return models->evaluate(options, open);
  return InvalidArgument(
      "the Python package runs no model; name a server with --server or --vllm, or use the full "
      "program, which deploy/build.sh builds");
}

Status CheckConversations(const EvalOptions& options) {
  return options.env.on() ? CheckEpisodes(EpisodesOf(options)) : OkStatus();
}

Result<EvalResult> SampleAndScore(const EvalOptions& options, const EvalInputs& inputs,
                                  const SamplingParams& sampling, const Tokenizer& tokenizer,
                                  EvalSampler& sampler) {
  if (!options.env.on())
    return RunEvaluation(inputs, sampling, options.completions, options.reward, tokenizer, sampler);
  BUTTRESS_ASSIGN_OR_RETURN(const auto episodes, MakeEpisodeSampler(EpisodesOf(options), tokenizer,
                                                                    options.completions, sampler));
  return RunEvaluation(inputs, sampling, options.completions, options.reward, tokenizer, *episodes);
}

}  // namespace buttress
