// Control groups (cgroups(7)) that bound the memory of sandboxes, each of which has its own: the
// kernel counts every page that its processes cause to be held, shared mappings, files of /tmp and
// /work, and page tables included, and ends the sandbox that would exceed its bound.
//
// A group is made only where someone has given this program a part of the tree; the rest belongs to
// systemd, to the container runtime or to other programs, and to root as little as to anyone else:
//   1. the folder that the environment variable BUTTRESS_CGROUP names, of cgroup v2 or of the
//      memory controller of v1;
//   2. else the group of this process, or the one above it, in cgroup v2, if systemd has marked it
//      as delegated (Delegate=yes sets the attributes user.delegate and trusted.delegate).
// A container whose /sys/fs/cgroup is read-only, as in Kubernetes, has neither. In cgroup v2 a
// group that holds processes cannot hand the memory controller on, so those of the delegated group
// move to its child `buttress`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// A folder in which groups of sandboxes may be made.
struct GroupParent {
  std::string folder;
  bool is_v1 = false;
};

// Where the kernel shows groups.
struct GroupFiles {
  std::string own = "/proc/self/cgroup";
  std::string mounts = "/proc/self/mountinfo";
};

// Returns the folder that `named`, which may be empty, or the mark of systemd gives to this
// program. kFailedPrecondition with the reason if there is none.
Result<GroupParent> FindGroupParent(const std::string& named, const GroupFiles& files = {});

// Lets groups in `parent` bound memory and, in v2, processes, and removes those that killed
// programs have left. kFailedPrecondition with the reason if they cannot.
Status PrepareGroupParent(const GroupParent& parent);

// The group of one sandbox. Destroying it removes it; its processes must have ended or be ending.
class MemoryGroup {
 public:
  static Result<std::unique_ptr<MemoryGroup>> Make(const GroupParent& parent,
                                                   std::int64_t memory_bytes,
                                                   std::int64_t processes);
  ~MemoryGroup();

  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // A command that enters the group and becomes the one whose arguments follow.
  std::vector<std::string> Enter() const;

  // Whether the kernel has ended a process of the group, because the group would have exceeded its
  // memory.
  bool OutOfMemory() const;

 private:
  MemoryGroup(std::string folder, bool is_v1) : folder_(std::move(folder)), is_v1_(is_v1) {}

  const std::string folder_;
  const bool is_v1_;
};

// The folder for the sandboxes of this process, found and tried by the first call; a reason if
// there is none, and the memory of sandboxes is measured instead. Thread-safe.
const Result<GroupParent>& GroupParentOfProcess();

// What bounds the memory of sandboxes here, as a sentence for a person.
std::string MemoryBoundText();

}  // namespace buttress
