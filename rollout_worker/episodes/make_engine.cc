#include <utility>

#include "rollout_worker/episodes/environment.h"
#include "rollout_worker/episodes/episode_engine.h"

namespace buttress {
namespace {

Result<std::unique_ptr<EpisodeRunner>> MakeRunner(const RunConfig& config,
                                                  const Tokenizer& tokenizer) {
  if (config.run.env.kind != EnvKind::kBuiltin)
    return MakeAgentRunner(config.run.env, config.local.worker.episodes, tokenizer);
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<EnvironmentFactory> factory,
                            EnvironmentFactory::Create(config.run));
  return MakeBuiltinRunner(std::move(factory), config.run.seed);
}

}  // namespace

Status CheckEpisodes(const RunConfig& config) {
  const RunSettings& run = config.run;
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(run.model.path));
  BUTTRESS_RETURN_IF_ERROR(EpisodeCodec::Create(run, *tokenizer).status());
  if (run.env.kind == EnvKind::kExec) return AgentProgram(run.env).status();
  if (run.env.kind == EnvKind::kBuiltin) return EnvironmentFactory::Create(run).status();
  return OkStatus();
}

Result<std::unique_ptr<InferenceEngine>> MakeEpisodeEngine(const RunConfig& config,
                                                           const Tokenizer& tokenizer,
                                                           std::unique_ptr<InferenceEngine> below) {
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<EpisodeCodec> codec,
                            EpisodeCodec::Create(config.run, tokenizer));
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<EpisodeRunner> runner, MakeRunner(config, tokenizer));
  return MakeEpisodeEngine(std::move(below), std::move(codec), std::move(runner),
                           static_cast<std::size_t>(config.local.worker.episodes.running));
}

}  // namespace buttress
