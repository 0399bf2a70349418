#include "lib/experience/group.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <limits>
#include <string>

#include "lib/base/text/random.h"
#include "lib/experience/codec.h"
#include "tests/support/test_group.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Two turns of a conversation, both sampled by two versions and trained in spans, and a completion
// of a failed engine.
v1::Group GoodGroup() {
  v1::Group group = NewGroup(17, {1, 2, 3}, {1, 3, std::string(32, 'a')});
  v1::GroupHead& head = *group.mutable_head();
  *head.add_versions() = ToProto(PolicyVersion{1, 4, std::string(32, 'b')});
  head.add_component_names("exact");
  head.add_component_names("length");
  head.add_component_weights(1);
  head.add_component_weights(0.5);
  for (std::int32_t i = 0; i < 2; ++i) {
    AppendTokens(group, std::vector<std::int32_t>{5, 6, 7, i},
                 std::vector<float>{-0.5F, -1.25F, 0.0F, -3.0F}, FinishReason::kStop);
    AppendReward(head, Outcome::kCorrect, 1, 0.9, std::vector<double>{1, -0.2});
    AddSegment(group, i, 0, 0);
    AddSegment(group, i, 2, 1);
    AddTrainedSpan(group, i, {0, 1});
    AddTrainedSpan(group, i, {2, 4});
  }
  AppendTokens(group, {}, {}, FinishReason::kError);
  AppendReward(head, Outcome::kUnscorable, 0, 0);
  for (const std::int32_t parent : {-1, 0, -1}) group.mutable_head()->add_parents(parent);
  for (const char* reason : {"", "", "engine failed"}) group.add_unscorable_reasons(reason);
  for (const char* answer : {"4\xE2\x82", "4", ""}) group.add_extracted_answers(answer);  // cut
  for (const v1::Outcome outcome :
       {v1::OUTCOME_WRONG, v1::OUTCOME_UNSPECIFIED, v1::OUTCOME_UNSPECIFIED})
    group.add_second_outcomes(outcome);
  return group;
}

TEST(GroupTest, TurnsOfSeveralVersionsAndSpansSurviveTheRoundTrip) {
  const std::string bytes = GoodGroup().SerializeAsString();
  const Result<v1::Group> group = DecodeGroup(bytes);
  ASSERT_TRUE(group.ok()) << group.status().message();
  EXPECT_EQ(group->SerializeAsString(), bytes);
  EXPECT_EQ(Completions(group->head()), 3);
  EXPECT_THAT(PromptOf(*group), ElementsAre(1, 2, 3));
  EXPECT_THAT(TokensOf(*group, 1), ElementsAre(5, 6, 7, 1));
  EXPECT_THAT(LogprobsOf(*group, 1), ElementsAre(-0.5F, -1.25F, 0.0F, -3.0F));
  EXPECT_THAT(TokensOf(*group, 2), IsEmpty());
  EXPECT_THAT(TrainedSpansOf(*group, 1), ElementsAre(TokenSpan{0, 1}, TokenSpan{2, 4}));
  EXPECT_THAT(TrainedSpansOf(*group, 2), IsEmpty());
  const auto versions = VersionSpansOf(*group, 1);
  ASSERT_EQ(versions.size(), 2);
  EXPECT_EQ(versions[0].tokens, (TokenSpan{0, 2}));
  EXPECT_EQ(versions[1].tokens, (TokenSpan{2, 4}));
  EXPECT_EQ(versions[1].version, 1);
  EXPECT_THAT(VersionSpansOf(*group, 2), IsEmpty());
  EXPECT_THAT(group->head().trained_lengths(), ElementsAre(3, 3, 0));
  EXPECT_THAT(group->head().components(), ElementsAre(1, -0.2, 1, -0.2, 0, 0));
  EXPECT_EQ(UnscorableReasonOf(*group, 2), "engine failed");
  EXPECT_EQ(ExtractedAnswerOf(*group, 0), "4\xE2\x82");
  EXPECT_EQ(SecondOutcomeOf(*group, 0), Outcome::kWrong);
}

