// A second model that reads what was sampled, for how far the first one has left it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/data/prompt_file.h"
#include "rollout_worker/evaluation/sampler.h"

namespace buttress {

// Sums over the tokens of some completions, in nats.
struct ReferenceSums {
  double logprob = 0;  // of the tokens under softmax(logits / temperature)
  double entropy = 0;  // of these distributions
};

// Made by LocalModels. Not thread-safe. LibTorch's exceptions pass through.
class ReferenceModel {
 public:
  virtual ~ReferenceModel() = default;

  // kInvalidArgument for a completion that is longer than the positions of the reference.
  virtual Result<ReferenceSums> Read(const Prompt& prompt,
                                     std::span<const SampledCompletion> completions,
                                     double temperature) = 0;
};

// LocalModels::load_reference.
Result<std::unique_ptr<ReferenceModel>> LoadReferenceModel(const std::string& folder,
                                                           const ModelPathConfig& model,
                                                           const WorkerConfig& worker);

}  // namespace buttress
