// The checkpoints of the learner: the folders, checkpoint.json, marks and names of the real one,
// and a file of weights that are a digest (learner/output/checkpoint.h without LibTorch).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "learner/output/checkpoint_state.h"
#include "lib/weights/manifest.h"
#include "lib/weights/safetensors.h"

namespace buttress::simulation {

struct Checkpoint {
  PolicyVersion version;
  std::string run_id;
  std::string learner_sha256;  // of the secret of the learner that wrote it
  std::string weights;
};

inline constexpr char kWeightsFile[] = "rank-0.safetensors";

using LearnerFolder = std::map<std::uint64_t, Checkpoint>;  // by step

// Returns the whole checkpoints in `folder`.
LearnerFolder ReadCheckpoints(const std::string& folder);

// Of one process. As CheckpointStore.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string folder) : folder_(std::move(folder)) {}

  // Returns the newest whole checkpoint of a step below `before`.
  std::optional<Checkpoint> Find(std::uint64_t before);

  // Begins to write the checkpoint, without its digest.
  Status Begin(const Checkpoint& checkpoint);

  // Makes what was begun durable. Returns its digest.
  Result<std::string> Finish();

  // How many checkpoints Find has skipped.
  std::size_t damaged() const { return damaged_.size(); }

  Status StartFrom(std::uint64_t step, std::uint64_t epoch);
  Status Accepted(std::uint64_t step);

 private:
  const std::string folder_;
  std::set<std::int64_t> damaged_;  // steps that Find has skipped
  StoredCheckpoint writing_;
  std::unique_ptr<SafetensorsWriter> writer_;
};

}  // namespace buttress::simulation
