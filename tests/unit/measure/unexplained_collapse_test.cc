// The alarm `collapse_unexplained` on simulated runs: what it finds, how soon, and how often it is
// wrong.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/text/random.h"
#include "lib/measure/alarms.h"
#include "lib/rl/collapse/difficulty.h"

namespace buttress {
namespace {

constexpr std::int64_t kSize = 8;  // completions of a group
constexpr std::size_t kPrompts = 512;
constexpr std::size_t kFewPrompts = 8;
constexpr double kHistoryDecay =
    0.5;                          // of a prompt's earlier visits, as the coordinator weighs them
constexpr double kFailing = 0.2;  // share of groups that a broken verifier calls all wrong
constexpr int kFaultAt = 300;     // step

struct Simulated {
  std::int64_t groups = 32;  // of a step
  bool revisits = true;      // prompts are seen again; otherwise each group has one of its own
  bool middling = false;     // most success rates are near one half
  bool learns = false;       // all logits rise by 6 in 100 steps, from the 100th on
  bool in_turn = false;      // a few prompts are learned one after another
};

// Success rates of prompts, spread over [0, 1].
double DrawRate(RandomStream& random, bool middling) {
  const double u = 2 * random.Uniform() - 1;
  return 0.5 + (middling ? 0.5 * u * std::abs(u) : 0.5 * u);
}

// A run whose expected rates are fitted as the coordinator fits them.
class Run {
 public:
  explicit Run(const Simulated& kind)
      : kind_(kind), random_({1, static_cast<std::uint64_t>(kind.groups)}) {
    for (double& rate : rates_) rate = DrawRate(random_, kind.middling);
  }

  StepMeasurements Step(bool broken) {
    if (kind_.learns) odds_ = std::exp(std::clamp(0.06 * (steps_ - 100.0), 0.0, 6.0) - 3);
    ++steps_;
    std::vector<GroupTrials> groups;
    for (std::int64_t g = 0; g < kind_.groups; ++g) {
      groups.push_back(Group(broken && random_.Uniform() < kFailing));
      recent_.Add(++number_, groups.back());
    }
    const Difficulty difficulty = recent_.Fit();
    StepMeasurements step;
    step.groups = static_cast<double>(kind_.groups);
    for (const auto& [before, own] : groups) {
      step.acr += (own.correct == 0 || own.correct == own.scored ? 1 : 0) / step.groups;
      step.acr_expected += difficulty.Constant(before, kSize) / step.groups;
    }
    return step;
  }

 private:
  GroupTrials Group(bool wrong) {
    const std::size_t prompt = number_ % (kind_.in_turn ? kFewPrompts : kPrompts);
    Trials& history = histories_[prompt];
    const Trials before = kind_.revisits ? history : Trials{};
    const double drawn = kind_.revisits ? rates_[prompt] : DrawRate(random_, kind_.middling);
    if (kind_.in_turn) odds_ = OddsOf(prompt);
    const double rate = odds_ * drawn / (1 - drawn + odds_ * drawn);
    Trials own = {0, double{kSize}};
    for (std::int64_t i = 0; i < kSize; ++i)
      own.correct += !wrong && random_.Uniform() < rate ? 1 : 0;
    history = {kHistoryDecay * history.correct + own.correct,
               kHistoryDecay * history.scored + own.scored};
    return {before, own};
  }

  // Each prompt is learned within 40 steps, 40 steps after the one before it.
  double OddsOf(std::size_t prompt) const {
    const double begin = 60 + 40 * static_cast<double>(prompt);
    return std::exp(std::clamp(0.15 * (steps_ - begin), 0.0, 6.0));
  }

  const Simulated kind_;
  RandomStream random_;
  std::vector<double> rates_ = std::vector<double>(kPrompts);
  std::vector<Trials> histories_ = std::vector<Trials>(kPrompts);
  RecentDifficulty recent_;
  std::uint64_t number_ = 0;
  double odds_ = 1;  // those of a success, over those of the rates
  int steps_ = 0;
};

// Returns the first step of `steps` with the alarm, counted from the fault if there is one.
std::optional<int> AlarmAt(const Simulated& kind, int steps, bool fault) {
  Run run(kind);
  AlarmMonitor monitor{AlarmConfig()};
  for (int step = 0; step < steps; ++step) {
    const bool broken = fault && step >= kFaultAt;
    monitor.Observe(run.Step(broken));
    if (monitor.active(Alarm::kCollapseUnexplained)) return fault ? step - kFaultAt : step;
  }
  return std::nullopt;
}

std::vector<Simulated> Kinds() {
  std::vector<Simulated> kinds;
  for (const std::int64_t groups : {8, 32}) {
    for (const bool revisits : {true, false}) {
      for (const bool middling : {true, false}) kinds.push_back({groups, revisits, middling});
    }
  }
  return kinds;
}

TEST(UnexplainedCollapseTest, AVerifierThatFailsOnAFifthOfTheGroupsIsFound) {
  for (const Simulated& kind : Kinds()) {
    const std::optional<int> at = AlarmAt(kind, kFaultAt + 60, true);
    const int bound = kind.groups == 8 ? 40 : 20;
    ASSERT_TRUE(at.has_value()) << kind.groups << kind.revisits << kind.middling;
    EXPECT_GE(*at, 0);
    EXPECT_LE(*at, bound) << kind.groups << kind.revisits << kind.middling;
    fmt::print("{:>2} groups a step, {}, {}: {} steps\n", kind.groups,
               kind.revisits ? "prompts seen again" : "new prompts",
               kind.middling ? "middling" : "spread out", *at);
  }
}

TEST(UnexplainedCollapseTest, AHealthyRunRaisesNone) {
  for (const Simulated& kind : Kinds())
    EXPECT_EQ(AlarmAt(kind, 400, false), std::nullopt)
        << kind.groups << kind.revisits << kind.middling;
}

// The last 1,024 groups are of a policy that has changed meanwhile.
TEST(UnexplainedCollapseTest, APolicyThatLearnsFastRaisesNone) {
  for (Simulated kind : Kinds()) {
    kind.learns = true;
    EXPECT_EQ(AlarmAt(kind, 240, false), std::nullopt)
        << kind.groups << kind.revisits << kind.middling;
  }
}

// No common line follows them, but the histories of the prompts do.
TEST(UnexplainedCollapseTest, PromptsThatAreLearnedOneAfterAnotherRaiseNone) {
  for (const std::int64_t groups : {8, 16, 32})
    EXPECT_EQ(AlarmAt({.groups = groups, .middling = true, .in_turn = true}, 450, false),
              std::nullopt)
        << groups;
}

// The bound on false alarms, for normal excesses without the allowance for the bias of the fit.
TEST(UnexplainedCollapseTest, NormalExcessesCrossTheBoundOnceInTenThousandSteps) {
  RandomStream random({3, 4});
  const double groups = 1e6, expected = 0.5, deviation = std::sqrt(0.25 / groups);
  constexpr int kRuns = 200;
  std::int64_t steps = 0;
  for (int run = 0; run < kRuns; ++run) {
    ExcessSum sum;
    while (!sum.crossed()) {
      ++steps;
      const double normal = std::sqrt(-2 * std::log(1 - random.Uniform())) *
                            std::cos(2 * 3.141592653589793 * random.Uniform());
      sum.Add(expected + kFitBias + normal * deviation, expected, groups);
    }
  }
  EXPECT_NEAR(static_cast<double>(steps) / kRuns, 1e4, 2.5e3);
}

}  // namespace
}  // namespace buttress
