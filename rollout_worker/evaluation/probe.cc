#include "rollout_worker/evaluation/probe.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "lib/base/text/random.h"
#include "lib/config/load.h"
#include "lib/data/prompt_set.h"
#include "lib/policy/model_config.h"
#include "lib/verify/audit/controls.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/evaluation/local_models.h"

namespace buttress {
namespace {

// The prompts of one source in a random order, again and again.
class SourceDraws {
 public:
  SourceDraws(const PromptSet::Source& source, std::uint64_t seed) : source_(source), seed_(seed) {}

  // How many draws behind its share of all draws the source would be.
  double Lack(double share, std::size_t draws) const {
    return share * static_cast<double>(draws + 1) - static_cast<double>(drawn_);
  }

  // kOutOfRange after a pass without a prompt that is not left out; with `once` after the first
  // pass.
  Result<Prompt> Next(bool once) {
    for (std::size_t left_out = 0; left_out <= source_.file->size(); ++left_out) {
      if (next_ == order_.size()) {
        if (once && pass_ > 0) break;
        order_ = PromptOrder(seed_, source_.settings.name, pass_++, source_.file->size());
        next_ = 0;
        if (order_.empty()) break;
      }
      Result<Prompt> prompt = source_.file->Read(order_[next_++]);
      if (prompt.status().code() == StatusCode::kOutOfRange) continue;  // over_long: drop
      if (prompt.ok()) ++drawn_;
      return prompt;
    }
    return OutOfRange("no prompt is left");
  }

 private:
  const PromptSet::Source& source_;
  const std::uint64_t seed_;
  std::vector<std::uint32_t> order_;
  std::uint64_t pass_ = 0;
  std::size_t next_ = 0;
  std::int64_t drawn_ = 0;
};

Result<std::vector<Prompt>> DrawPrompts(const PromptSet& set, std::int64_t count,
                                        std::uint64_t seed) {
  std::vector<SourceDraws> sources;
  double weights = 0;
  for (const PromptSet::Source& source : set.sources()) {
    sources.emplace_back(source, MixSeed(seed, HashText("probe")));
    weights += source.settings.weight;
  }
  const std::uint64_t most = std::min(static_cast<std::uint64_t>(count), set.size());
  std::vector<Prompt> prompts;
  while (prompts.size() < most) {
    std::size_t next = 0;
    double lack = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const double of = sources[i].Lack(set.sources()[i].settings.weight / weights, prompts.size());
      if (i > 0 && of <= lack) continue;
      lack = of;
      next = i;
    }
    Result<Prompt> prompt = sources[next].Next(/*once=*/sources.size() == 1);
    if (prompt.status().code() == StatusCode::kOutOfRange) {
      if (sources.size() == 1 && !prompts.empty()) break;
      return InvalidArgument(set.sources()[next].settings.section +
                             ": no prompt has at most max_prompt_tokens; raise it or change the "
                             "dataset");
    }
    BUTTRESS_RETURN_IF_ERROR(prompt.status());
    prompts.push_back(*std::move(prompt));
  }
  return prompts;
}

// Whether Verdict::given is an answer; of the other verifiers it is a score, a count or a fault.
bool ReadsAnswers(std::string_view verifier) {
  constexpr std::string_view kReading[] = {"exact",     "number",     "math",   "arithmetic",
                                           "countdown", "normalized", "choice", "json_schema"};
  return std::ranges::find(kReading, verifier) != std::end(kReading);
}

// Whether every verdict is that of a verifier: a game and an agent may reward an episode instead.
bool VerifiersJudge(const EnvConfig& env) {
  return !env.on() || (env.kind == EnvKind::kBuiltin && env.name == BuiltinEnv::kTools);
}

// What decides the completions and their verdicts besides the model.
void AddProbeSettings(const ProbeOptions& options, const PromptSet& set,
                      nlohmann::ordered_json& settings) {
  RunConfig config;
  config.run.data = options.config.run.data;
  config.run.reward = options.config.run.reward;
  config.run.sampling = options.config.run.sampling;
  config.run.sampling.group_size = SamplingConfig().group_size;
  settings["data_reward_and_sampling_sha256"] = RunConfigHash(config);
  AddEpisodeSettings(options.config.run.env, settings);
  for (const PromptSet::Source& source : set.sources())
    settings["prompts_sha256"].push_back(source.file->sha256());
  settings["completions"] = options.completions;
  settings["seed"] = options.seed;
}

class Prober {
 public:
  Prober(const ProbeOptions& options, const LocalModels* models)
      : options_(options), models_(models) {}

