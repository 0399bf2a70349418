#include "lib/experience/codec.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cctype>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/random.h"

namespace buttress {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Completion GoodCompletion(std::int32_t index) {
  Completion completion;
  completion.index = index;
  completion.token_ids = {5, 6, 7, 2};
  completion.logprobs = {-0.5F, -1.25F, 0.0F, -3.0F};
  completion.sampling = {.temperature = 0.7,
                         .top_p = 0.95,
                         .top_k = 20,
                         .max_tokens = 64,
                         .min_tokens = 3,
                         .stop_token_ids = {2, 9},
                         .stop = {"</answer>", "\n\n"},
                         .include_stop = true,
                         .seed = 0xFEDCBA9876543210};
  completion.segments = {{0, {1, 3, std::string(32, 'a')}}, {2, {1, 4, std::string(32, 'b')}}};
  completion.trained_spans = {{0, 1}, {2, 4}};
  completion.finish_reason = FinishReason::kStop;
  completion.outcome = Outcome::kCorrect;
  completion.raw_reward = 1.0;
  completion.reward = 0.9;
  completion.components = {{"exact", 1.0, 1.0}, {"length", -0.1, 1.0}};
  completion.parent_id = "3/0";
  completion.extracted_answer = std::string("4\xE2\x82", 3);  // cut inside a character
  completion.generation_seconds = 0.125;
  return completion;
}

Group GoodGroup() {
  Group group;
  group.group_id = 17;
  group.prompt_id = "countdown/12";
  group.source = "countdown";
  group.prompt_token_ids = {1, 2, 3};
  group.completions = {GoodCompletion(1), GoodCompletion(0), GoodCompletion(2)};
  Completion& failed = group.completions[2];
  failed.token_ids.clear();
  failed.logprobs.clear();
  failed.segments.clear();
  failed.trained_spans.clear();
  failed.components.clear();
  failed.finish_reason = FinishReason::kError;
  failed.outcome = Outcome::kUnscorable;
  failed.unscorable_reason = "engine failed";
  group.worker_id = "worker-1";
  return group;
}

TEST(CodecTest, DecodeGroupInvertsEncodeGroup) {
  const Group group = GoodGroup();
  const auto decoded = DecodeGroup(EncodeGroup(group));
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(*decoded, group);
  EXPECT_EQ(EncodeGroup(*decoded), EncodeGroup(group));
}

TEST(CodecTest, SmallTypesSurviveTheRoundTrip) {
  const PolicyVersion version = {3, std::numeric_limits<std::uint64_t>::max(),
                                 std::string(32, '\xFF')};
  EXPECT_EQ(*FromProto(ToProto(version)), version);
  PromptHistory history = {6, 20};
  history.Add({1, 4}, 0.5);
  EXPECT_EQ(*FromProto(ToProto(history)), history);
  const CollapseCounts counts = {15, 1, 2, 3, 4, 5};
  EXPECT_EQ(*FromProto(ToProto(counts)), counts);
  const CollapseSnapshot snapshot = {counts, {30, 2, 4, 6, 8, 10}, 0.25, 0.125};
  EXPECT_EQ(*FromProto(ToProto(snapshot)), snapshot);
}

TEST(CodecTest, RejectsNumbersThatOurTypesCannotHold) {
  v1::Group group = ToProto(GoodGroup());
  group.mutable_completions(1)->set_token_ids(0, 0x80000000U);
  const auto refused = FromProto(group);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(),
            "completion 1: token_ids = 2147483648; expected at most 2147483647");

  v1::PolicyVersion version;
  version.set_digest("short");
  EXPECT_EQ(FromProto(version).status().message(),
            "version.digest has 5 bytes; expected 32 or none");

  v1::PromptHistory history;
  history.set_correct(2);
  history.set_scored(1);
  EXPECT_FALSE(FromProto(history).ok());
  history.set_scored(std::numeric_limits<std::uint64_t>::max());
  EXPECT_FALSE(FromProto(history).ok());
  history = ToProto(PromptHistory{2, 4});
  for (const double recent : {-1.0, 5.0, std::numeric_limits<double>::quiet_NaN()}) {
    history.set_recent_correct(recent);
    EXPECT_FALSE(FromProto(history).ok()) << recent;
  }
  history.set_recent_correct(2);
  history.set_recent_scored(5);
  EXPECT_EQ(FromProto(history).status().message(),
            "history.recent: 2 correct of 5; expected 0 <= correct <= scored <= 4");

