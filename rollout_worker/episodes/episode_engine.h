// Episodes as samples: an engine that decorates another. A sample with a task becomes an episode,
// whose calls of the policy are samples of the engine below.
//
//   Submit ──► queue ──► threads, one an episode: EpisodeRunner ──► Poll
//                              │        ▲
//                              └ calls ─┴► EngineHub ──► engine below
//
// Tokens: those generated are of all answers; those of an episode that nobody gets are cut.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/engine.h"
#include "rollout_worker/episodes/runner.h"

namespace buttress {

// What the conversations of a run are encoded with. Pinned, because its parts name each other.
class EpisodeCodec {
 public:
  // kInvalidArgument for a chat template that conversations cannot grow with. Without one, agents
  // may only send prompts to /completions, and run.env.kind: builtin is refused.
  static Result<std::unique_ptr<EpisodeCodec>> Create(const RunSettings& run,
                                                      const Tokenizer& tokenizer);

  EpisodeCodec(const EpisodeCodec&) = delete;
  EpisodeCodec& operator=(const EpisodeCodec&) = delete;

  SessionParts parts() const {
    return {env_, encoder_, turns_ ? &*turns_ : nullptr, format_, max_prompt_tokens_};
  }

 private:
  EpisodeCodec(const RunSettings& run, TextEncoder encoder)
      : env_(run.env),
        max_prompt_tokens_(run.data.max_prompt_tokens),
        encoder_(std::move(encoder)) {}

  const EnvConfig env_;
  const std::int64_t max_prompt_tokens_;
  const TextEncoder encoder_;
  std::optional<TurnEncoder> turns_;
  ToolFormat format_ = ToolFormat::kHermes;
};

// At most `running` episodes at once; the others wait. Cancel and the end of the engine end the
// episodes that run. Of episodes, Unfinished returns nothing: none is continued.
std::unique_ptr<InferenceEngine> MakeEpisodeEngine(std::unique_ptr<InferenceEngine> below,
                                                   std::unique_ptr<EpisodeCodec> codec,
                                                   std::unique_ptr<EpisodeRunner> runner,
                                                   std::size_t running);

// Returns why the configuration cannot make one: the chat template, the environment or the program
// of the agent. REQUIRES: run.env is on.
Status CheckEpisodes(const RunConfig& config);

// The same as the configuration says. REQUIRES: run.env is on; `tokenizer` outlives the engine.
Result<std::unique_ptr<InferenceEngine>> MakeEpisodeEngine(const RunConfig& config,
                                                           const Tokenizer& tokenizer,
                                                           std::unique_ptr<InferenceEngine> below);

}  // namespace buttress
