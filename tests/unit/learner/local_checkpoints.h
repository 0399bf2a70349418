// The checkpoints of a learner of one rank, written and read at once.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "learner/output/checkpoint.h"

namespace buttress {

class LocalCheckpoints {
 public:
  explicit LocalCheckpoints(const std::string& folder, std::int64_t keep_last = 2)
      : store_(folder, *group_, std::chrono::seconds(20), keep_last) {}

  // The checkpoint of a learner that was replaced: the coordinator does not accept it.
  Result<CheckpointState> SaveLate(const CheckpointState& state,
                                   const std::vector<ParameterUnit>& units,
                                   const AdamW& optimizer) {
    BUTTRESS_RETURN_IF_ERROR(store_.Begin(state, units, optimizer));
    BUTTRESS_ASSIGN_OR_RETURN(auto saved, store_.Finish(/*wait=*/true));
    EXPECT_TRUE(saved.has_value());
    return std::move(saved->state);
  }

  Result<CheckpointState> Save(
      const CheckpointState& state, const std::vector<ParameterUnit>& units, const AdamW& optimizer,
      const KeptSteps& kept = [](auto) { return std::set<std::int64_t>(); }) {
    BUTTRESS_ASSIGN_OR_RETURN(CheckpointState saved, SaveLate(state, units, optimizer));
    BUTTRESS_RETURN_IF_ERROR(store_.Accepted(saved.step, kept));
    return saved;
  }

  std::optional<CheckpointState> Load(const std::vector<ParameterUnit>& units, AdamW& optimizer) {
    const auto found = store_.Find();
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    if (!found.ok() || !*found) return std::nullopt;
    const Status read = store_.Read(**found, units, optimizer);
    EXPECT_TRUE(read.ok()) << read.ToString();
    return (*found)->state;
  }

  CheckpointStore& store() { return store_; }

 private:
  const std::unique_ptr<Collective> group_ = MakeLocalCollective();
  CheckpointStore store_;
};

}  // namespace buttress
