#include "rollout_worker/evaluation/eval.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/collectives/cuda_library.h"
#include "lib/config/choice.h"
#include "lib/config/load.h"
#include "lib/data/prompt_file.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/model_config.h"
#include "lib/policy/stop_set.h"
#include "lib/policy/transformer.h"
#include "lib/policy/weights/finite_check.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/verify/verifier.h"
#include "lib/weights/part_file.h"
#include "rollout_worker/episodes/episode_engine.h"
#include "rollout_worker/evaluation/episode_sampler.h"
#include "rollout_worker/evaluation/eval_loop.h"
#include "rollout_worker/evaluation/openai_sampler.h"
#include "rollout_worker/evaluation/sampler.h"

namespace buttress {
namespace {

// Decodes with the model in this process.
class ModelSampler : public EvalSampler {
 public:
  ModelSampler(Transformer& model, const Tokenizer& tokenizer, const WorkerConfig& worker)
      : model_(model),
        tokenizer_(tokenizer),
        threads_(static_cast<int>(worker.threads)),
        generator_(model,
                   {.max_running = worker.max_running, .kv_cache_tokens = worker.kv_cache_tokens}) {
  }

  Status Add(std::uint64_t key, const Prompt& prompt, const SamplingParams& sampling) override {
    return generator_.Add(key, prompt.token_ids, sampling, &tokenizer_);
  }

  Result<std::vector<SampledCompletion>> Step() override {
    if (!std::exchange(prepared_, true)) at::set_num_threads(threads_);  // of this thread alone
    std::vector<SampledCompletion> completions;
    for (GeneratedSequence& sequence : generator_.Step()) {
      if (sequence.finish_reason == FinishReason::kError) {
        BUTTRESS_RETURN_IF_ERROR(
            CheckFinite(model_.parameters(), "the weights of the model", "evaluate another one"));
        return DataLoss(
            "the logits of the model are not finite, though its weights are; check its "
            "config.json, or evaluate it in float32");
      }
      SampledCompletion& completion = completions.emplace_back();
      completion.key = sequence.key;
      completion.finish_reason = sequence.finish_reason;
      completion.tokens = static_cast<std::int64_t>(sequence.token_ids.size());
      double sum = 0;
      for (const float logprob : sequence.logprobs) sum += logprob;
      completion.logprob = sum;
      completion.token_ids = std::move(sequence.token_ids);
    }
    return completions;
  }

  std::int64_t open() const override { return generator_.running() + generator_.waiting(); }

  bool only_texts() const override { return false; }

 private:
  const Transformer& model_;
  const Tokenizer& tokenizer_;
  const int threads_;
  bool prepared_ = false;
  Generator generator_;
};

// The SHA-256 of the safetensors of a folder, in the order of their names.
Result<std::string> DigestOfWeights(const std::string& folder) {
  std::set<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".safetensors") paths.insert(it->path().string());
  }
  std::string digests;
  for (const std::string& path : paths) {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string digest, Sha256OfFile(path));
    digests += digest;
  }
  return ToHex(Sha256Of(digests));
}

Result<nlohmann::ordered_json> SettingsOfModel(const EvalOptions& options) {
  nlohmann::ordered_json settings = {{"model", options.model.path}};
  BUTTRESS_ASSIGN_OR_RETURN(settings["weights_sha256"], DigestOfWeights(options.model.path));
  settings["dtype"] = ChoiceName(options.model.dtype);
  if (!options.adapter.empty()) {
    settings["adapter"] = options.adapter;
    BUTTRESS_ASSIGN_OR_RETURN(settings["adapter_sha256"], DigestOfWeights(options.adapter));
  }
  return settings;
}

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

// kInvalidArgument for a folder of a run that is no Hugging Face folder.
Status CheckIsModel(const std::string& folder) {
  const auto has = [&folder](const char* name) {
    std::error_code none;
    return std::filesystem::exists(JoinPath(folder, name), none);
  };
  if (has("config.json")) return OkStatus();
  if (has("checkpoint.json"))
    return InvalidArgument(folder +
                           " is a checkpoint, whose weights the ranks divide; name the model, best "
                           "or evals/... of the run, or a copy of weights/... with its tokenizer");
  if (has("manifest.json"))
    return InvalidArgument(folder +
                           " has weights alone; name a copy that has config.json and the tokenizer "
                           "of the run's model next to them");
  if (has("model/config.json"))
    return InvalidArgument(folder + " is a run; name its model: " + JoinPath(folder, "model"));
  return OkStatus();
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

Result<EvalResult> SampleAndScore(const EvalOptions& options, const EvalInputs& inputs,
                                  const SamplingParams& sampling, const Tokenizer& tokenizer,
                                  EvalSampler& sampler) {
  if (!options.env.on())
    return RunEvaluation(inputs, sampling, options.completions, options.reward, tokenizer, sampler);
  BUTTRESS_ASSIGN_OR_RETURN(const auto episodes, MakeEpisodeSampler(EpisodesOf(options), tokenizer,
                                                                    options.completions, sampler));
  return RunEvaluation(inputs, sampling, options.completions, options.reward, tokenizer, *episodes);
}

Result<EvalResult> EvaluateModel(const EvalOptions& options, const OpenEvalInputs& open) {
  BUTTRESS_RETURN_IF_ERROR(CheckIsModel(options.model.path));
  if (options.env.on()) BUTTRESS_RETURN_IF_ERROR(CheckEpisodes(EpisodesOf(options)));
  ModelDevice device{.cuda = options.worker.device == ComputeDevice::kCuda, .index = 0};
  if (device.cuda) {
    BUTTRESS_ASSIGN_OR_RETURN(device.index, OpenGpu(options.worker.gpu, "eval", "--device cpu"));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.model.path));
  nlohmann::ordered_json settings;
  if (!options.results.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(settings, SettingsOfModel(options));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const EvalInputs inputs, open(options, *tokenizer, settings));
  BUTTRESS_ASSIGN_OR_RETURN(const auto model,
                            Transformer::Load(options.model.path, options.model.dtype, device));
  if (!options.adapter.empty()) BUTTRESS_RETURN_IF_ERROR(AddAdapters(options.adapter, *model));
  SamplingParams sampling = options.sampling;
  BUTTRESS_RETURN_IF_ERROR(
      DecideStops(model->config(), tokenizer.get(), sampling).Annotate("run.sampling"));
  ModelSampler sampler(*model, *tokenizer, options.worker);
  return SampleAndScore(options, inputs, sampling, *tokenizer, sampler);
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
    BUTTRESS_RETURN_IF_ERROR(CheckEpisodes(EpisodesOf(options)));
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

Result<EvalResult> Evaluate(const EvalOptions& options) {
  return EvaluateInputs(options, OpenInputs);
}

Result<EvalResult> EvaluateInputs(const EvalOptions& options, const OpenEvalInputs& open) {
  return options.server.url.empty() ? EvaluateModel(options, open) : EvaluateServer(options, open);
}

}  // namespace buttress
