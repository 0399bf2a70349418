// Tests the scheduler under random interleavings of all events of a run, one for each seed.
// BUTTRESS_SEED=n runs one seed alone.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>

#include "tests/property/run_simulation.h"

namespace buttress {
namespace {

constexpr std::uint64_t kSeeds = 1500;
constexpr int kEvents = 250;

void RunSeed(std::uint64_t seed) {
  SCOPED_TRACE("replay with BUTTRESS_SEED=" + std::to_string(seed));
  RunSimulation simulation(seed);
  for (int event = 0; event < kEvents && simulation.failures().empty(); ++event) simulation.Step();
  for (const std::string& failure : simulation.failures()) ADD_FAILURE() << failure;
  if (!simulation.failures().empty()) return;
  EXPECT_TRUE(simulation.DriveToEnd()) << "the run does not end";
  for (const std::string& failure : simulation.failures()) ADD_FAILURE() << failure;
  for (const auto& [id, group] : simulation.ledger().groups) {
    EXPECT_TRUE(group.state == GroupState::kSettled || group.state == GroupState::kDropped)
        << "(2) group " << id << " is " << GroupStateName(group.state) << " after the end";
  }
}

// The property below means nothing unless the interleavings reach every path.
TEST(SchedulerProperty, InterleavingsReachEveryPathOfAGroup) {
  std::array<std::int64_t, kDropReasons> dropped{};
  std::array<std::int64_t, kSubmitOutcomes> outcomes{};
  std::int64_t expired = 0;
  std::int64_t shared = 0;
  std::int64_t passed = 0;
  std::int64_t retrained = 0;
  std::int64_t followed = 0;
  std::int64_t continued = 0;
  std::int64_t told_again = 0;
  for (std::uint64_t seed = 1; seed <= 200 || (followed == 0 && seed <= kSeeds); ++seed) {
    RunSimulation simulation(seed);
    for (int event = 0; event < kEvents; ++event) simulation.Step();
    for (std::size_t i = 0; i < kSubmitOutcomes; ++i) outcomes[i] += simulation.outcomes()[i];
    expired += simulation.scheduler().events().leases_expired;
    shared += simulation.scheduler().events().leases_shared;
    followed += simulation.followed();
    continued += simulation.continued();
    told_again += simulation.told_again();
    for (const auto& [id, group] : simulation.ledger().groups) {
      ++dropped[static_cast<std::size_t>(group.reason)];
      passed += group.passed;
      retrained += group.state == GroupState::kTrained && !group.holds_slot ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i < kDropReasons; ++i)
    EXPECT_GT(dropped[i], 0) << DropReasonName(static_cast<DropReason>(i));
  for (std::size_t i = 0; i < kSubmitOutcomes; ++i)
    EXPECT_GT(outcomes[i], 0) << SubmitOutcomeName(static_cast<SubmitOutcome>(i));
  EXPECT_GT(expired, 0);
  EXPECT_GT(shared, 0);
  EXPECT_GT(passed, 0);
  EXPECT_GT(retrained, 0);
  EXPECT_GT(followed, 0);
  EXPECT_GT(continued, 0);
  EXPECT_GT(told_again, 0);
}

TEST(SchedulerProperty, EveryInterleavingKeepsTheInvariantsAndEnds) {
  if (const char* seed = std::getenv("BUTTRESS_SEED"))
    return RunSeed(std::strtoull(seed, nullptr, 10));
  for (std::uint64_t seed = 1; seed <= kSeeds && !HasFailure(); ++seed) RunSeed(seed);
}

}  // namespace
}  // namespace buttress
