// Batches made from a seed, for tests of the trainer.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "learner/batch_source.h"
#include "lib/base/text/random.h"
#include "lib/config/run_config.h"
#include "lib/ledger/rows.h"
#include "lib/rl/collapse/acr.h"
#include "tests/support/test_group.h"
#include "tests/unit/learner/small_model.h"

namespace buttress {

inline RunSettings SmallRun() {
  RunSettings run;
  run.steps = 10;
  run.batch.prompts = 6;
  run.sampling.group_size = 4;
  run.sampling.max_tokens = 8;
  run.optim.lr = 1e-2;
  return run;
}

// Adds the head of a group to a plan.
inline void AppendToPlan(const v1::Group& group, Plan& plan) {
  plan.groups.push_back(std::make_shared<const v1::GroupHead>(SummarizeGroup(group)));
  plan.collapse.step.Add(ClassOf(*plan.groups.back()));
}

// Step s is always the same batch. Groups 0 and 1 are constant (all wrong, all correct), completion
// 0 of group 2 is unscorable.
class FakeSource : public BatchSource {
 public:
  explicit FakeSource(const RunSettings& run) : run_(run) {}

  Result<PlanReply> Plan(std::int64_t step, std::chrono::milliseconds) override {
    PlanReply reply;
    if (waits_left > 0) {
      --waits_left;
      return reply;
    }
    ++plans;
    reply.finished = finished;
    if (finished) return reply;
    reply.plan.emplace();
    reply.plan->step = static_cast<std::uint64_t>(step);
    for (std::int64_t k = 0; k < run_.batch.prompts; ++k)
      AppendToPlan(MakeGroup(step, k), *reply.plan);
    return reply;
  }

  Result<std::vector<v1::Group>> Fetch(std::int64_t step,
                                       std::span<const std::uint64_t> group_ids) override {
    if (damaged_plans > 0) {
      --damaged_plans;
      return Aborted("another group takes its place");
    }
    std::vector<v1::Group> groups;
    for (const std::uint64_t id : group_ids)
      groups.push_back(MakeGroup(step, static_cast<std::int64_t>(id - FirstId(step))));
    if (change) change(groups);
    return groups;
  }

  Status Commit(std::int64_t step) override {
    committed.push_back(step);
    return OkStatus();
  }

  int waits_left = 0;
  int damaged_plans = 0;  // whose groups cannot be fetched
  int plans = 0;
  bool finished = false;
  bool all_constant = false;
  std::int64_t cut_completion = -1;  // of every group, at the token limit
  std::function<void(std::vector<v1::Group>&)> change;
  std::vector<std::int64_t> committed;

 private:
  std::uint64_t FirstId(std::int64_t step) const { return static_cast<std::uint64_t>(100 * step); }

  v1::Group MakeGroup(std::int64_t step, std::int64_t k) const {
    RandomStream random({static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(k)});
    std::vector<std::int32_t> prompt;
    for (std::uint64_t t = 0, n = 2 + random.Below(4); t < n; ++t) prompt.push_back(Token(random));
    v1::Group group = NewGroup(FirstId(step) + static_cast<std::uint64_t>(k), prompt);
    group.mutable_head()->clear_versions();
    for (std::int64_t i = 0; i < run_.sampling.group_size; ++i) {
      std::vector<std::int32_t> tokens;
      std::vector<float> logprobs;
      for (std::uint64_t t = 0, n = 1 + random.Below(7); t < n; ++t) {
        tokens.push_back(Token(random));
        logprobs.push_back(static_cast<float>(-std::log(13.0) - 0.1 * random.Uniform()));
      }
      AppendTokens(group, tokens, logprobs,
                   i == cut_completion ? FinishReason::kLength : FinishReason::kStop);
      // Of a mixed group, completion 1 is always right and 2 always wrong.
      const bool constant = all_constant || k < 2;
      const bool correct = constant ? k % 2 == 1 : i == 1 || (i != 2 && random.Below(2) == 1);
      Outcome outcome = correct ? Outcome::kCorrect : Outcome::kWrong;
      if (k == 2 && i == 0) outcome = Outcome::kUnscorable;
      const double reward = outcome == Outcome::kCorrect ? 1 : 0;
      AppendReward(*group.mutable_head(), outcome, reward, reward);
    }
    return group;
  }

  static std::int32_t Token(RandomStream& random) {
    return static_cast<std::int32_t>(random.Below(13));
  }

  const RunSettings run_;
};

}  // namespace buttress
