#include "lib/experience/partial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PolicyVersion kOld{1, 3, std::string(32, 'a')};
const PolicyVersion kNew{1, 4, std::string(32, 'b')};

// Five tokens, the last two of newer weights.
PartialCompletion Five(std::int32_t first) {
  const std::vector<std::int32_t> tokens = {10, 11, 12, 13, 14};
  const std::vector<float> logprobs = {-1, -2, -3, -4, -5};
  const std::vector<Segment> segments = {{0, kOld}, {3, kNew}};
  return PartFrom(2, first, tokens, logprobs, segments);
}

TEST(PartialTest, PartsThatFollowEachOtherMakeTheWhole) {
  for (std::int32_t first = 1; first < 5; ++first) {
    PartialCompletion whole = Five(0);
    whole.Cut(first);
    EXPECT_EQ(whole.end(), first);
    whole.Append(Five(first));
    EXPECT_EQ(whole, Five(0)) << first;
  }
  EXPECT_THAT(Five(4).segments, ElementsAre(Segment{4, kNew}));
  EXPECT_THAT(Five(2).segments, ElementsAre(Segment{2, kOld}, Segment{3, kNew}));
}

TEST(PartialTest, TheMessageHasAllOfIt) {
  PartialCompletion partial = Five(2);
  partial.finish_reason = FinishReason::kStop;
  EXPECT_EQ(*FromProto(ToProto(partial)), partial);
}

TEST(PartialTest, BadMessagesAreNamed) {
  const auto error = [](const auto& damage) {
    v1::PartialCompletion proto = ToProto(Five(2));
    damage(proto);
    const auto read = FromProto(proto);
    return read.ok() ? std::string("accepted") : read.status().ToString();
  };
  EXPECT_THAT(error([](auto& p) { p.add_logprobs(-1); }), HasSubstr("3 tokens from index 2 and 4"));
  EXPECT_THAT(error([](auto& p) { p.set_logprobs(0, 0.5); }), HasSubstr("log-prob"));
  EXPECT_THAT(error([](auto& p) { p.set_token_ids(0, -1); }), HasSubstr("negative"));
  EXPECT_THAT(error([](auto& p) { p.set_first_token(-1); }), HasSubstr("from index -1"));
  EXPECT_THAT(error([](auto& p) { p.set_completion(-1); }), HasSubstr("completion = -1"));
  EXPECT_THAT(error([](auto& p) { p.set_finish_reason(v1::FINISH_REASON_ABORT); }),
              HasSubstr("finish_reason = 3"));
  EXPECT_THAT(error([](auto& p) { p.clear_versions(); }), HasSubstr("versions"));
  EXPECT_THAT(error([](auto& p) { p.set_version_starts(1, 5); }), HasSubstr("versions"));
  EXPECT_THAT(error([](auto& p) { p.mutable_versions(1)->set_step(2); }), HasSubstr("older"));
  EXPECT_THAT(error([](auto& p) {
                p.clear_token_ids();
                p.clear_logprobs();
              }),
              HasSubstr("0 tokens"));
}

}  // namespace
}  // namespace buttress
