// Greedy completions of fixed prompts under the weights of a version, by which another engine
// proves that it serves that version.
#pragma once

#include <vector>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/policy/transformer.h"
#include "lib/weights/manifest.h"

namespace buttress {

// Whether the workers that share this file have an engine that must prove its weights: vLLM. The
// embedded engine reads the files itself and checks their digest.
bool NeedsCanaries(const LocalSettings& local);

// Returns the greedy completions of 8 fixed prompts, with 4 prompt and 4 completion tokens each.
// The prompts use ids that every vocabulary has; an end token does not end a completion. kDataLoss
// if the weights give log-probs that are not finite. Throws what LibTorch throws.
Result<std::vector<Canary>> GreedyCanaries(Transformer& model);

}  // namespace buttress
