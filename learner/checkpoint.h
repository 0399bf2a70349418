// The learner's checkpoints: parameters, optimizer, step; atomic, verified, bit for bit.
//
// <folder>/step-<N>/ holds model.safetensors, optimizer.safetensors and checkpoint.json, which
// names the others with size and SHA-256. It is written beside and renamed last, so a folder of
// that name is whole unless the disk broke it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "learner/optimizer.h"
#include "lib/base/status.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/loss/adaptive_entropy.h"

namespace buttress {

// What a run goes on from beside tensors. Everything random is counter-based and keyed by (seed,
// step), so that is its whole state.
struct CheckpointState {
  std::int64_t step = 0;
  std::uint64_t learner_epoch = 0;  // that wrote it
  std::uint64_t seed = 0;
  std::int64_t skipped_in_a_row = 0;
  GateState gate;             // of the advantage estimator
  EntropyControl entropy;     // of the entropy bonus
  std::string config_sha256;  // of the `run` half
  std::string digest;         // SHA-256 of checkpoint.json, 32 bytes; filled by Save and Load
  std::int64_t bytes = 0;     // of all files; filled by Save and Load

  bool operator==(const CheckpointState&) const = default;
};

// Not thread-safe.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::string folder) : folder_(std::move(folder)) {}

  // After OK the checkpoint survives the machine; all but the newest two are deleted. Returns
  // `state` with digest and bytes.
  Result<CheckpointState> Save(CheckpointState state, const NamedTensors& parameters,
                               const AdamW& optimizer);

  // Puts the newest whole checkpoint into `parameters` and `optimizer`; one that is not whole is
  // passed over with a warning. Nothing if there is none; kDataLoss if there are some and none is
  // whole.
  Result<std::optional<CheckpointState>> Load(const NamedTensors& parameters, AdamW& optimizer);

 private:
  const std::string folder_;
};

}  // namespace buttress
