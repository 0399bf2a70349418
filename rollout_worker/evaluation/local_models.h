// Models that are evaluated in this process.
#pragma once

#include <memory>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/eval_results.h"
#include "rollout_worker/evaluation/eval.h"
#include "rollout_worker/evaluation/reference_model.h"

namespace buttress {

// What a program with LibTorch can do that one without it cannot: run a model.
struct LocalModels {
  // EvaluateInputs of a model folder. Throws the exceptions of LibTorch.
  Result<EvalResult> (*evaluate)(const EvalOptions& options, const OpenEvalInputs& open);

  // Loads a folder into the dtype of run.model, where `worker` runs models. kInvalidArgument if its
  // vocabulary is not that of run.model; errors of Transformer::Load.
  Result<std::unique_ptr<ReferenceModel>> (*load_reference)(const std::string& folder,
                                                            const ModelPathConfig& model,
                                                            const WorkerConfig& worker);
};

// Those of LibTorch.
extern const LocalModels kLocalModels;

}  // namespace buttress
