// The episodes of an evaluation (run.env): they are sampled as a run samples them, by the engine of
// episodes, whose answers of the policy come from the sampler of completions.
//
//   RunEvaluation ──► EpisodeSampler ──► episode engine ──► SamplerEngine ──► sampler below
#pragma once

#include <cstdint>
#include <memory>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/eval_results.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/episodes/episode.h"
#include "rollout_worker/evaluation/sampler.h"

namespace buttress {

// Each key becomes an episode. Those of keys [n * completions, (n + 1) * completions) are of one
// group and have the same task, a game that draws one included. run.model.path names the tokenizer;
// `below` must have the tokens of what it samples, is used on another thread, and outlives the
// sampler, as `tokenizer` does. Errors of MakeEpisodeEngine. REQUIRES: run.env is on.
Result<std::unique_ptr<EvalSampler>> MakeEpisodeSampler(const RunConfig& config,
                                                        const Tokenizer& tokenizer,
                                                        std::int64_t completions,
                                                        EvalSampler& below);

// What the results of an evaluation keep of an episode.
EvalEpisode EvalEpisodeOf(const Episode& episode);

}  // namespace buttress