TEST(GroupTest, AGroupOfOneVersionThatIsTrainedWholeNeedsNeitherSegmentsNorSpans) {
  v1::Group group = NewGroup(1);
  AppendCompletion(group, {4, 5}, Outcome::kWrong, 0);
  ASSERT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
  EXPECT_THAT(TrainedSpansOf(group, 0), ElementsAre(TokenSpan{0, 2}));
  ASSERT_EQ(VersionSpansOf(group, 0).size(), 1);
  EXPECT_EQ(VersionSpansOf(group, 0)[0].tokens, (TokenSpan{0, 2}));
  EXPECT_EQ(UnscorableReasonOf(group, 0), "");
  EXPECT_EQ(ExtractedAnswerOf(group, 0), "");
  EXPECT_EQ(SecondOutcomeOf(group, 0), Outcome::kUnspecified);
}

TEST(GroupTest, ARawRewardMayBeThatOfALaterVerifierIfTheFirstDoesNotApply) {
  v1::Group group = NewGroup(1);
  for (const char* name : {"code", "math"}) {
    group.mutable_head()->add_component_names(name);
    group.mutable_head()->add_component_weights(1);
  }
  AppendTokens(group, std::vector<std::int32_t>{4}, std::vector<float>{-1}, FinishReason::kStop);
  AppendReward(*group.mutable_head(), Outcome::kCorrect, 1, 1, std::vector<double>{0, 1});
  EXPECT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
}

struct Refusal {
  const char* what;
  std::function<void(v1::Group& group)> change;
  const char* message;  // part of it
};

class CheckGroupTest : public testing::TestWithParam<Refusal> {};

TEST_P(CheckGroupTest, Rejects) {
  v1::Group group = GoodGroup();
  ASSERT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
  GetParam().change(group);
  const Status status = CheckGroup(group, {.max_completions = 3,
                                           .max_prompt_tokens = 4,
                                           .max_completion_tokens = 5,
                                           .vocab_size = 100});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
}

v1::GroupHead& Head(v1::Group& group) { return *group.mutable_head(); }

