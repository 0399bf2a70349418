#include "rollout_worker/evaluation/eval.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"
#include "lib/base/text/random.h"
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
#include "rollout_worker/evaluation/openai_sampler.h"
#include "rollout_worker/evaluation/sampler.h"
#include "rollout_worker/scoring/scoring_pool.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPollWait(100);
constexpr double kProgressSeconds = 10;

double Rounded(double value) { return std::round(10 * value) / 10; }

// Decodes with the model in this process.
class ModelSampler : public EvalSampler {
 public:
  ModelSampler(Transformer& model, const Tokenizer& tokenizer, const WorkerConfig& worker)
      : model_(model),
        tokenizer_(tokenizer),
        generator_(model,
                   {.max_running = worker.max_running, .kv_cache_tokens = worker.kv_cache_tokens}) {
  }

  Status Add(std::uint64_t key, const Prompt& prompt, const SamplingParams& sampling) override {
    return generator_.Add(key, prompt.token_ids, sampling, &tokenizer_);
  }

  Result<std::vector<SampledCompletion>> Step() override {
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
      completion.token_ids = std::move(sequence.token_ids);
    }
    return completions;
  }

  std::int64_t open() const override { return generator_.running() + generator_.waiting(); }

  bool only_texts() const override { return false; }

 private:
  const Transformer& model_;
  const Tokenizer& tokenizer_;
  Generator generator_;
};

class Evaluation {
 public:
  // `file` may be null.
  Evaluation(const PromptFile& prompts, const Tokenizer& tokenizer, ScoringPool& scoring,
             EvalSampler& sampler, EvalFile* file, const EvalOptions& options)
      : prompts_(prompts),
        tokenizer_(tokenizer),
        scoring_(scoring),
        sampler_(sampler),
        file_(file),
        completions_(options.completions) {
    const auto rows = static_cast<std::int64_t>(prompts.size());
    rows_ = options.limit > 0 ? std::min(options.limit, rows) : rows;
  }

  Result<EvalResult> Run(const SamplingParams& sampling) {
    std::set<std::int64_t> done;
    if (file_ != nullptr) {
      for (const EvalPrompt& prompt : file_->found().prompts) {
        if (prompt.row >= rows_) continue;
        done.insert(prompt.row);
        result_.Add(prompt);
      }
      seconds_before_ = file_->found().seconds;
    }
    BUTTRESS_RETURN_IF_ERROR(AddPrompts(done, sampling));
    if (!done.empty()) Log(kInfo, "continuing", {{"done", done.size()}, {"prompts", of_}});
    double reported = started_;
    while (sampler_.open() > 0) {
      if (ShutdownRequested()) return Cancelled("interrupted");
      BUTTRESS_ASSIGN_OR_RETURN(std::vector<SampledCompletion> sampled, sampler_.Step());
      for (SampledCompletion& completion : sampled)
        BUTTRESS_RETURN_IF_ERROR(Score(std::move(completion), sampling));
      BUTTRESS_RETURN_IF_ERROR(Count(scoring_.Poll(std::chrono::milliseconds(0))));
      if (MonotonicSeconds() - reported > kProgressSeconds) {
        reported = MonotonicSeconds();
        TellProgress(static_cast<std::int64_t>(done.size()));
      }
    }
    while (scoring_.inside() > 0) BUTTRESS_RETURN_IF_ERROR(Count(scoring_.Poll(kPollWait)));
    result_.seconds = of_ > static_cast<std::int64_t>(done.size()) ? Seconds() : seconds_before_;
    return result_;
  }

