// The loss of one micro-batch that JSON describes, by the code that the learner runs. Torch.
#pragma once

#include <nlohmann/json.hpp>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"

namespace buttress {

// {"settings": ["run.algorithm.loss=gspo", ...], "lengths": [C], "advantages": [C], "logprobs":
// [M], "sampler": [M], "old": [M], "ref": [M]}, `old` and `ref` may be missing, gives {"loss",
// "gradient": [M], "clipped", "dual", "correction"}. The completions are one group.
Result<nlohmann::json> LossAnswer(const nlohmann::json& row);

// The same with settings that are read already.
Result<nlohmann::json> LossAnswer(const nlohmann::json& row, const AlgorithmConfig& algorithm);

}  // namespace buttress
