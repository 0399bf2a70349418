// The learner's client of the coordinator. The header does not include protobuf's headers, because
// LibTorch includes those of another version.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "learner/batch_source.h"
#include "lib/base/credentials.h"
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

  // Registers the learner job, which starts from `checkpoint`, and keeps its epoch. For rank 0.
  Result<LearnerStart> Register(const std::string& config_sha256, int world_size,
                                const PolicyVersion& checkpoint);

  // Sets the epoch that rank 0 was given. The other ranks call it before any other function.
  void Adopt(std::uint64_t learner_epoch) { learner_epoch_ = learner_epoch; }

  Result<PlanReply> Plan(std::int64_t step, std::chrono::milliseconds wait) override;
  Result<std::vector<Group>> Fetch(std::int64_t step,
                                   std::span<const std::uint64_t> group_ids) override;
  Status Commit(std::int64_t step) override;

  // Reports that a version can be fetched.
  Status Announce(const WeightManifest& manifest);

  // Reports that a checkpoint of `step` is durable, and, unless it is empty, why the run ends with
  // it before its last step.
  Status Checkpointed(std::int64_t step, const std::string& digest, const std::string& end_reason);

 private:
  std::unique_ptr<CoordinatorClient> client_;
  std::uint64_t learner_epoch_ = 0;
  std::string learner_secret_;  // on rank 0, which alone calls what needs it
};

}  // namespace buttress