 private:
  // Queues all samples before the first step, so that every run decodes the same batches and gives
  // the same bits.
  Status AddPrompts(const std::set<std::int64_t>& done, const SamplingParams& sampling) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const auto read = prompts_.Read(static_cast<std::size_t>(row));
      if (read.status().code() == StatusCode::kOutOfRange) continue;  // over_long: drop
      BUTTRESS_RETURN_IF_ERROR(read.status());
      if (!done.contains(row)) {
        const Status added = Add(row, *read, sampling);
        if (added.code() == StatusCode::kOutOfRange) {
          Log(kWarn, "a prompt is left out", {{"error", added.message()}});
          continue;
        }
        BUTTRESS_RETURN_IF_ERROR(added);
      }
      ++of_;
    }
    return OkStatus();
  }

  Status Add(std::int64_t row, const Prompt& prompt, const SamplingParams& sampling) {
    for (std::int64_t i = 0; i < completions_; ++i) {
      const auto key = static_cast<std::uint64_t>(row * completions_ + i);
      SamplingParams own = sampling;
      own.seed = MixSeed(sampling.seed, key);
      BUTTRESS_RETURN_IF_ERROR(sampler_.Add(key, prompt, own).Annotate("prompt " + prompt.id));
    }
    return OkStatus();
  }

  Status Score(SampledCompletion completion, const SamplingParams& sampling) {
    const auto row = static_cast<std::int64_t>(completion.key) / completions_;
    std::vector<SampledCompletion>& completions = unfinished_[row];
    completions.push_back(std::move(completion));
    if (static_cast<std::int64_t>(completions.size()) < completions_) return OkStatus();
    std::ranges::sort(completions, {}, &SampledCompletion::key);
    BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, prompts_.Read(static_cast<std::size_t>(row)));
    ScoreRequest request;
    for (SampledCompletion& one : completions) {
      EngineResult& sample = request.samples.emplace_back();
      sample.id.group_id = static_cast<std::uint64_t>(row);
      sample.id.index = static_cast<std::int32_t>(request.samples.size() - 1);
      sample.finish_reason = one.finish_reason;
      sample.token_ids = std::move(one.token_ids);
      if (sampler_.only_texts()) request.texts.push_back(std::move(one.text));
      scored_[row].completions.emplace_back().tokens = one.tokens;
    }
    unfinished_.erase(row);
    request.source = prompt.source;
    request.answer = prompt.answer;
    request.extra_json = prompt.extra_json;
    BUTTRESS_ASSIGN_OR_RETURN(request.prompt,
                              tokenizer_.Decode(prompt.token_ids, SpecialTokens::kKeep));
    request.sampling = sampling;
    while (!scoring_.Submit(request).ok())
      BUTTRESS_RETURN_IF_ERROR(Count(scoring_.Poll(kPollWait)));
    return OkStatus();
  }

  Status Count(const std::vector<ScoredCompletion>& scored) {
    for (const auto& [sample, verdict, second_outcome] : scored) {
      const auto row = static_cast<std::int64_t>(sample.id.group_id);
      EvalPrompt& prompt = scored_[row];
      EvalCompletion& completion = prompt.completions[static_cast<std::size_t>(sample.id.index)];
      completion.outcome = verdict.outcome;
      completion.answer = verdict.given;
      completion.reward = verdict.outcome == Outcome::kUnscorable ? 0 : TotalReward(verdict);
      completion.truncated = sample.finish_reason == FinishReason::kLength;
      // A request has all completions of a prompt, and its results come together.
      if (sample.id.index + 1 < completions_) continue;
      prompt.row = row;
      result_.Add(prompt);
      if (file_ != nullptr) BUTTRESS_RETURN_IF_ERROR(file_->Append(prompt, Seconds()));
      scored_.erase(row);
    }
    return OkStatus();
  }

  double Seconds() const { return seconds_before_ + MonotonicSeconds() - started_; }

  // `before`: prompts that were done before this process started.
  void TellProgress(std::int64_t before) const {
    const double per_second =
        static_cast<double>(result_.prompts - before) / (MonotonicSeconds() - started_);
    const double left = static_cast<double>(of_ - result_.prompts) / per_second;
    const std::string accuracy = PercentText(result_.scores.Avg());
    Log(kInfo, "evaluating",
        {{"prompts", result_.prompts},
         {"of", of_},
         {"prompts_per_minute", Rounded(60 * per_second)},
         {"minutes_left", Rounded(left / 60)},
         {"accuracy", accuracy.substr(accuracy.find_first_not_of(' '))}});
  }

  const PromptFile& prompts_;
  const Tokenizer& tokenizer_;
  ScoringPool& scoring_;
  EvalSampler& sampler_;
  EvalFile* const file_;
  const std::int64_t completions_;  // per prompt
  std::int64_t rows_ = 0;           // of the prompt file
  std::int64_t of_ = 0;             // prompts
  const double started_ = MonotonicSeconds();
  double seconds_before_ = 0;  // of earlier processes
  // By row, until all completions of the prompt are there, and until they have verdicts.
  std::map<std::int64_t, std::vector<SampledCompletion>> unfinished_;
  std::map<std::int64_t, EvalPrompt> scored_;
  EvalResult result_;
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
}

// What an evaluation has besides its sampler.
struct EvalInputs {
  std::unique_ptr<PromptFile> prompts;
  std::unique_ptr<const VerifierSet> verifiers;
  std::unique_ptr<EvalFile> results;  // null: not kept
};

