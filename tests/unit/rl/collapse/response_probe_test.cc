#include "lib/rl/collapse/response_probe.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace buttress {
namespace {

TEST(ResponseProbeTest, CountsDistinctAndWellFormedResponsesOfTheScorable) {
  Group group;
  const auto add = [&](std::vector<std::int32_t> tokens, const std::string& answer,
                       Outcome outcome) {
    Completion& completion = group.completions.emplace_back();
    completion.token_ids = std::move(tokens);
    completion.extracted_answer = answer;
    completion.outcome = outcome;
  };
  add({1, 2}, "2", Outcome::kCorrect);
  add({1, 2}, "2", Outcome::kCorrect);
  add({1, 3}, "", Outcome::kWrong);
  add({9}, "9", Outcome::kUnscorable);
  ResponseProbe probe;
  EXPECT_EQ(probe.distinct_share(), 0);
  probe.Add(group);
  EXPECT_EQ(probe.responses, 3);
  EXPECT_EQ(probe.distinct, 2);
  EXPECT_EQ(probe.formatted, 2);
  probe.Add(group);  // another group with the same texts: distinct within each
  EXPECT_DOUBLE_EQ(probe.distinct_share(), 4.0 / 6);
  EXPECT_DOUBLE_EQ(probe.format_share(), 4.0 / 6);
}

}  // namespace
}  // namespace buttress