  v1::CollapseCounts counts;
  counts.set_groups(2);
  counts.set_mixed(1);
  EXPECT_FALSE(FromProto(counts).ok());
  counts.set_all_wrong(
      std::numeric_limits<std::uint64_t>::max());  // 1 + (2^64 - 1) wraps around to 0
  EXPECT_FALSE(FromProto(counts).ok());

  v1::CollapseSnapshot snapshot;
  snapshot.set_acr_ema(1.5);
  EXPECT_FALSE(FromProto(snapshot).ok());
  snapshot.set_acr_ema(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(FromProto(snapshot).ok());
}

TEST(CodecTest, ASecondOutcomeSurvivesTheRoundTrip) {
  Group group = GoodGroup();
  group.completions[0].second_outcome = Outcome::kWrong;
  EXPECT_EQ(*DecodeGroup(EncodeGroup(group)), group);
  v1::Group proto = ToProto(group);
  proto.mutable_completions(0)->set_second_outcome(static_cast<v1::Outcome>(9));
  EXPECT_EQ(FromProto(proto).status().message(),
            "completion 0: second_outcome = 9; this version does not know it");
}

TEST(CodecTest, RejectsUnusableSamplingParameters) {
  const auto refused = [](const std::function<void(v1::SamplingParams&)>& change) {
    v1::SamplingParams sampling = ToProto(SamplingParams());
    change(sampling);
    return !FromProto(sampling).ok();
  };
  EXPECT_FALSE(refused([](v1::SamplingParams&) {}));
  EXPECT_TRUE(refused([](v1::SamplingParams& s) { s.set_temperature(-1); }));
  EXPECT_TRUE(refused(
      [](v1::SamplingParams& s) { s.set_temperature(std::numeric_limits<double>::quiet_NaN()); }));
  EXPECT_TRUE(refused([](v1::SamplingParams& s) { s.set_top_p(0); }));
  EXPECT_TRUE(refused([](v1::SamplingParams& s) { s.set_top_p(1.5); }));
  EXPECT_TRUE(refused([](v1::SamplingParams& s) { s.set_max_tokens(0); }));
}

struct Refusal {
  const char* what;
  std::function<void(Group&)> change;
  const char* message;  // part of it
};

class CheckGroupTest : public testing::TestWithParam<Refusal> {};

TEST_P(CheckGroupTest, Rejects) {
  Group group = GoodGroup();
  ASSERT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
  GetParam().change(group);
  const Status status = CheckGroup(group, {.max_completions = 3,
                                           .max_prompt_tokens = 4,
                                           .max_completion_tokens = 5,
                                           .vocab_size = 100});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

const Refusal kRefusals[] = {
    {"no prompt id", [](Group& g) { g.prompt_id.clear(); }, "prompt_id is empty"},
    {"no source", [](Group& g) { g.source.clear(); }, "source is empty"},
    {"no worker", [](Group& g) { g.worker_id.clear(); }, "worker_id is empty"},
    {"text that proto3 cannot read again", [](Group& g) { g.prompt_id = "\xFF"; },
     "prompt_id is not valid UTF-8"},
    {"no prompt", [](Group& g) { g.prompt_token_ids.clear(); }, "prompt_token_ids is empty"},
    {"long prompt", [](Group& g) { g.prompt_token_ids.assign(5, 1); },
     "prompt_token_ids has 5 tokens; expected at most 4"},
    {"token outside the vocabulary", [](Group& g) { g.prompt_token_ids[1] = 100; },
     "prompt_token_ids[1] = 100"},
    {"no completions", [](Group& g) { g.completions.clear(); }, "0 completions; expected 1 to 3"},
    {"many completions", [](Group& g) { g.completions.push_back(GoodCompletion(3)); },
     "4 completions"},
    {"index twice", [](Group& g) { g.completions[1].index = 1; },
     "completion 1: index = 1; expected each of 0 to 2 once"},
    {"index out of range", [](Group& g) { g.completions[1].index = 3; }, "completion 1: index = 3"},
    {"negative index", [](Group& g) { g.completions[1].index = -1; }, "completion 1: index = -1"},
    {"long completion", [](Group& g) { g.completions[0].token_ids.assign(6, 1); },
     "completion 0: token_ids has 6 tokens"},
    {"negative token", [](Group& g) { g.completions[0].token_ids[2] = -1; }, "token_ids[2] = -1"},
    {"log-prob missing", [](Group& g) { g.completions[0].logprobs.pop_back(); },
     "3 log-probs for 4 tokens"},
    {"NaN log-prob", [](Group& g) { g.completions[1].logprobs[3] = kNan; },
     "completion 1: logprobs[3] = nan"},
    {"infinite log-prob", [](Group& g) { g.completions[1].logprobs[0] = -kInfinity; },
     "logprobs[0] = -inf"},
    {"positive log-prob", [](Group& g) { g.completions[1].logprobs[0] = 0.5F; },
     "logprobs[0] = 0.500000"},
    {"no segments", [](Group& g) { g.completions[0].segments.clear(); }, "0 segments for 4 tokens"},
    {"segments without tokens",
     [](Group& g) {
       g.completions[2].segments = {{0, {1, 1, ""}}};
     },
     "1 segments for 0 tokens"},
    {"segments begin late", [](Group& g) { g.completions[0].segments[0].first_token = 1; },
     "segments[0].first_token = 1"},
    {"segments out of order", [](Group& g) { g.completions[0].segments[1].first_token = 0; },
     "segments[1].first_token = 0"},
    {"segment past the end", [](Group& g) { g.completions[0].segments[1].first_token = 4; },
     "segments[1].first_token = 4"},
    {"version becomes older", [](Group& g) { g.completions[0].segments[1].version.step = 2; },
     "is older than the segment before it"},
    {"span empty",
     [](Group& g) {
       g.completions[0].trained_spans[0] = {1, 1};
     },
     "trained_spans[0] = [1, 1)"},
    {"spans overlap",
     [](Group& g) {
       g.completions[0].trained_spans = {{0, 3}, {2, 4}};
     },
     "trained_spans[1] = [2, 4)"},
    {"span past the end", [](Group& g) { g.completions[0].trained_spans[1].end = 5; },
     "trained_spans[1] = [2, 5)"},
    {"negative span", [](Group& g) { g.completions[0].trained_spans[0].begin = -1; },
     "trained_spans[0] = [-1, 1)"},
    {"no finish reason",
     [](Group& g) { g.completions[0].finish_reason = FinishReason::kUnspecified; },
     "finish_reason is not set"},
    {"no outcome", [](Group& g) { g.completions[0].outcome = Outcome::kUnspecified; },
     "outcome is not set"},
    {"NaN reward", [](Group& g) { g.completions[0].reward = kNan; },
     "reward = nan; expected numbers in"},
    {"infinite raw reward", [](Group& g) { g.completions[0].raw_reward = kInfinity; },
     "raw_reward = inf"},
    {"scored nothing", [](Group& g) { g.completions[2].outcome = Outcome::kWrong; },
     "completion 2: no tokens"},
    {"unscorable without a reason", [](Group& g) { g.completions[2].unscorable_reason.clear(); },
     "unscorable_reason is empty"},
    {"NaN component", [](Group& g) { g.completions[0].components[1].value = kNan; },
     "component 'length' = nan"},
    {"huge reward", [](Group& g) { g.completions[0].reward = -1e308; }, "reward = -1e+308"},
    {"huge component", [](Group& g) { g.completions[0].components[1].weight = 1e308; },
     "component 'length' = -0.1 with weight 1e+308"},
    {"raw reward beside its component", [](Group& g) { g.completions[0].raw_reward = -5; },
     "raw_reward = -5, reward = 0.9, but its components give 1 and 0.9"},
    {"reward beside its components", [](Group& g) { g.completions[0].reward = 1e5; },
     "reward = 100000, but its components give 1 and 0.9"},
    {"many components",
     [](Group& g) {
       g.completions[0].components.assign(20000, {"part", 0, 0});
     },
     "20000 reward components; expected at most 32"},
    {"long name of a component",
     [](Group& g) { g.completions[0].components[0].name.assign(1025, 'x'); },
     "components.name has 1025 bytes; expected at most 1024"},
    {"long reason", [](Group& g) { g.completions[2].unscorable_reason.assign(5 << 20, 'x'); },
     "unscorable_reason has 5242880 bytes; expected at most 1024"},
    {"long prompt id", [](Group& g) { g.prompt_id.assign(1 << 20, 'x'); },
     "prompt_id has 1048576 bytes; expected at most 4096"},
    {"long extracted answer", [](Group& g) { g.completions[0].extracted_answer.assign(300, 'x'); },
     "extracted_answer has 300 bytes; expected at most 256"},
    {"log-prob of a token that is never sampled",
     [](Group& g) { g.completions[1].logprobs[0] = -3e38F; }, "expected a number from -1000 to 0"},
    {"component without a name", [](Group& g) { g.completions[0].components[1].name.clear(); },
     "components.name is empty"},
    {"other components", [](Group& g) { g.completions[1].components[1].name = "size"; },
     "components differ from those of completion 1"},
    {"negative duration", [](Group& g) { g.completions[0].generation_seconds = -1; },
     "generation_seconds"},
};

INSTANTIATE_TEST_SUITE_P(Everything, CheckGroupTest, testing::ValuesIn(kRefusals),
                         [](const auto& refusal) {
                           std::string name = refusal.param.what;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

TEST(CodecTest, AcceptsAnUnscorableCompletionWithoutReward) {
  Group group = GoodGroup();
  group.completions[2].reward = kNan;
  EXPECT_TRUE(CheckGroup(group).ok()) << CheckGroup(group).message();
}

Result<Group> ParsedByProtobuf(const std::string& bytes) {
  v1::Group proto;
  if (!proto.ParseFromString(bytes)) return InvalidArgument("not a group");
  return FromProto(proto);
}

// A repeated number may arrive in several packed pieces or one by one.
TEST(CodecTest, DecodesTokensInPiecesAndOneByOne) {
  v1::Group proto = ToProto(GoodGroup());
  const std::string rest = proto.SerializeAsString();
  const std::string one_by_one = "\x20\x07\x20\x96\x01";  // field 4: 7, 150
  const std::string second_piece = "\x22\x02\x05\x06";    // field 4, packed: 5, 6
  for (const std::string& more : {one_by_one, second_piece}) {
    const auto group = DecodeGroup(rest + more);
    ASSERT_TRUE(group.ok()) << group.status().message();
    EXPECT_EQ(*group, *ParsedByProtobuf(rest + more));
    EXPECT_EQ(group->prompt_token_ids.size(), GoodGroup().prompt_token_ids.size() + 2);
  }
  const std::string half_a_number = "\x22\x01\x96";
  proto.clear_prompt_token_ids();
  EXPECT_EQ(DecodeGroup(proto.SerializeAsString() + half_a_number).status().code(),
            StatusCode::kInvalidArgument);
  const std::string above_int32 = std::string("\x22\x05\xFF\xFF\xFF\xFF\x0F");
  EXPECT_EQ(DecodeGroup(proto.SerializeAsString() + above_int32).status().code(),
            StatusCode::kInvalidArgument);
}

// Any bytes become a group that passes CheckGroup, or a Status.
TEST(CodecProperty, ArbitraryBytesAreAGroupOrAStatus) {
  // protobuf writes a line to stderr for each string that is not UTF-8.
  const google::protobuf::LogSilencer silencer;
  RandomStream random({20260101, 30});
  const std::string good = EncodeGroup(GoodGroup());
  int accepted = 0;
  for (int trial = 0; trial < 50000; ++trial) {
    std::string bytes = good;
    for (std::uint64_t change = random.Below(4); change > 0; --change) {
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
    }
    if (random.Below(4) == 0) bytes.resize(random.Below(bytes.size() + 1));
    if (random.Below(8) == 0)
      bytes.insert(random.Below(bytes.size() + 1),
                   std::string(random.Below(20), static_cast<char>(random.Below(256))));
    const auto group = DecodeGroup(bytes);
    if (!group.ok()) {
      EXPECT_EQ(group.status().code(), StatusCode::kInvalidArgument);
      EXPECT_FALSE(group.status().message().empty());
      continue;
    }
    ++accepted;
    ASSERT_TRUE(CheckGroup(*group).ok());
    const auto by_protobuf = ParsedByProtobuf(bytes);
    ASSERT_TRUE(by_protobuf.ok()) << by_protobuf.status().message();
    ASSERT_EQ(*group, *by_protobuf);
    const auto again = DecodeGroup(EncodeGroup(*group));
    ASSERT_TRUE(again.ok()) << again.status().message();
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 49000);
}

}  // namespace
}  // namespace buttress