// Opens the results with `settings`, which are those of the model. `tokenizer` outlives the inputs.
Result<EvalInputs> OpenInputs(const EvalOptions& options, const Tokenizer& tokenizer,
                              nlohmann::ordered_json settings) {
  EvalInputs inputs;
  BUTTRESS_ASSIGN_OR_RETURN(
      inputs.prompts,
      PromptFile::Open(options.prompts, options.data, tokenizer, AnswerFormsOf(options.reward)));
  BUTTRESS_ASSIGN_OR_RETURN(const DroppedRows dropped, inputs.prompts->CheckRows(/*stop=*/false));
  if (dropped.count > 0) {
    Log(kWarn, "prompts longer than run.data.max_prompt_tokens are left out",
        {{"dropped", dropped.count}, {"lines", dropped.first}});
  }
  BUTTRESS_ASSIGN_OR_RETURN(inputs.verifiers, VerifierSet::Make(options.reward));
  if (options.results.empty()) return inputs;
  AddSettings(options, *inputs.prompts, settings);
  BUTTRESS_ASSIGN_OR_RETURN(inputs.results, EvalFile::Open(options.results, settings));
  return inputs;
}

Result<EvalResult> RunEvaluation(const EvalOptions& options, const SamplingParams& sampling,
                                 const Tokenizer& tokenizer, EvalInputs inputs,
                                 EvalSampler& sampler) {
  Metrics metrics("worker");
  ScoringOptions scoring_options;
  scoring_options.timeout = std::chrono::milliseconds(options.reward.timeout_ms);
  const auto scoring =
      ScoringPool::Start(std::move(inputs.verifiers), tokenizer, scoring_options, metrics);
  return Evaluation(*inputs.prompts, tokenizer, *scoring, sampler, inputs.results.get(), options)
      .Run(sampling);
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

Result<EvalResult> EvaluateModel(const EvalOptions& options) {
  BUTTRESS_RETURN_IF_ERROR(CheckIsModel(options.model.path));
  ModelDevice device{.cuda = options.worker.device == ComputeDevice::kCuda, .index = 0};
  if (device.cuda) {
    BUTTRESS_ASSIGN_OR_RETURN(device.index, OpenGpu(options.worker.gpu, "eval", "--device cpu"));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.model.path));
  nlohmann::ordered_json settings;
  if (!options.results.empty()) {
    BUTTRESS_ASSIGN_OR_RETURN(settings, SettingsOfModel(options));
  }
  BUTTRESS_ASSIGN_OR_RETURN(EvalInputs inputs, OpenInputs(options, *tokenizer, settings));
  BUTTRESS_ASSIGN_OR_RETURN(const auto model,
                            Transformer::Load(options.model.path, options.model.dtype, device));
  if (!options.adapter.empty()) BUTTRESS_RETURN_IF_ERROR(AddAdapters(options.adapter, *model));
  SamplingParams sampling = options.sampling;
  BUTTRESS_RETURN_IF_ERROR(
      DecideStops(model->config(), tokenizer.get(), sampling).Annotate("run.sampling"));
  at::set_num_threads(static_cast<int>(options.worker.threads));
  ModelSampler sampler(*model, *tokenizer, options.worker);
  return RunEvaluation(options, sampling, *tokenizer, std::move(inputs), sampler);
}

// With the tokenizer of the model its template is applied here, and the server gets tokens; without
// it the server gets messages.
Result<EvalResult> EvaluateServer(EvalOptions options) {
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
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto sampler,
      OpenAiSampler::Open(options.server, messages ? tokenizer.get() : nullptr));
  const nlohmann::ordered_json settings = {{"model", sampler->model()},
                                           {"api", messages ? "chat" : "completions"}};
  SamplingParams sampling = options.sampling;
  if (!messages && sampler->is_vllm()) {
    BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(options.model.path));
    BUTTRESS_RETURN_IF_ERROR(
        DecideStops(config, tokenizer.get(), sampling).Annotate("run.sampling"));
  }
  BUTTRESS_ASSIGN_OR_RETURN(EvalInputs inputs, OpenInputs(options, *tokenizer, settings));
  return RunEvaluation(options, sampling, *tokenizer, std::move(inputs), *sampler);
}

}  // namespace

EvalOptions EvalOptionsOf(const RunConfig& config) {
  const SamplingConfig& sampling = config.run.sampling;
  EvalOptions options;
  options.model = config.run.model;
  options.prompts = config.run.data.held_out;
  options.data = config.run.data;
  options.reward = config.run.reward;
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

Result<EvalResult> Evaluate(const EvalOptions& options) {
  return options.server.url.empty() ? EvaluateModel(options) : EvaluateServer(options);
}

}  // namespace buttress
