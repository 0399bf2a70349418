// The token limit of a dump without finish reasons.
#include <gtest/gtest.h>

#include <functional>

#include "lib/base/text/random.h"
#include "lib/explain/post_mortem.h"

namespace buttress {
namespace {

// Returns how many of 200 groups, all wrong, are named as truncated.
std::int64_t Truncated(const std::function<std::int32_t()>& tokens) {
  PostMortem post_mortem(CauseRules{}, nullptr);
  for (std::int64_t step = 1; step <= 20; ++step) {
    std::vector<GroupFacts> groups(10);
    for (std::size_t k = 0; k < groups.size(); ++k) {
      groups[k].step = step;
      groups[k].prompt_id = std::to_string(10 * step) + std::to_string(k);
      for (int i = 0; i < 8; ++i) {
        groups[k].completions.emplace_back().SetRewards(0);
        groups[k].completions.back().tokens = tokens();
      }
    }
    EXPECT_TRUE(post_mortem.Add(groups).ok());
  }
  return post_mortem.Finish().all.causes[static_cast<std::size_t>(Cause::kTruncated)];
}

class TokenLimitTest : public ::testing::Test {
 protected:
  std::int32_t Between(std::int32_t low, std::int32_t high) {
    return low + static_cast<std::int32_t>(random_.Below(static_cast<std::uint64_t>(high - low)));
  }

  RandomStream random_{{1, 2}};
};

TEST_F(TokenLimitTest, ManyCompletionsOfOneGreatLengthAreTruncated) {
  EXPECT_GT(Truncated([&] { return std::min(512, Between(200, 1200)); }), 150);
  EXPECT_GT(Truncated([] { return 512; }), 150);
}

TEST_F(TokenLimitTest, AnswersOfOneFormAreWhole) {
  EXPECT_EQ(Truncated([&] { return Between(2, 5); }), 0);
  EXPECT_EQ(Truncated([] { return 1; }), 0);
  // Most have the greatest lengths, none of which stands out.
  EXPECT_EQ(Truncated([&] { return Between(90, 100); }), 0);
}

}  // namespace
}  // namespace buttress