  Result<ProbeFacts> Run() {
    EvalOptions eval = EvalOptionsOf(options_.config);
    const SamplingConfig& sampling = options_.config.run.sampling;
    eval.server = options_.server;
    eval.server.logprobs = true;
    eval.sampling.temperature = sampling.temperature;
    eval.sampling.top_p = sampling.top_p;
    eval.sampling.top_k = static_cast<std::int32_t>(sampling.top_k);
    eval.sampling.min_tokens = static_cast<std::int32_t>(sampling.min_tokens);
    eval.sampling.seed = MixSeed(options_.seed, HashText("probe"));
    eval.completions = options_.completions;
    eval.results = options_.results;
    if (eval.worker.threads == 0)
      eval.worker.threads = std::max(1u, std::thread::hardware_concurrency());
    BUTTRESS_ASSIGN_OR_RETURN(const EvalResult result,
                              EvaluateInputs(eval, models_,
                                             [this](const EvalOptions&, const Tokenizer& tokenizer,
                                                    nlohmann::ordered_json settings) {
                                               return Open(tokenizer, std::move(settings));
                                             }));
    facts_.seconds = result.seconds;
    const bool judged = VerifiersJudge(options_.config.run.env);
    for (auto& [row, completions] : scored_) {
      const std::string& source = prompts_[static_cast<std::size_t>(row)].source;
      facts_.prompts.push_back(
          {source, std::move(completions), judged && ReadsAnswers(verifiers_->NameFor(source))});
    }
    return std::move(facts_);
  }

 private:
  Result<EvalInputs> Open(const Tokenizer& tokenizer, nlohmann::ordered_json settings) {
    const RunSettings& run = options_.config.run;
    BUTTRESS_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(run.model.path));
    BUTTRESS_ASSIGN_OR_RETURN(const PromptSet set,
                              PromptSet::Open(run, tokenizer, "", model.max_positions));
    BUTTRESS_ASSIGN_OR_RETURN(prompts_, DrawPrompts(set, options_.prompts, options_.seed));
    facts_.rows = set.size();
    EvalInputs inputs;
    inputs.rows = static_cast<std::int64_t>(prompts_.size());
    inputs.read = [this](std::int64_t row) -> Result<Prompt> {
      return prompts_[static_cast<std::size_t>(row)];
    };
    for (const PromptSet::Source& source : set.sources()) {
      if (!source.settings.name.empty())
        inputs.max_tokens[source.settings.name] =
            static_cast<std::int32_t>(source.settings.max_tokens);
    }
    BUTTRESS_ASSIGN_OR_RETURN(inputs.verifiers, VerifierSet::Make(run.reward));
    verifiers_ = inputs.verifiers;
    if (VerifiersJudge(run.env))
      BUTTRESS_RETURN_IF_ERROR(JudgeControls(tokenizer, *inputs.verifiers));
    if (!options_.reference.empty()) {
      BUTTRESS_ASSIGN_OR_RETURN(reference_, models_->load_reference(options_.reference, run.model,
                                                                    options_.config.local.worker));
      facts_.reference = options_.reference;
    }
    inputs.on_sampled = [this](const Prompt& prompt,
                               std::span<const SampledCompletion> completions) -> Status {
      SampledTokens sums;
      for (const SampledCompletion& one : completions) {
        if (!one.logprob) return OkStatus();
        sums.tokens += static_cast<double>(one.tokens);
        sums.logprob += *one.logprob;
      }
      if (reference_) {
        BUTTRESS_ASSIGN_OR_RETURN(
            sums.reference,
            reference_->Read(prompt, completions, options_.config.run.sampling.temperature));
      }
      facts_.sampled.push_back(sums);
      return OkStatus();
    };
    inputs.on_scored = [this](const EvalPrompt& prompt) {
      scored_[prompt.row] = prompt.completions;
    };
    if (options_.results.empty()) return inputs;
    AddProbeSettings(options_, set, settings);
    BUTTRESS_ASSIGN_OR_RETURN(inputs.results, EvalFile::Open(options_.results, settings));
    return inputs;
  }

  Status JudgeControls(const Tokenizer& tokenizer, const VerifierSet& verifiers) {
    const RewardConfig& reward = options_.config.run.reward;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      const Prompt& prompt = prompts_[i];
      BUTTRESS_ASSIGN_OR_RETURN(const std::string text,
                                tokenizer.Decode(prompt.token_ids, SpecialTokens::kKeep));
      const auto judge = [&](const std::optional<std::string>& response, Outcome must,
                             ControlCount& count) {
        if (!response) return;
        const Verdict verdict = verifiers.For(prompt.source)
                                    .Verify({.prompt = text,
                                             .response = *response,
                                             .answer = prompt.answer,
                                             .extra_json = prompt.extra_json,
                                             .source = prompt.source});
        if (verdict.not_applicable) return;
        ++count.tried;
        if (verdict.outcome == must) return;
        if (++count.failed == 1)
          count.example = "'" + *response + "' for the answer '" + prompt.answer + "'";
      };
      const std::string_view name = verifiers.NameFor(prompt.source);
      judge(GoldResponse(name, prompt.answer, reward), Outcome::kCorrect, facts_.gold);
      judge(SpoiledResponse(name, prompt.answer, reward, i), Outcome::kWrong, facts_.spoiled);
    }
    return OkStatus();
  }

  const ProbeOptions& options_;
  const LocalModels* const models_;
  std::unique_ptr<ReferenceModel> reference_;  // null: none
  std::shared_ptr<const VerifierSet> verifiers_;
  std::vector<Prompt> prompts_;
  std::map<std::int64_t, std::vector<EvalCompletion>> scored_;  // by index in prompts_
  ProbeFacts facts_;
};

}  // namespace

Result<ProbeFacts> RunProbe(const ProbeOptions& options, const LocalModels* models) {
  return Prober(options, models).Run();
}

}  // namespace buttress
