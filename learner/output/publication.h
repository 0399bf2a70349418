// The publication of policy versions, with the canaries by which another engine proves that it
// serves a version: greedy completions of fixed prompts. Torch.
#pragma once

#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "learner/coordinator_source.h"
#include "learner/output/weight_sync.h"
#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
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

// The published weights of the job in <out>/weights. Their files are divided over the ranks that
// see the folder, each of which writes on a thread of its own; rank 0 serves them and announces
// each version to the coordinator. Every rank makes the same calls, except those for rank 0. Not
// thread-safe.
class Publication {
 public:
  // The arguments must outlive the result.
  static Result<std::unique_ptr<Publication>> Start(const RunConfig& config,
                                                    const Credentials& credentials,
                                                    CoordinatorSource& source, Collective& control,
                                                    const Transformer& model);

  // Hands over the weights that this rank writes (WeightSync::Publish), with canaries where workers
  // need them.
  Status Publish(const PolicyVersion& version, Transformer& model);

  // WeightSync::BeforeUpdate and WeightSync::Drain.
  Status BeforeUpdate() { return sync_ ? sync_->BeforeUpdate() : OkStatus(); }

  Status Drain() { return sync_ ? sync_->Drain() : OkStatus(); }

  // Called again and again while the learner waits for a plan, for `seconds` so far. A long wait
  // may come from damage of the newest version, which no worker can load then: a thread reads the
  // version again from time to time. kUnavailable names the damage; a learner that starts again
  // publishes anew. OkStatus on ranks other than 0.
  Status WhileWaiting(double seconds);

  // Fills what the step that ends has waited for the thread, unchanged_versions and
  // published_bytes. For rank 0.
  void Measure(StepMeasurements& measured);

 private:
  Publication(const RunConfig& config, Collective& control) : config_(config), control_(control) {}

  bool leads() const { return control_.rank() == 0; }

  Status ServeFrom(const std::string& folder, const Credentials& credentials,
                   CoordinatorSource& source);
  Result<FilesByRank> DivideOver(const std::string& folder, const Transformer& model) const;
  // With local.worker.vllm.launch.colocate, gives the servers the device memory that is free.
  Status LeaveDevice(const Transformer& model);
  Status Begin(const PolicyVersion& version);
  Status ExpectFilesOfOthers() const;

  const RunConfig& config_;
  Collective& control_;
  FilesByRank files_;
  std::set<std::string> own_;                   // the tensors of the files of this rank
  std::unique_ptr<WeightServer> server_;        // rank 0
  std::unique_ptr<WeightPublisher> publisher_;  // rank 0
  std::unique_ptr<WeightSync> sync_;            // null if the rank writes nothing
  double next_check_ = 0;                       // seconds of waiting
  std::future<Status> check_;                   // of the newest version
  bool check_is_old_ = false;   // it began in an earlier wait; its version may be deleted by now
  double published_bytes_ = 0;  // of the newest version
  double seconds_waited_ = 0;   // WeightSync::seconds_waited at the end of the last step
};

}  // namespace buttress
