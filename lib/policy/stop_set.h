// Which tokens end a completion. Every engine, evaluation and command takes them from here.
#pragma once

#include "lib/base/status.h"
#include "lib/experience/types.h"
#include "lib/policy/model_config.h"

namespace buttress {

// Replaces sampling.stop_token_ids, which are those that a run or a row asks for, by every token
// that ends a completion of `model`: those and its end-of-sequence tokens, in ascending order.
// kInvalidArgument for an id outside the vocabulary of the model.
Status DecideStops(const ModelConfig& model, SamplingParams& sampling);

}  // namespace buttress
