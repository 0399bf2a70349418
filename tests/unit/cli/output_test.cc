#include "cli/output.h"

#include <gtest/gtest.h>

namespace buttress {
namespace {

TEST(OutputTest, PromptsPassedOverHaveNoZeros) {
  EXPECT_EQ(SkippedPromptsOf({{"math", {3, 0, 0, 0, 12}}, {"code", SkipCounts{}}}),
            (SkippedPrompts{{"math", {{"easy", 3}, {"over_long", 12}}}}));
}

TEST(OutputTest, TheTextNamesSourcesThatHaveNames) {
  EXPECT_EQ(SkippedText({}), "");
  EXPECT_EQ(SkippedText({{"", {{"over_long", 2}}}}), "prompts passed over: 2 over_long\n");
  EXPECT_EQ(SkippedText({{"code", {{"hard", 1}}}, {"math", {{"easy", 3}, {"over_long", 12}}}}),
            "prompts of code passed over: 1 hard\n"
            "prompts of math passed over: 3 easy, 12 over_long\n");
}

}  // namespace
}  // namespace buttress
