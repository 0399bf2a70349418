// Which folders of checkpoints stay on the disk. The coordinator knows a checkpoint once it has
// accepted the report of its writer, or a learner that starts from it. Only such a one may be
// started from without doubt: what a learner that was replaced writes is never accepted. So those
// that are known carry a mark, and only they count where old ones are deleted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// Returns those of the steps, newest first, whose checkpoints are kept although they are old.
using KeptSteps = std::function<std::set<std::int64_t>(std::span<const std::int64_t> steps)>;

// Returns the epoch of the learner that wrote the checkpoint in `path`; nullopt if it is not whole.
std::optional<std::uint64_t> EpochOfWriter(const std::string& path);

// Notes, durably, that the coordinator knows the checkpoint of `step` in `folder`.
Status MarkAccepted(const std::string& folder, std::int64_t step);

// As MarkAccepted, of a checkpoint that a learner starts from; it is the newest in `folder`. Where
// none carries the mark, builds without marks wrote them: all get it, so that none of those that
// they kept is deleted.
Status MarkStart(const std::string& folder, std::int64_t step);

// Deletes the checkpoints before the newest `keep_last` of those that carry the mark, but none of
// `kept`, which is asked about marked ones. Deletes nothing while fewer carry it. A checkpoint that
// cannot be deleted costs space only.
void DeleteOldCheckpoints(const std::string& folder, std::int64_t keep_last, const KeptSteps& kept);

// Renames the checkpoints after `step` to aside-step-<N>: the learner of `epoch` has started from
// `step` and trains these steps again, so no later one may start from them. `damaged` are the steps
// of those that do not verify. Only the newest damaged one and the newest other one are left, and
// what was put aside before is deleted once there are new ones. kFailedPrecondition, and nothing
// happens, if a later learner has written one of them.
Status PutCheckpointsAside(const std::string& folder, std::int64_t step, std::uint64_t epoch,
                           const std::set<std::int64_t>& damaged);

}  // namespace buttress
