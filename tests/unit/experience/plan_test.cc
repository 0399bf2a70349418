#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "lib/experience/codec.h"
#include "tests/support/make_head.h"

namespace buttress {
namespace {

v1::GroupHead GoodHead(std::uint64_t id, const char* source, std::vector<Outcome> outcomes) {
  v1::GroupHead head = MakeHead(id, outcomes, {1, 3, ""});
  head.set_source(source);
  for (const char* name : {"answer", "length"}) {
    head.add_component_names(name);
    head.add_component_weights(1);
  }
  head.mutable_components()->Resize(2 * head.outcomes_size(), 0.5);
  head.mutable_history()->set_correct(2);
  head.mutable_history()->set_scored(8);
  return head;
}

// Two groups of two and one completions, with two reward components.
v1::Plan GoodPlan() {
  Plan plan;
  plan.step = 4;
  for (const v1::GroupHead& head : {GoodHead(17, "math", {Outcome::kCorrect, Outcome::kWrong}),
                                    GoodHead(19, "code", {Outcome::kUnscorable})})
    plan.groups.push_back(std::make_shared<const v1::GroupHead>(head));
  plan.collapse.step = {.groups = 2, .mixed = 1, .unscorable = 1};
  plan.collapse.cumulative = {.groups = 9, .all_correct = 2, .mixed = 7};
  plan.collapse.acr_ema = 0.25;
  plan.collapse.expected_acr = 0.5;
  plan.collapse.sources = {{"code", {.groups = 1, .unscorable = 1}, {}},
                           {"math", {.groups = 1, .mixed = 1}, {.groups = 7, .all_wrong = 7}}};
  plan.drawn = {.completions = 5, .scorable = 4, .tokens = 17, .raw_reward = -0.25};
  plan.control = {.factor = 1.5, .expected = 0.25, .mixed = 0.5, .replaced_tokens = 6};
  return ToProto(plan);
}

TEST(PlanCodecTest, PlanSurvivesTheRoundTrip) {
  const auto plan = FromProto(GoodPlan());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(ToProto(*plan).SerializeAsString(), GoodPlan().SerializeAsString());
  EXPECT_EQ(plan->offsets(), (std::vector<std::int32_t>{0, 2, 3}));
  EXPECT_EQ(SourceIndices(plan->groups, plan->collapse.sources), (std::vector<std::int32_t>{1, 0}));
}

struct Rejection {
  const char* what;
  std::function<void(v1::Plan&)> change;
  const char* message;  // part of it
};

class CheckPlanTest : public testing::TestWithParam<Rejection> {};

TEST_P(CheckPlanTest, Rejects) {
  v1::Plan plan = GoodPlan();
  ASSERT_TRUE(FromProto(v1::Plan(plan)).ok());
  GetParam().change(plan);
  const Status status = FromProto(std::move(plan)).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

// A rejection of what `change` does to the head of group 17.
Rejection OfHead(const char* what, std::function<void(v1::GroupHead&)> change,
                 const char* message) {
  return {what, [change](v1::Plan& plan) { change(*plan.mutable_groups(0)); }, message};
}

const Rejection kRejections[] = {
    OfHead(
        "empty group", [](v1::GroupHead& h) { h.clear_outcomes(); }, "group 17: no completions"),
    OfHead(
        "missing finish reason", [](v1::GroupHead& h) { h.clear_finish_reasons(); },
        "column finish_reasons has 0 entries; expected 2"),
    OfHead(
        "missing raw reward", [](v1::GroupHead& h) { h.mutable_raw_rewards()->RemoveLast(); },
        "column raw_rewards has 1 entries; expected 2"),
    OfHead(
        "missing reward", [](v1::GroupHead& h) { h.add_rewards(1); }, "rewards has 3"),
    OfHead(
        "missing length", [](v1::GroupHead& h) { h.clear_lengths(); }, "lengths has 0"),
    OfHead(
        "missing trained length", [](v1::GroupHead& h) { h.clear_trained_lengths(); },
        "trained_lengths has 0"),
    OfHead(
        "missing weight", [](v1::GroupHead& h) { h.clear_component_weights(); },
        "component_weights has 0 entries; expected 2"),
    OfHead(
        "half a row of components", [](v1::GroupHead& h) { h.mutable_components()->RemoveLast(); },
        "components has 3 entries; expected 4"),
    OfHead(
        "no outcome", [](v1::GroupHead& h) { h.set_outcomes(1, v1::OUTCOME_UNSPECIFIED); },
        "completion 1: outcome 0"),
    OfHead(
        "unknown outcome", [](v1::GroupHead& h) { h.set_outcomes(0, static_cast<v1::Outcome>(9)); },
        "completion 0: outcome 9"),
    OfHead(
        "unknown class",
        [](v1::GroupHead& h) { h.set_collapse(static_cast<v1::CollapseClass>(9)); },
        "collapse = 9"),
    OfHead(
        "reward that is not finite",
        [](v1::GroupHead& h) { h.set_rewards(0, std::numeric_limits<double>::quiet_NaN()); },
        "reward nan"),
    OfHead(
        "component that is not finite",
        [](v1::GroupHead& h) { h.set_components(0, std::numeric_limits<double>::infinity()); },
        "component is not finite"),
    OfHead(
        "negative length", [](v1::GroupHead& h) { h.set_trained_lengths(0, -1); },
        "-1 trained tokens of 5"),
    OfHead(
        "more trained tokens than tokens", [](v1::GroupHead& h) { h.set_trained_lengths(0, 6); },
        "6 trained tokens of 5"),
    OfHead(
        "history without sense", [](v1::GroupHead& h) { h.mutable_history()->set_correct(9); },
        "history: 9 correct of 8"),
    OfHead(
        "draw of probability 0",
        [](v1::GroupHead& h) { h.mutable_history()->set_draw_probability(0); },
        "history: draw probability 0; expected above 0 and at most 1"),
    OfHead(
        "source that is not counted", [](v1::GroupHead& h) { h.set_source("physics"); },
        "group 17 has source 'physics'"),
    {"sources in another order",
     [](v1::Plan& p) { p.mutable_collapse()->mutable_sources()->SwapElements(0, 1); },
     "source 'code' follows 'math'"},
    {"sources that do not add up",
     [](v1::Plan& p) { p.mutable_collapse()->mutable_sources(0)->clear_step(); },
     "the sources count 1 groups, the step 2"},
    {"totals that no completions give", [](v1::Plan& p) { p.mutable_drawn()->set_scorable(6); },
     "drawn: 6 scorable of 5 completions with raw rewards of -0.25 in all"},
    {"a sum that is not finite",
     [](v1::Plan& p) {
       p.mutable_drawn()->set_raw_reward(std::numeric_limits<double>::infinity());
     },
     "a finite sum"},
};

INSTANTIATE_TEST_SUITE_P(Everything, CheckPlanTest, testing::ValuesIn(kRejections),
                         [](const auto& rejection) {
                           std::string name = rejection.param.what;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

SamplingParams SeededSampling() {
  SamplingParams sampling;
  sampling.seed = 99;
  return sampling;
}

v1::Lease GoodLease() {
  v1::Lease lease;
  *lease.mutable_ref() = ToProto(LeaseRef{17, 3});
  lease.set_prompt_id("countdown/12");
  lease.set_source("countdown");
  for (const std::uint32_t token : {1U, 2U, 3U}) lease.add_prompt_token_ids(token);
  lease.set_answer("42");
  lease.set_extra_json("{}");
  lease.set_completions(8);
  *lease.mutable_sampling() = ToProto(SeededSampling());
  *lease.mutable_min_version() = ToProto(PolicyVersion{1, 3, std::string(32, 'a')});
  lease.set_exact_version(true);
  lease.set_ttl_ms(30000);
  return lease;
}

TEST(LeaseCodecTest, ALeaseIsReadFieldByField) {
  const auto lease = FromProto(GoodLease());
  ASSERT_TRUE(lease.ok()) << lease.status().message();
  const Lease expected = {.ref = {17, 3},
                          .prompt_id = "countdown/12",
                          .source = "countdown",
                          .prompt_token_ids = {1, 2, 3},
                          .answer = "42",
                          .extra_json = "{}",
                          .completions = 8,
                          .sampling = SeededSampling(),
                          .min_version = {1, 3, std::string(32, 'a')},
                          .exact_version = true,
                          .ttl_ms = 30000};
  EXPECT_EQ(*lease, expected);
}

TEST(LeaseCodecTest, RejectsLeasesThatCannotBeSampled) {
  v1::Lease proto = GoodLease();
  proto.clear_prompt_token_ids();
  EXPECT_EQ(FromProto(proto).status().message(), "prompt_token_ids is empty");
  proto = GoodLease();
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
