// The coordinator as the learner sees it. Without protobuf in sight: LibTorch brings another
// version's headers.
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

struct LearnerStart {
  std::uint64_t learner_epoch = 0;
  std::int64_t next_step = 0;
};

// Announce may be called from another thread than the rest.
class CoordinatorSource : public BatchSource {
 public:
  // Calls give up after three quarters of the collective timeout: the other ranks wait for rank 0
  // meanwhile.
  CoordinatorSource(const LocalSettings& local, const Credentials& credentials);
  ~CoordinatorSource() override;

  // Rank 0: joins as the learner that starts from `checkpoint`, and takes the epoch that it is
  // given.
  Result<LearnerStart> Register(const std::string& config_sha256, int world_size,
                                const PolicyVersion& checkpoint);

  // Other ranks: the epoch that rank 0 was given. Before any other call.
  void Adopt(std::uint64_t learner_epoch) { learner_epoch_ = learner_epoch; }

  Result<PlanReply> Plan(std::int64_t step, std::chrono::milliseconds wait) override;
  Result<std::vector<Group>> Fetch(std::int64_t step,
                                   std::span<const std::uint64_t> group_ids) override;
  Status Commit(std::int64_t step) override;

  // A version can be fetched.
  Status Announce(const WeightManifest& manifest);

  // A checkpoint of `step` is durable.
  Status Checkpointed(std::int64_t step, const std::string& digest);

 private:
  std::unique_ptr<CoordinatorClient> client_;
  std::uint64_t learner_epoch_ = 0;
};

}  // namespace buttress
