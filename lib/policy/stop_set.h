// The tokens and texts that end a completion. Every engine, evaluation and command takes them from
// here.
#pragma once

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/experience/types.h"
#include "lib/policy/model_config.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// Turns sampling.stop and sampling.stop_token_ids, which are what a run or a row asks for, into
// everything that ends a completion of `model`:
//   stop_token_ids   these, the end-of-sequence tokens of the model, and the texts of `stop` that
//                    are added tokens of the tokenizer; ascending
//   stop             the texts that decoded text can show; special tokens are left out of it
// `tokenizer` may be null if there is no text. kInvalidArgument for an id outside the vocabulary of
// the model, for a text that is empty or not UTF-8, and for sampling.min_tokens above max_tokens or
// where every token is a stop token.
Status DecideStops(const ModelConfig& model, const Tokenizer* tokenizer, SamplingParams& sampling);

// How a run samples from `model`, its stops decided; each sample gets a seed of its own. Errors as
// of DecideStops.
Result<SamplingParams> SamplingOfRun(const SamplingConfig& config, const ModelConfig& model,
                                     const Tokenizer& tokenizer);

}  // namespace buttress
