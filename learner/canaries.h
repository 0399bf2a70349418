// What a version's weights complete fixed prompts with, so that an engine of another make can prove
// that it serves them.
#pragma once

#include <vector>

#include "lib/base/status.h"
#include "lib/policy/transformer.h"
#include "lib/weights/manifest.h"

namespace buttress {

// Greedy completions of 8 fixed prompts, 4 + 4 tokens each, all of them from ids that every
// vocabulary has; end tokens do not end them. Throws what LibTorch throws; kDataLoss: the weights
// give no finite log-probs.
Result<std::vector<Canary>> GreedyCanaries(Transformer& model);

}  // namespace buttress
