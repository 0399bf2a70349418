// The policy versions that are valid, and those that the learner went back behind.
#pragma once

#include <cstdint>
#include <map>

#include "lib/experience/types.h"

namespace buttress {

// Not thread-safe.
class Lineage {
 public:
  // Records that the learner of `epoch` starts from the checkpoint of `start_step`. REQUIRES:
  // `epoch` is above all earlier ones.
  void Start(std::uint64_t epoch, std::uint64_t start_step);

  // Returns true if a later learner started from a checkpoint before `version`.
  bool Abandoned(const PolicyVersion& version) const;

  // Returns the start step of `epoch`, 0 for an epoch that never started.
  std::uint64_t StartStep(std::uint64_t epoch) const;

  bool operator==(const Lineage&) const = default;

 private:
  std::map<std::uint64_t, std::uint64_t> start_by_epoch_;
};

}  // namespace buttress