const Refusal kRefusals[] = {
    {"no prompt id", [](v1::Group& g) { Head(g).clear_prompt_id(); }, "prompt_id is empty"},
    {"no source", [](v1::Group& g) { Head(g).clear_source(); }, "source is empty"},
    {"no worker", [](v1::Group& g) { Head(g).clear_worker_id(); }, "worker_id is empty"},
    {"text that proto3 cannot read again", [](v1::Group& g) { Head(g).set_prompt_id("\xFF"); },
     "prompt_id is not valid UTF-8"},
    {"long prompt id", [](v1::Group& g) { Head(g).set_prompt_id(std::string(1 << 20, 'x')); },
     "prompt_id has 1048576 bytes; expected at most 4096"},
    {"no prompt", [](v1::Group& g) { g.clear_prompt_token_ids(); }, "prompt_token_ids is empty"},
    {"long prompt", [](v1::Group& g) { g.mutable_prompt_token_ids()->Resize(5, 1); },
     "prompt_token_ids has 5 tokens; expected at most 4"},
    {"another length of the prompt", [](v1::Group& g) { Head(g).set_prompt_tokens(2); },
     "prompt_tokens = 2; expected 3"},
    {"token outside the vocabulary", [](v1::Group& g) { g.set_prompt_token_ids(1, 100); },
     "prompt_token_ids[1] = 100; expected a token in [0, 100)"},
    {"no sampling", [](v1::Group& g) { g.clear_sampling(); }, "sampling.top_p = 0"},
    {"no completions", [](v1::Group& g) { Head(g).clear_outcomes(); },
     "0 completions; expected 1 to"},
    {"many completions",
     [](v1::Group& g) {
       Head(g).mutable_outcomes()->Resize(4, 1);
       Head(g).clear_parents();
     },
     "4 completions"},
    {"finish reasons", [](v1::Group& g) { Head(g).add_finish_reasons(v1::FINISH_REASON_STOP); },
     "column finish_reasons has 4 entries; expected 3"},
    {"raw rewards", [](v1::Group& g) { Head(g).add_raw_rewards(0); },
     "column raw_rewards has 4 entries"},
    {"rewards", [](v1::Group& g) { Head(g).mutable_rewards()->RemoveLast(); },
     "column rewards has 2"},
    {"weights", [](v1::Group& g) { Head(g).add_component_weights(1); },
     "column component_weights has 3 entries; expected 2"},
    {"components", [](v1::Group& g) { Head(g).add_components(1); },
     "column components has 7 entries; expected 6"},
    {"lengths", [](v1::Group& g) { Head(g).add_lengths(0); }, "column lengths has 4"},
    {"trained lengths", [](v1::Group& g) { Head(g).add_trained_lengths(0); },
     "column trained_lengths"},
    {"tokens", [](v1::Group& g) { g.add_token_ids(1); },
     "column token_ids has 9 entries; expected 8"},
    {"log-probs", [](v1::Group& g) { g.mutable_logprobs()->RemoveLast(); },
     "column logprobs has 7 entries; expected 8"},
    {"reasons", [](v1::Group& g) { g.add_unscorable_reasons(""); }, "column unscorable_reasons"},
    {"answers", [](v1::Group& g) { g.add_extracted_answers(""); },
     "column extracted_answers has 4"},
    {"second outcomes", [](v1::Group& g) { g.add_second_outcomes(v1::OUTCOME_WRONG); },
     "column second_outcomes has 4"},
    {"parents", [](v1::Group& g) { g.mutable_head()->add_parents(-1); }, "column parents has 4"},
    {"negative length", [](v1::Group& g) { Head(g).set_lengths(1, -1); },
     "completion 1 has -1 tokens; expected 0 to 5"},
    {"long completion", [](v1::Group& g) { Head(g).set_lengths(1, 6); },
     "completion 1 has 6 tokens"},
    {"lengths that overflow",
     [](v1::Group& g) {
       Head(g).set_lengths(0, INT32_MAX);
       Head(g).set_lengths(1, INT32_MAX);
     },
     "completion 0 has 2147483647 tokens"},
    {"unknown outcome", [](v1::Group& g) { Head(g).set_outcomes(0, static_cast<v1::Outcome>(9)); },
     "outcomes: this version does not know 9"},
    {"unknown finish reason",
     [](v1::Group& g) { Head(g).set_finish_reasons(0, static_cast<v1::FinishReason>(9)); },
     "finish_reasons: this version does not know 9"},
    {"unknown second outcome",
     [](v1::Group& g) { g.set_second_outcomes(0, static_cast<v1::Outcome>(9)); },
     "second_outcomes: this version does not know 9"},
    {"negative token", [](v1::Group& g) { g.set_token_ids(6, -1); },
     "completion 1: token_ids[2] = -1"},
    {"NaN log-prob", [](v1::Group& g) { g.set_logprobs(7, kNan); },
     "completion 1: logprobs[3] = nan"},
    {"infinite log-prob", [](v1::Group& g) { g.set_logprobs(4, -kInfinity); },
     "logprobs[0] = -inf"},
    {"positive log-prob", [](v1::Group& g) { g.set_logprobs(4, 0.5F); }, "logprobs[0] = 0.500000"},
    {"log-prob of a token that is never sampled", [](v1::Group& g) { g.set_logprobs(4, -3e38F); },
     "expected a number from -1000 to 0"},
    {"no finish reason",
     [](v1::Group& g) { Head(g).set_finish_reasons(0, v1::FINISH_REASON_UNSPECIFIED); },
     "completion 0: finish_reason is not set"},
    {"no outcome", [](v1::Group& g) { Head(g).set_outcomes(0, v1::OUTCOME_UNSPECIFIED); },
     "completion 0: outcome is not set"},
    {"NaN reward", [](v1::Group& g) { Head(g).set_rewards(0, kNan); },
     "reward = nan; expected numbers in"},
    {"infinite raw reward", [](v1::Group& g) { Head(g).set_raw_rewards(0, kInfinity); },
     "raw_reward = inf"},
    {"huge reward", [](v1::Group& g) { Head(g).set_rewards(0, -1e308); }, "reward = -1e+308"},
    {"scored nothing", [](v1::Group& g) { Head(g).set_outcomes(2, v1::OUTCOME_WRONG); },
     "completion 2: no tokens"},
    {"unscorable without a reason", [](v1::Group& g) { g.clear_unscorable_reasons(); },
     "completion 2: unscorable_reason is empty"},
    {"reward of an unscorable completion", [](v1::Group& g) { Head(g).set_rewards(2, kNan); },
     "completion 2: unscorable, but raw_reward = 0, reward = nan"},
    {"component of an unscorable completion", [](v1::Group& g) { Head(g).set_components(5, 1); },
     "completion 2: unscorable, but"},
    {"NaN component", [](v1::Group& g) { Head(g).set_components(1, kNan); },
     "component 'length' = nan"},
    {"huge weight", [](v1::Group& g) { Head(g).set_component_weights(1, 1e308); },
     "component 'length' has weight 1e+308"},
    {"raw reward next to its components", [](v1::Group& g) { Head(g).set_raw_rewards(0, -5); },
     "the weighted sum of its components is 0.9, and none of them is the raw reward"},
    {"reward next to its components", [](v1::Group& g) { Head(g).set_rewards(0, 1e5); },
     "reward = 100000, but the weighted sum of its components is 0.9"},
    {"many components",
     [](v1::Group& g) {
       for (int i = 0; i < 20000; ++i) Head(g).add_component_names("part");
     },
     "20002 reward components; expected at most 32"},
    {"long name of a component",
     [](v1::Group& g) { Head(g).set_component_names(0, std::string(1025, 'x')); },
     "component_names has 1025 bytes; expected at most 1024"},
    {"component without a name", [](v1::Group& g) { Head(g).set_component_names(1, ""); },
     "component_names is empty"},
    {"long reason", [](v1::Group& g) { g.set_unscorable_reasons(2, std::string(5 << 20, 'x')); },
     "unscorable_reason has 5242880 bytes; expected at most 1024"},
    {"long extracted answer",
     [](v1::Group& g) { g.set_extracted_answers(0, std::string(300, 'x')); },
     "extracted_answer has 300 bytes; expected at most 256"},
    {"parent that is later", [](v1::Group& g) { g.mutable_head()->set_parents(1, 1); },
     "completion 1: parent = 1; expected the index of an earlier completion of its episode"},
    {"negative parent", [](v1::Group& g) { g.mutable_head()->set_parents(1, -2); }, "parent = -2"},
    {"digest of a version", [](v1::Group& g) { Head(g).mutable_versions(0)->set_digest("short"); },
     "versions[0].digest has 5 bytes; expected 32 or none"},
    {"version twice", [](v1::Group& g) { Head(g).mutable_versions(1)->set_step(3); },
     "versions[1] = 1:3 follows 1:3; expected each once, the oldest first"},
    {"no versions",
     [](v1::Group& g) {
       Head(g).clear_versions();
       g.clear_segments();
     },
     "0 versions and 0 segments for 8 tokens"},
    {"no segments", [](v1::Group& g) { g.clear_segments(); }, "2 versions and 0 segments"},
    {"segments of one version", [](v1::Group& g) { Head(g).mutable_versions()->RemoveLast(); },
     "1 versions and 4 segments"},
    {"segments begin late", [](v1::Group& g) { g.mutable_segments(0)->set_first_token(1); },
     "segments[0] = completion 0 from token 1"},
    {"segments out of order", [](v1::Group& g) { g.mutable_segments(1)->set_first_token(0); },
     "segments[1] = completion 0 from token 0"},
    {"segment past the end", [](v1::Group& g) { g.mutable_segments(1)->set_first_token(4); },
     "segments[1] = completion 0 from token 4"},
    {"segment of no completion", [](v1::Group& g) { g.mutable_segments(3)->set_completion(3); },
     "segments[3] = completion 3"},
    {"segment of a negative completion",
     [](v1::Group& g) { g.mutable_segments(0)->set_completion(-1); },
     "segments[0] = completion -1"},
    {"completions out of order", [](v1::Group& g) { g.mutable_segments(3)->set_completion(0); },
     "segments[3] = completion 0"},
    {"segment of no version", [](v1::Group& g) { g.mutable_segments(1)->set_version(2); },
     "segments[1] = completion 0 from token 2 by version 2"},
    {"version becomes older",
     [](v1::Group& g) {
       g.mutable_segments(0)->set_version(1);
       g.mutable_segments(1)->set_version(0);
     },
     "segments[1] = completion 0 from token 2 by version 0"},
    {"completion without a segment",
     [](v1::Group& g) { g.mutable_segments()->DeleteSubrange(2, 2); },
     "completion 1 has tokens but no segment"},
    {"version without a token",
     [](v1::Group& g) {
       for (v1::Segment& segment : *g.mutable_segments()) segment.set_version(0);
     },
     "versions[1] sampled no token"},
    {"span empty", [](v1::Group& g) { g.mutable_trained_spans(0)->set_begin(1); },
     "trained_spans[0] = [1, 1) of completion 0"},
    {"spans overlap", [](v1::Group& g) { g.mutable_trained_spans(0)->set_end(3); },
     "trained_spans[1] = [2, 4) of completion 0"},
    {"span past the end", [](v1::Group& g) { g.mutable_trained_spans(1)->set_end(5); },
     "trained_spans[1] = [2, 5)"},
    {"negative span", [](v1::Group& g) { g.mutable_trained_spans(0)->set_begin(-1); },
     "trained_spans[0] = [-1, 1)"},
    {"span of no completion", [](v1::Group& g) { g.mutable_trained_spans(3)->set_completion(3); },
     "trained_spans[3] = [2, 4) of completion 3"},
    {"spans out of order", [](v1::Group& g) { g.mutable_trained_spans(3)->set_completion(0); },
     "trained_spans[3] = [2, 4) of completion 0"},
    {"another trained length", [](v1::Group& g) { Head(g).set_trained_lengths(1, 4); },
     "completion 1: trained_length = 4; expected 3"},
    {"trained and unscorable", [](v1::Group& g) { Head(g).set_trained_lengths(2, 1); },
     "completion 2: trained_length = 1; expected 0"},
};

