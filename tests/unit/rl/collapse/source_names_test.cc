#include <gtest/gtest.h>

#include "lib/rl/collapse/sources.h"

namespace buttress {
namespace {

TEST(SourceNamesTest, TheSourcesBeyondTheBoundAreOne) {
  std::map<std::string, CollapseCounts> counts;
  for (std::int64_t i = 0; i < 40; ++i) {
    CollapseCounts& of = counts["s" + std::to_string(i)];
    of.groups = of.mixed = 100 + i;
  }
  SourceNames names;
  const auto reported = ReportedSources(counts, names);
  ASSERT_EQ(reported.size(), kMaxSources + 1);
  EXPECT_EQ(reported.at("s39").groups, 139);
  EXPECT_FALSE(reported.contains("s7"));
  EXPECT_EQ(reported.at(kOtherSources).mixed, 8 * 100 + 28);  // s0 to s7
  counts["s7"].groups = counts["s7"].mixed = 1000;            // a name that was given is kept
  EXPECT_FALSE(ReportedSources(counts, names).contains("s7"));
  EXPECT_EQ(names.Of("s8"), "s8");
  EXPECT_EQ(names.Of("new"), kOtherSources);
}

}  // namespace
}  // namespace buttress
