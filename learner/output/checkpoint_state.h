// checkpoint.json: what a checkpoint has besides its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/loss/adaptive_entropy.h"
#include "lib/weights/checkpoint_shards.h"
#include "lib/weights/manifest.h"

namespace buttress {

// What a trainer carries from step to step besides weights and moments.
struct TrainerState {
  std::int64_t skipped_in_a_row = 0;  // steps all of whose updates were skipped
  GateState gate;                     // of the advantage estimator; known to rank 0 alone
  EntropyControl entropy;             // of the entropy bonus; known to rank 0 alone

  bool operator==(const TrainerState&) const = default;
};

// The state of a run besides its tensors. Random numbers are keyed by (seed, step), so they need no
// state of their own.
struct CheckpointState {
  std::int64_t step = 0;
  std::string run_id;               // of the run that it belongs to; empty outside of one
  std::uint64_t learner_epoch = 0;  // of the learner that wrote it
  std::string learner_sha256;  // of the secret of that learner, 32 bytes; empty outside of a run
  std::uint64_t seed = 0;
  TrainerState trainer;
  std::string config_sha256;  // of the section `run` of the configuration
  std::string digest;      // SHA-256 of checkpoint.json, 32 bytes; set when it is written or read
  std::int64_t bytes = 0;  // of the other files; likewise

  bool operator==(const CheckpointState&) const = default;
};

struct StoredCheckpoint {
  CheckpointState state;
  std::int64_t optimizer_steps = 0;
  std::vector<WeightFile> files;
  StoredLayout layout;
  std::string folder;  // not in checkpoint.json
};

std::string CheckpointToJson(const StoredCheckpoint& checkpoint);

// kDataLoss says what is wrong with the text; kInvalidArgument names another format.
Result<StoredCheckpoint> ParseCheckpoint(const std::string& text);

// Sets digest and bytes of the state. `json` is the content of checkpoint.json.
void CompleteState(const std::string& json, StoredCheckpoint& checkpoint);

}  // namespace buttress
