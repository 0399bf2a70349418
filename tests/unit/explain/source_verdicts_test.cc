// Verdicts on whole sources: healthy sources that become easy or are hard, and verifiers that fail.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "lib/base/text/random.h"
#include "lib/explain/run_history.h"

namespace buttress {
namespace {

using Counts = std::map<Cause, int>;

struct Prompts {
  int groups = 32;
  int steps = 60;
  // The success rate of a prompt drawn at a step, where `u` is uniform.
  std::function<double(int step, double u)> rate;
  std::function<bool(int step)> broken = [](int) { return false; };  // every reward is 0
  bool texts_are_read = false;                                       // by a second verifier
};

Counts CausesOf(const Prompts& prompts, std::uint64_t seed) {
  RandomStream random({seed, 1});
  const CauseRules rules;
  RunHistory history(rules);
  Counts counts;
  for (int step = 1; step <= prompts.steps; ++step) {
    std::vector<GroupFacts> groups(static_cast<std::size_t>(prompts.groups));
    for (std::size_t k = 0; k < groups.size(); ++k) {
      groups[k].step = step;
      groups[k].prompt_id = std::to_string(step) + "-" + std::to_string(k);
      const double rate = prompts.rate(step, random.Uniform());
      for (int i = 0; i < 8; ++i) {
        CompletionFacts& c = groups[k].completions.emplace_back();
        const bool right = random.Uniform() < rate;
        c.SetRewards(right && !prompts.broken(step) ? 1 : 0);
        if (prompts.texts_are_read) c.states_truth = right;
      }
    }
    const std::vector<GroupContext> contexts = history.Contexts(groups);
    std::vector<std::optional<Cause>> causes;
    for (std::size_t k = 0; k < groups.size(); ++k) {
      causes.emplace_back();
      if (groups[k].collapse() == CollapseClass::kMixed) continue;
      causes.back() = Diagnose(groups[k], contexts[k], rules).cause;
      ++counts[*causes.back()];
    }
    history.Record(groups, causes);
  }
  return counts;
}

// The share of all-correct groups rises from 0.05 to 0.97 within the run.
double BecomesEasy(int step, double u) { return u < 0.05 + 0.92 * step / 60 ? 1 : 0.5; }

TEST(SourceVerdictsTest, ASourceThatBecomesEasyHasAWorkingVerifier) {
  for (const int groups : {8, 32, 128}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      EXPECT_EQ(CausesOf({.groups = groups, .rate = BecomesEasy}, seed)[Cause::kVerifierConstant],
                0)
          << groups << " groups a step, seed " << seed;
  }
}

TEST(SourceVerdictsTest, AHardSourceThatWorksIsNeverRightOrHard) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Counts causes = CausesOf({.rate = [](int, double) { return 0.0005; }}, seed);
    EXPECT_EQ(causes[Cause::kVerifierConstant], 0) << "seed " << seed;
    EXPECT_GT(causes[Cause::kNeverRight] + causes[Cause::kHardSource], 1000) << "seed " << seed;
  }
}

// Half of the prompts at 1/2, three in ten never and two in ten always solved.
double Middling(int, double u) { return u < 0.5 ? 0.5 : u < 0.8 ? 0.0 : 1.0; }

TEST(SourceVerdictsTest, AVerifierThatDiesIsFoundForAsLongAsItIsDead) {
  for (const int groups : {8, 32}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const Counts causes = CausesOf(
          {.groups = groups, .rate = Middling, .broken = [](int step) { return step > 30; }}, seed);
      // All but the first three steps of eight groups, which say too little.
      EXPECT_GE(causes.at(Cause::kVerifierConstant), 30 * groups - 32) << "seed " << seed;
    }
  }
}

TEST(SourceVerdictsTest, WorksAgainWhenItGivesAnotherReward) {
  Prompts prompts = {.rate = Middling, .broken = [](int step) { return step > 30 && step <= 40; }};
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    EXPECT_EQ(CausesOf(prompts, seed)[Cause::kVerifierConstant], 320) << "seed " << seed;
}

TEST(SourceVerdictsTest, ASecondVerifierThatAgreesClearsTheFirst) {
  // The policy breaks at step 31.
  const auto rate = [](int step, double u) { return step > 30 ? 0.0 : Middling(step, u); };
  for (const bool read : {false, true}) {
    const int named = CausesOf({.rate = rate, .texts_are_read = read}, 1)[Cause::kVerifierConstant];
    EXPECT_EQ(named, read ? 0 : 960);
  }
}

}  // namespace
}  // namespace buttress