INSTANTIATE_TEST_SUITE_P(Everything, CheckGroupTest, testing::ValuesIn(kRefusals),
                         [](const auto& refusal) {
                           std::string name = refusal.param.what;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

// Any bytes become a group that passes CheckGroup and whose columns can be read, or a Status.
TEST(GroupProperty, ArbitraryBytesAreAGroupOrAStatus) {
  // protobuf writes a line to stderr for each string that is not UTF-8.
  const google::protobuf::LogSilencer silencer;
  RandomStream random({20260101, 30});
  const std::string good = GoodGroup().SerializeAsString();
  int accepted = 0;
  for (int trial = 0; trial < 50000; ++trial) {
    std::string bytes = good;
    for (std::uint64_t change = random.Below(4); change > 0; --change)
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
    if (random.Below(4) == 0) bytes.resize(random.Below(bytes.size() + 1));
    if (random.Below(8) == 0)
      bytes.insert(random.Below(bytes.size() + 1),
                   std::string(random.Below(20), static_cast<char>(random.Below(256))));
    Result<v1::Group> group = DecodeGroup(bytes);
    if (!group.ok()) {
      EXPECT_EQ(group.status().code(), StatusCode::kInvalidArgument);
      EXPECT_FALSE(group.status().message().empty());
      continue;
    }
    ++accepted;
    std::size_t trained = 0, sampled = 0;
    for (int i = 0; i < Completions(group->head()); ++i) {
      for (const TokenSpan& span : TrainedSpansOf(*group, i))
        trained += LogprobsOf(*group, i)
                       .subspan(static_cast<std::size_t>(span.begin),
                                static_cast<std::size_t>(span.end - span.begin))
                       .size();
      for (const auto& [tokens, version] : VersionSpansOf(*group, i)) {
        sampled += TokensOf(*group, i)
                       .subspan(static_cast<std::size_t>(tokens.begin),
                                static_cast<std::size_t>(tokens.end - tokens.begin))
                       .size();
        ASSERT_LT(version, group->head().versions_size());
      }
    }
    EXPECT_LE(trained, sampled);
    EXPECT_EQ(sampled, static_cast<std::size_t>(group->token_ids_size()));
    FillDerivedColumns(*group);
    ASSERT_TRUE(DecodeGroup(group->SerializeAsString()).ok());
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 49000);
}

}  // namespace
}  // namespace buttress
