// How a folder becomes a checkpoint: it is written under another name, part-<epoch>-<step>, and
// renamed last, so that step-<N> is complete unless the disk fails.
#pragma once

#include <string>

#include "learner/output/checkpoint_state.h"
#include "lib/base/report/status.h"

namespace buttress {

// Gives checkpoints their names back that a learner moved in a commit in which it was killed. Where
// another one has been written since, the rename fails, as its folder is not empty.
void PutMovedBack(const std::string& folder);

// The name under which the learner of the state's epoch writes the checkpoint. It is used once, so
// that no machine has cached another folder under it.
std::string PartFolderOf(const std::string& folder, const CheckpointState& state);

// Makes the folder `part` of `folder`, after PutMovedBack, and removes what earlier ones have left.
Status MakePartFolder(const std::string& folder, const std::string& part);

// Writes checkpoint.json into checkpoint.folder, which has the other files, durably, and makes it
// the checkpoint of its step in `folder`. kFailedPrecondition if a later learner has written that.
Status CommitCheckpoint(const std::string& folder, StoredCheckpoint& checkpoint);

}  // namespace buttress
