// Groups of random tokens whose lengths are drawn from a seed, for training steps without workers.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "learner/batch_source.h"
#include "lib/base/text/random.h"
#include "lib/ledger/rows.h"
#include "tests/support/test_group.h"

namespace buttress {

// Lengths between the two, both included.
struct LengthRange {
  std::int64_t least = 1;
  std::int64_t most = 1;

  std::int64_t Draw(RandomStream& random) const {
    return least +
           static_cast<std::int64_t>(random.Below(static_cast<std::uint64_t>(most - least + 1)));
  }
};

struct DrawnGroupsOptions {
  std::int64_t groups = 1;
  std::int64_t completions = 1;    // of each
  LengthRange prompt, completion;  // tokens
  std::int64_t vocabulary = 1;
};

// Step s has the same groups whenever it is asked for, and no other step has their lengths. Some
// completions of a group are right and some wrong, so that all are trained.
class DrawnGroups final : public BatchSource {
 public:
  explicit DrawnGroups(const DrawnGroupsOptions& options) : options_(options) {}

  Result<PlanReply> Plan(std::int64_t step, std::chrono::milliseconds /*wait*/) override {
    PlanReply reply;
    reply.plan.emplace();
    reply.plan->step = static_cast<std::uint64_t>(step);
    for (std::int64_t k = 0; k < options_.groups; ++k) {
      reply.plan->groups.push_back(
          std::make_shared<const v1::GroupHead>(SummarizeGroup(Group(step, k))));
      reply.plan->collapse.step.Add(ClassOf(*reply.plan->groups.back()));
    }
    return reply;
  }

  Result<std::vector<v1::Group>> Fetch(std::int64_t step,
                                       std::span<const std::uint64_t> ids) override {
    std::vector<v1::Group> groups;
    for (const std::uint64_t id : ids)
      groups.push_back(Group(step, static_cast<std::int64_t>(id % kIds)));
    return groups;
  }

  Status Commit(std::int64_t /*step*/) override { return OkStatus(); }

  v1::Group Group(std::int64_t step, std::int64_t k) const {
    RandomStream random({static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(k)});
    v1::Group group =
        NewGroup(static_cast<std::uint64_t>(step) * kIds + static_cast<std::uint64_t>(k),
                 Tokens(options_.prompt.Draw(random), random));
    group.mutable_head()->clear_versions();
    const auto logprob = static_cast<float>(-std::log(static_cast<double>(options_.vocabulary)));
    for (std::int64_t i = 0; i < options_.completions; ++i) {
      const auto tokens = Tokens(options_.completion.Draw(random), random);
      AppendTokens(group, tokens, std::vector<float>(tokens.size(), logprob), FinishReason::kStop);
      const bool right = i % 2 == 0;
      AppendReward(*group.mutable_head(), right ? Outcome::kCorrect : Outcome::kWrong,
                   right ? 1 : 0, right ? 1 : 0);
    }
    return group;
  }

 private:
  static constexpr std::uint64_t kIds = 1 << 20;

  std::vector<std::int32_t> Tokens(std::int64_t count, RandomStream& random) const {
    std::vector<std::int32_t> tokens;
    for (std::int64_t t = 0; t < count; ++t) {
      tokens.push_back(
          static_cast<std::int32_t>(random.Below(static_cast<std::uint64_t>(options_.vocabulary))));
    }
    return tokens;
  }

  const DrawnGroupsOptions options_;
};

}  // namespace buttress
