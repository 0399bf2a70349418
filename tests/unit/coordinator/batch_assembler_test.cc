#include "coordinator/schedule/batch_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

constexpr BatchRules kFifo = {.prompts = 2, .max_age = 1, .window = 1};
constexpr BatchRules kWindowed = {.prompts = 2, .max_age = 1, .window = 3};

BatchCandidate Ready(std::uint64_t id, std::uint64_t oldest_step = 0) {
  return {id, true, oldest_step, 0};
}

BatchCandidate Waiting(std::uint64_t id, std::int64_t passed = 0) { return {id, false, 0, passed}; }

TEST(BatchAssembler, TakesTheOldestReadyGroups) {
  const std::vector<BatchCandidate> line = {Ready(3), Ready(5), Ready(6)};
  EXPECT_THAT(AssembleBatch(line, 1, kFifo), Optional(ElementsAre(3, 5)));
}

TEST(BatchAssembler, WaitsForASlowGroupWhenNothingMayPass) {
  const std::vector<BatchCandidate> line = {Ready(3), Waiting(4), Ready(5)};
  EXPECT_EQ(AssembleBatch(line, 1, kFifo), std::nullopt);
}

TEST(BatchAssembler, ReturnsNulloptForAShortLine) {
  const std::vector<BatchCandidate> line = {Ready(3)};
  EXPECT_EQ(AssembleBatch(line, 1, kFifo), std::nullopt);
  EXPECT_EQ(AssembleBatch({}, 1, kFifo), std::nullopt);
}

TEST(BatchAssembler, LetsUpToWindowMinusOneGroupsPassCountingEarlierSteps) {
  const std::vector<BatchCandidate> fresh = {Waiting(1), Ready(2), Ready(3)};
  EXPECT_THAT(AssembleBatch(fresh, 1, kWindowed), Optional(ElementsAre(2, 3)));
  const std::vector<BatchCandidate> passed = {Waiting(1, 1), Ready(4), Ready(5)};
  EXPECT_EQ(AssembleBatch(passed, 2, kWindowed), std::nullopt);
}

TEST(BatchAssembler, AnOlderSlowGroupDecidesEvenIfAYoungerOneWasNeverPassed) {
  const std::vector<BatchCandidate> line = {Waiting(1, 2), Waiting(2), Ready(3), Ready(4)};
  EXPECT_EQ(AssembleBatch(line, 2, kWindowed), std::nullopt);
}

TEST(BatchAssembler, ReturnsGroupsThatAreOlderThanTheBound) {
  const std::vector<BatchCandidate> line = {Ready(1, 0), Ready(2, 1), Waiting(3)};
  EXPECT_THAT(TooOld(line, 2, kFifo), ElementsAre());       // ages 1 and 0, bound 1
  EXPECT_THAT(TooOld(line, 3, kFifo), ElementsAre(1));      // ages 2 and 1
  EXPECT_THAT(TooOld(line, 3, kWindowed), ElementsAre());   // bound 1 + ceil(2 / 2)
  EXPECT_THAT(TooOld(line, 4, kWindowed), ElementsAre(1));  // ages 3 and 2
}

TEST(BatchAssemblerDeathTest, NeverChoosesAGroupThatIsTooOld) {
  const std::vector<BatchCandidate> line = {Ready(1, 0), Ready(2, 0)};
  EXPECT_DEATH(AssembleBatch(line, 3, kFifo).has_value(), "staleness bound");
}

}  // namespace
}  // namespace buttress
