#include "coordinator/rpc/known_starts.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

TEST(KnownStartsTest, RefusesOnlyWhoKnowsAStartOfThisRunThatTheLedgerLacks) {
  const KnownStarts starts = {"run", "second", {"first", "second"}};
  EXPECT_EQ(starts.name(), "run/second");
  EXPECT_TRUE(starts.Admits("run/first"));
  EXPECT_TRUE(starts.Admits(starts.name()));
  EXPECT_FALSE(starts.Admits("run/third"));
  EXPECT_TRUE(starts.Admits("another run/third"));
}

}  // namespace
}  // namespace buttress
