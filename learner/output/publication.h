// The publication of policy versions, with the canaries by which another engine proves that it
// serves a version: greedy completions of fixed prompts. Torch.
#pragma once

#include <memory>
#include <vector>

#include "learner/coordinator_source.h"
#include "learner/output/weight_sync.h"
#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/config/run_config.h"
#include "lib/measure/measurements.h"
#include "lib/policy/transformer.h"
#include "lib/weights/manifest.h"
#include "lib/weights/weight_server.h"

namespace buttress {

// Whether the workers that share this file have an engine that must prove its weights: vLLM. The
// embedded engine reads the files itself and checks their digest.
bool NeedsCanaries(const LocalSettings& local);

// Returns the greedy completions of 8 fixed prompts, with 4 prompt and 4 completion tokens each.
// The prompts use ids that every vocabulary has; an end token does not end a completion. kDataLoss
// if the weights give log-probs that are not finite. Throws what LibTorch throws.
Result<std::vector<Canary>> GreedyCanaries(Transformer& model);

// The published weights of the job. They are served from <out>/weights, written on a thread of
// their own, and announced to the coordinator. For rank 0. Not thread-safe.
class Publication {
 public:
  // The arguments must outlive the result.
  static Result<std::unique_ptr<Publication>> Start(const RunConfig& config,
                                                    const Credentials& credentials,
                                                    CoordinatorSource& source);

  // Hands the weights of the model over (WeightSync::Publish), with canaries where workers need
  // them. Where they are divided, the other ranks call GiveParts.
  Status Publish(const PolicyVersion& version, Transformer& model);

  static Status GiveParts(const LocalSettings& local, Transformer& model);

  WeightSync& sync() { return *sync_; }

  // Fills what the step that ends has waited for the thread, unchanged_versions and
  // published_bytes.
  void Measure(StepMeasurements& measured);

 private:
  explicit Publication(const RunConfig& config) : config_(config) {}

  const RunConfig& config_;
  std::unique_ptr<WeightServer> server_;
  std::unique_ptr<WeightPublisher> publisher_;
  std::unique_ptr<WeightSync> sync_;
  double published_bytes_ = 0;  // of the newest version
  double seconds_waited_ = 0;   // WeightSync::seconds_waited at the end of the last step
};

}  // namespace buttress
