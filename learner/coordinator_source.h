// The learner's client of the coordinator. The header does not include protobuf's headers, because
// LibTorch includes those of another version.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "learner/batch_source.h"
#include "lib/base/net/credentials.h"
#include "lib/config/run_config.h"
#include "lib/weights/manifest.h"

namespace buttress {

class CoordinatorClient;

// Not thread-safe, except that Announce may be called from another thread.
class CoordinatorSource : public BatchSource {
 public:
  // Calls give up after three quarters of the collective timeout, because the other ranks wait for
  // rank 0 meanwhile.
  CoordinatorSource(const LocalSettings& local, const Credentials& credentials);
  ~CoordinatorSource() override;

  // The checkpoint that a learner starts from; step 0 for a new run.
  struct Origin {
    PolicyVersion version;
    std::string run_id;
    std::string learner_sha256;  // of the secret of the learner that wrote it
  };

  // Registers the learner job, which starts from `checkpoint`, and keeps its epoch and its run. For
  // rank 0. kDataLoss if the checkpoint is not one of the coordinator's run; kAborted if the run
  // went on without it: the caller tries the one before.
  Result<LearnerStart> Register(const std::string& config_sha256, int world_size,
                                const Origin& checkpoint);

  // Sets the epoch, its secret, the run and its length that rank 0 was given. The other ranks call
  // it before any other function.
  void Adopt(std::uint64_t learner_epoch, std::string secret, std::string run_id,
             std::int64_t steps);

  // Random id of the run, once the job has registered.
  const std::string& run_id() const { return run_id_; }

  // The secret that the calls of this job carry, and its SHA-256 (32 bytes).
  const std::string& learner_secret() const { return learner_secret_; }

  std::string learner_sha256() const;

  // Length of the run, once the job has registered.
  std::int64_t steps() const { return steps_; }

  Result<PlanReply> Plan(std::int64_t step, std::chrono::milliseconds wait) override;
  Result<std::vector<v1::Group>> Fetch(std::int64_t step,
                                       std::span<const std::uint64_t> group_ids) override;
  Status Commit(std::int64_t step) override;

  // Sets the line of steps.jsonl that the next Commit and Checkpointed carry.
  void SetNewestStep(std::string line) { newest_step_ = std::move(line); }

  // Data sources whose controls had raised the coordinator's alarm at the last Plan.
  std::int64_t misjudged_sources() const { return misjudged_sources_; }

  // Reports that a version can be fetched.
  Status Announce(const WeightManifest& manifest);

  // Reports that a checkpoint of `step` is durable, and, unless it is empty, why the run ends with
  // it before its last step.
  Status Checkpointed(std::int64_t step, const std::string& digest, const std::string& end_reason);

 private:
  std::unique_ptr<CoordinatorClient> client_;
  std::uint64_t learner_epoch_ = 0;
  std::string run_id_;
  std::int64_t steps_ = 0;
  std::string learner_secret_;
  std::string newest_step_;  // on rank 0, which alone calls what needs it
  std::int64_t misjudged_sources_ = 0;
};

}  // namespace buttress
