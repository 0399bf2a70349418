#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "lib/experience/codec.h"

namespace buttress {
namespace {

// Two groups of two and one completions, with two reward components.
Plan GoodPlan() {
  Plan plan;
  plan.step = 4;
  plan.group_ids = {17, 19};
  plan.group_offsets = {0, 2, 3};
  plan.prompt_lengths = {5, 7};
  plan.oldest_versions = {{1, 3, ""}, {1, 2, ""}};
  plan.history = {{2, 8}, {0, 0}};
  plan.classes = {CollapseClass::kMixed, CollapseClass::kUnscorable};
  plan.outcomes = {Outcome::kCorrect, Outcome::kWrong, Outcome::kUnscorable};
  plan.raw_rewards = {1, 0, 0};
  plan.rewards = {0.9, -0.1, 0};
  plan.lengths = {3, 4, 0};
  plan.total_lengths = {4, 4, 2};
  plan.truncated = {false, true, true};
  plan.components = {1, -0.1, 0, -0.1, 0, 0};
  plan.collapse.step = {.groups = 2, .mixed = 1, .unscorable = 1};
  plan.collapse.cumulative = {.groups = 9, .all_correct = 2, .mixed = 7};
  plan.collapse.acr_ema = 0.25;
  plan.collapse.expected_acr = 0.5;
  plan.collapse.sources = {{"code", {.groups = 1, .unscorable = 1}, {}},
                           {"math", {.groups = 1, .mixed = 1}, {.groups = 7, .all_wrong = 7}}};
  plan.sources = {1, 0};
  plan.drawn = {.completions = 5, .scorable = 4, .tokens = 17, .raw_reward = -0.25};
  return plan;
}

TEST(PlanCodecTest, PlanSurvivesTheRoundTrip) {
  const auto plan = FromProto(ToProto(GoodPlan()));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(*plan, GoodPlan());
}

TEST(PlanCodecTest, RejectsGroupSizesThatExceedTheRows) {
  v1::Plan proto = ToProto(GoodPlan());
  proto.set_group_sizes(1, std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(FromProto(proto).status().message(),
            "group_sizes exceed the 3 completions of the plan");
}

TEST(PlanCodecTest, RejectsTotalsThatNoCompletionsGive) {
  v1::Plan proto = ToProto(GoodPlan());
  proto.mutable_drawn()->set_scorable(6);
  EXPECT_EQ(FromProto(proto).status().message(),
            "drawn: 6 scorable of 5 completions with raw rewards of -0.25 in all; expected no more "
            "scorable ones than completions, and a finite sum");
  proto = ToProto(GoodPlan());
  proto.mutable_drawn()->set_raw_reward(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(FromProto(proto).ok());
}

TEST(PlanCodecTest, RejectsUnknownEnumerators) {
  v1::Plan proto = ToProto(GoodPlan());
  proto.set_outcomes(0, static_cast<v1::Outcome>(9));
  EXPECT_EQ(FromProto(proto).status().message(), "outcomes: this version does not know 9");
  proto = ToProto(GoodPlan());
  proto.set_classes(0, static_cast<v1::CollapseClass>(9));
  EXPECT_EQ(FromProto(proto).status().message(), "classes: this version does not know 9");
}

struct Rejection {
  const char* what;
  std::function<void(Plan&)> change;
  const char* message;  // part of it
};

class CheckPlanTest : public testing::TestWithParam<Rejection> {};

TEST_P(CheckPlanTest, Rejects) {
  Plan plan = GoodPlan();
  ASSERT_TRUE(CheckPlan(plan).ok()) << CheckPlan(plan).message();
  GetParam().change(plan);
  const Status status = CheckPlan(plan);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

const Rejection kRejections[] = {
    {"missing offset", [](Plan& p) { p.group_offsets.pop_back(); },
     "group_offsets has 2 entries; expected 3"},
    {"offsets that fall",
     [](Plan& p) {
       p.group_offsets = {0, 4, 3};
     },
     "group_offsets[2] = 3"},
    {"offsets that end early",
     [](Plan& p) {
       p.group_offsets = {0, 1, 2};
     },
     "group_offsets end at 2"},
    {"empty group",
     [](Plan& p) {
       p.group_offsets = {0, 3, 3};
     },
     "group 19 has no completions"},
    {"missing prompt length", [](Plan& p) { p.prompt_lengths.pop_back(); },
     "prompt_lengths has 1 entries; expected 2"},
    {"missing version", [](Plan& p) { p.oldest_versions.pop_back(); }, "oldest_versions has 1"},
    {"missing history", [](Plan& p) { p.history.pop_back(); }, "history has 1"},
    {"missing class", [](Plan& p) { p.classes.pop_back(); }, "classes has 1"},
    {"missing source", [](Plan& p) { p.sources.pop_back(); }, "sources has 1"},
    {"source that is not counted", [](Plan& p) { p.sources[1] = 2; }, "group 19 has source 2 of 2"},
    {"sources in another order",
     [](Plan& p) { std::swap(p.collapse.sources[0], p.collapse.sources[1]); },
     "source 'code' follows 'math'"},
    {"sources that do not add up", [](Plan& p) { p.collapse.sources[0].step = {}; },
     "the sources count 1 groups, the step 2"},
    {"missing raw reward", [](Plan& p) { p.raw_rewards.pop_back(); }, "raw_rewards has 2"},
    {"missing reward", [](Plan& p) { p.rewards.pop_back(); }, "rewards has 2"},
    {"missing length", [](Plan& p) { p.lengths.pop_back(); }, "lengths has 2"},
    {"missing total length", [](Plan& p) { p.total_lengths.pop_back(); }, "total_lengths has 2"},
    {"missing truncation", [](Plan& p) { p.truncated.pop_back(); }, "truncated has 2"},
    {"half a row of components", [](Plan& p) { p.components.pop_back(); },
     "components has 5 entries; expected a multiple of 3"},
    {"no outcome", [](Plan& p) { p.outcomes[1] = Outcome::kUnspecified; },
     "completion 1 has outcome unspecified"},
    {"reward that is not finite",
     [](Plan& p) { p.rewards[0] = std::numeric_limits<double>::quiet_NaN(); }, "reward nan"},
    {"component that is not finite",
     [](Plan& p) { p.components[0] = std::numeric_limits<double>::infinity(); },
     "component is not finite"},
    {"negative length", [](Plan& p) { p.lengths[0] = -1; }, "-1 trained tokens of 4"},
    {"more trained tokens than tokens", [](Plan& p) { p.lengths[0] = 5; }, "5 trained tokens of 4"},
};

INSTANTIATE_TEST_SUITE_P(Everything, CheckPlanTest, testing::ValuesIn(kRejections),
                         [](const auto& rejection) {
                           std::string name = rejection.param.what;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

Lease GoodLease() {
  Lease lease;
  lease.ref = {17, 3};
  lease.prompt_id = "countdown/12";
  lease.source = "countdown";
  lease.prompt_token_ids = {1, 2, 3};
  lease.answer = "42";
  lease.extra_json = "{}";
  lease.completions = 8;
  lease.sampling.seed = 99;
  lease.min_version = {1, 3, std::string(32, 'a')};
  lease.exact_version = true;
  lease.ttl_ms = 30000;
  return lease;
}

TEST(LeaseCodecTest, LeaseSurvivesTheRoundTrip) {
  const auto lease = FromProto(ToProto(GoodLease()));
  ASSERT_TRUE(lease.ok()) << lease.status().message();
  EXPECT_EQ(*lease, GoodLease());
}

TEST(LeaseCodecTest, RejectsLeasesThatCannotBeSampled) {
  v1::Lease proto = ToProto(GoodLease());
  proto.clear_prompt_token_ids();
  EXPECT_EQ(FromProto(proto).status().message(), "prompt_token_ids is empty");
  proto = ToProto(GoodLease());
  proto.set_completions(0);
  EXPECT_EQ(FromProto(proto).status().message(), "completions = 0; expected 1 to 4096");
  proto.set_completions(4097);
  EXPECT_EQ(FromProto(proto).status().message(), "completions = 4097; expected 1 to 4096");
}

TEST(LeaseCodecTest, RejectsReturnsWithoutAReason) {
  const ReturnedLease returned{{17, 3}, ReturnReason::kEngineFailed};
  EXPECT_EQ(FromProto(ToProto(returned))->reason, ReturnReason::kEngineFailed);
  EXPECT_FALSE(FromProto(ToProto(ReturnedLease{{17, 3}, ReturnReason::kUnspecified})).ok());
  EXPECT_FALSE(FromProto(ToProto(ReturnedLease{{17, 3}, static_cast<ReturnReason>(9)})).ok());
}

}  // namespace
}  // namespace buttress
