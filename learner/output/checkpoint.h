// The checkpoints of the learner. Nothing of the state of a run is lost in one: on CPUs, a run that
// resumes at the same number of ranks continues bit for bit. On GPUs two runs of one step differ in
// their last bits anyway, since attention and index_add_ sum gradients with atomics, in no fixed
// order.
//
// <folder>/step-<N>/ holds model.safetensors, optimizer.safetensors and checkpoint.json, which
// lists the size and SHA-256 of the other two. The folder is written as <folder>/part and renamed
// last, so that step-<N> is complete unless the disk fails.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "learner/optimizer/optimizer.h"
#include "lib/base/report/status.h"
#include "lib/rl/advantage/advantage.h"
#include "lib/rl/loss/adaptive_entropy.h"

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
  std::string digest;         // SHA-256 of checkpoint.json, 32 bytes; filled by Save and Load
  std::int64_t bytes = 0;     // of all files; filled by Save and Load

  bool operator==(const CheckpointState&) const = default;
};

// Not thread-safe.
class CheckpointStore {
 public:
  // Returns those of the steps, newest first, whose checkpoints are kept although they are old.
  using Kept = std::function<std::set<std::int64_t>(std::span<const std::int64_t> steps)>;

  // Keeps the newest `keep_last` checkpoints. REQUIRES: keep_last >= 2.
  explicit CheckpointStore(std::string folder, std::int64_t keep_last = 2)
      : folder_(std::move(folder)), keep_last_(keep_last) {}

  // Returns `state` with digest and bytes once the checkpoint survives a crash of the machine.
  // Deletes then all checkpoints but the newest and those of `kept`.
  Result<CheckpointState> Save(
      CheckpointState state, const NamedTensors& parameters, const AdamW& optimizer,
      const Kept& kept = [](std::span<const std::int64_t>) { return std::set<std::int64_t>(); });

  // Loads the newest complete checkpoint into `parameters` and `optimizer`; logs a warning for each
  // incomplete one that it skips. Returns nullopt if there is none.
  std::optional<CheckpointState> Load(const NamedTensors& parameters, AdamW& optimizer);

  // Renames the checkpoints after `step` to damaged-step-<N>: a learner that has started from
  // `step` trains these steps again, so no later one may start from them. Replaces what was put
  // aside under such a name before.
  Status PutAsideAfter(std::int64_t step);

 private:
  void DeleteOld(const Kept& kept) const;

  const std::string folder_;
  const std::int64_t keep_last_;
};

}  // namespace buttress
