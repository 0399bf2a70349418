// The checkpoints of the learner. Nothing of the state of a run is lost in one: on CPUs, a run that
// resumes at the same number of ranks continues bit for bit. On GPUs two runs of one step differ in
// their last bits anyway, since attention and index_add_ sum gradients with atomics, in no fixed
// order. At another number of ranks it starts from the same values.
//
// <folder>/step-<N>/ holds a file rank-<R>.safetensors for each rank, with its part of weights,
// masters and moments (lib/weights/checkpoint_shards.h), and checkpoint.json, which lists the size
// and SHA-256 of the others and the layout of the units. The folder is written under another name
// and renamed last, so that step-<N> is complete unless the disk fails. Torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "learner/optimizer/optimizer.h"
#include "learner/output/checkpoint_state.h"
#include "learner/output/held_values.h"
#include "learner/output/kept_folders.h"
#include "learner/output/shard_writer.h"
#include "lib/base/report/status.h"
#include "lib/collectives/collective.h"
#include "lib/policy/weights/parameter_unit.h"

namespace buttress {

struct SavedCheckpoint {
  CheckpointState state;  // with its digest on rank 0
  double seconds = 0;     // that the slowest rank took to write its file, beside the training
};

// Every rank makes the same calls. Ranks that do not see the folder of rank 0, because they run on
// other machines, give their values to ranks that do. Not thread-safe.
class CheckpointStore {
 public:
  static constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::max();

  // Keeps the newest `keep_last` checkpoints that the coordinator knows. `control` carries bytes on
  // the CPU and must outlive the store. REQUIRES: keep_last >= 2.
  CheckpointStore(std::string folder, Collective& control, std::chrono::milliseconds timeout,
                  std::int64_t keep_last = 2)
      : folder_(std::move(folder)), control_(control), timeout_(timeout), keep_last_(keep_last) {}

  // Starts to write the values of `units` and `optimizer`, every rank its part, and returns.
  // REQUIRES: no checkpoint is being written, and the values do not change before BeforeUpdate.
  Status Begin(const CheckpointState& state, const std::vector<ParameterUnit>& units,
               const AdamW& optimizer);

  // Returns when the values may change (ShardWriter::BeforeUpdate). Makes no collective call.
  void BeforeUpdate() const;

  bool writing() const { return writing_ != nullptr; }

  // Completes the checkpoint that is being written once all ranks have written their files, for
  // which it waits if `wait` says so. What it returns survives a crash of the machine; nullopt if
  // files are missing, or nothing is being written. kFailedPrecondition if a later learner has
  // written the step.
  Result<std::optional<SavedCheckpoint>> Finish(bool wait);

  // The coordinator has accepted the checkpoint of `step`, which is complete: deletes the older
  // ones but the newest `keep_last` that it knows and those of `kept`. For rank 0 alone.
  Status Accepted(std::int64_t step, const KeptSteps& kept);

  // Finds the newest complete checkpoint of a step below `before`; rank 0 logs a warning for each
  // incomplete one that is skipped. nullopt if there is none; kInvalidArgument if its format is
  // another one.
  Result<std::optional<StoredCheckpoint>> Find(std::int64_t before = kNoBound);

  // Fills `units` and `optimizer`, with the parts that this rank holds, from the files.
  // kInvalidArgument names the first tensor if the checkpoint is of another model.
  Status Read(const StoredCheckpoint& checkpoint, const std::vector<ParameterUnit>& units,
              AdamW& optimizer);

  // The coordinator has accepted that the learner of `epoch` starts from `step`, 0 without a
  // checkpoint: puts the checkpoints after it aside (kept_folders.h), whether they are damaged or
  // of a learner that was replaced. For rank 0 alone.
  Status StartFrom(std::int64_t step, std::uint64_t epoch);

 private:
  struct Writing {
    StoredCheckpoint checkpoint;  // its folder is that of the unfinished one
    std::optional<ShardWriter> shard;
  };

  bool leads() const { return control_.rank() == 0; }

  bool Sees(int rank) const { return sees_[static_cast<std::size_t>(rank)]; }

  Status Agree(const Status& own) const;
  Status FindRanks();
  std::vector<int> SeeingRanks() const;
  int WriterOf(int rank) const;
  Result<NamedTensors> TakeValuesOfOthers(const std::vector<HeldValues>& held) const;
  Result<double> GatherFiles(const std::optional<WrittenShard>& own,
                             std::vector<WeightFile>& files) const;
  Result<StoredCheckpoint> Check(std::int64_t step) const;
  Status GiveValuesToOthers(const std::optional<StoredShards>& shards, const StoredLayout& layout,
                            const std::vector<HeldValues>& held) const;

  const std::string folder_;
  Collective& control_;
  const std::chrono::milliseconds timeout_;
  const std::int64_t keep_last_;
  std::vector<bool> sees_;  // by rank, whether it sees the folder; empty before the first call
  std::set<std::int64_t> damaged_;  // steps that Find has skipped; on rank 0
  std::unique_ptr<Writing> writing_;
};

}  // namespace buttress
