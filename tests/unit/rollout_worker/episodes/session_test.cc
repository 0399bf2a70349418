#include "rollout_worker/episodes/session.h"

#include <gmock/gmock.h>

#include <numeric>

#include "lib/base/text/random.h"
#include "tests/support/chat_tokenizer.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

ordered_json Message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

const ordered_json kOpening = ordered_json::array({Message("user", "Which is it?")});

class SessionTest : public ::testing::Test {
 protected:
  SessionTest()
      : tokenizer_(TokenizerOfFamily("qwen2_5")),
        encoder_(*TextEncoder::Create(*tokenizer_)),
        turns_(*TurnEncoder::Create(encoder_, true)) {
    request_.sampling.max_tokens = 100;
    request_.sampling.seed = 7;
    request_.sampling.stop_token_ids = {tokenizer_->AddedTokenId("<|im_end|>")};
    Restart();
  }

  void Restart() {
    session_.emplace(SessionParts{env_, encoder_, &turns_, ToolFormat::kHermes,
                                  static_cast<std::int64_t>(max_prompt_tokens_)},
                     request_, 1000);
  }

  // The answer of the policy with `text`, from the weights of `step`.
  EngineResult Sampled(const std::string& text, std::uint64_t step = 1) const {
    EngineResult result;
    result.token_ids = *tokenizer_->Encode(text);
    result.token_ids.push_back(request_.sampling.stop_token_ids.front());
    result.logprobs.assign(result.token_ids.size(), -1);
    result.segments = {{0, {1, step, ""}}};
    result.finish_reason = FinishReason::kStop;
    return result;
  }

  PolicyCall Begin(const ordered_json& messages, std::int64_t now_ms = 1000) {
    return *session_->Begin({.messages = messages}, now_ms);
  }

  // Asks and answers, and returns the conversation with the answer.
  ordered_json Say(ordered_json messages, const std::string& text, std::uint64_t step = 1) {
    EXPECT_TRUE(session_->Finish(Begin(messages), Sampled(text, step), 1000).ok());
    messages.push_back(Message("assistant", text));
    return messages;
  }

  static ordered_json With(ordered_json messages, const std::string& role,
                           const std::string& content) {
    messages.push_back(Message(role, content));
    return messages;
  }

  std::string Text(const std::vector<std::int32_t>& tokens) const {
    return *tokenizer_->Decode(tokens, SpecialTokens::kKeep);
  }

  // The text of the tokens that are trained.
  std::vector<std::string> Trained(const EpisodeBranch& branch) const {
    std::vector<std::string> texts;
    for (const EpisodeTurn& turn : branch.turns) {
      texts.push_back(
          Text({branch.token_ids.begin() + turn.begin, branch.token_ids.begin() + turn.end}));
    }
    return texts;
  }

  std::string Rendered(const ordered_json& messages) const {
    return *encoder_.RenderMessages(messages, false);
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  const TextEncoder encoder_;
  const TurnEncoder turns_;
  EnvConfig env_;
  std::size_t max_prompt_tokens_ = 1000;
  SampleRequest request_;
  std::optional<Session> session_;
};

TEST_F(SessionTest, AConversationThatGrowsAtItsEndIsOneBranchOfTheSampledTokens) {
  // Two tokens where the tokenizer writes one: encoded again, they would be others.
  EngineResult odd = Sampled("");
  odd.token_ids.clear();
  for (const char* part : {"i", "n", "g"}) {
    const auto tokens = *tokenizer_->Encode(part);
    odd.token_ids.insert(odd.token_ids.end(), tokens.begin(), tokens.end());
  }
  ASSERT_NE(odd.token_ids, *tokenizer_->Encode("ing"));
  odd.token_ids.push_back(request_.sampling.stop_token_ids.front());
  odd.logprobs.assign(odd.token_ids.size(), -1);
  const std::vector<std::int32_t> sampled = odd.token_ids;
  ASSERT_TRUE(session_->Finish(Begin(kOpening), std::move(odd), 1500).ok());
  ordered_json messages = With(With(kOpening, "assistant", "ing"), "user", "No.");
  const PolicyCall next = Begin(messages, 1700);
  messages = Say(messages, "four", 2);
  const Episode episode = session_->Take();
  ASSERT_THAT(episode.branches, SizeIs(1));
  const EpisodeBranch& branch = episode.branches[0];
  EXPECT_EQ(branch.parent, -1);
  EXPECT_THAT(Trained(branch), ElementsAre("ing<|im_end|>", "four<|im_end|>"));
  EXPECT_TRUE(
      std::equal(sampled.begin(), sampled.end(), branch.token_ids.begin() + branch.turns[0].begin));
  EXPECT_EQ(Text(branch.token_ids) + "\n", Rendered(messages));
  EXPECT_EQ(branch.token_ids.size(), branch.logprobs.size());
  EXPECT_FLOAT_EQ(std::accumulate(branch.logprobs.begin(), branch.logprobs.end(), 0.0F),
                  -static_cast<float>(episode.sampled_tokens()));
  EXPECT_EQ(branch.segments, (std::vector<Segment>{{branch.turns[0].begin, {1, 1, ""}},
                                                   {branch.turns[1].begin, {1, 2, ""}}}));
  EXPECT_EQ(branch.turns[0].sampled_ms, 500);
  EXPECT_EQ(next.waited_ms, 200);
  EXPECT_EQ(next.min_version, (PolicyVersion{1, 1, ""}));
  EXPECT_EQ(episode.answer, "four");
  EXPECT_EQ(episode.reencoded_tokens, 0);
}

TEST_F(SessionTest, SeedsDependOnTheSampleAndTheIndexOfTheCall) {
  const PolicyCall first = Begin(kOpening);
  EXPECT_EQ(first.sampling.seed, MixSeed(7, 0));
  EXPECT_EQ(Begin(kOpening).sampling.seed, MixSeed(7, 1));
}

TEST_F(SessionTest, AHistoryThatLeavesABranchEarlierSharesItsTokensAndTrainsNoneTwice) {
  const ordered_json one = Say(kOpening, "one");
  const ordered_json two = Say(With(one, "user", "And?"), "two");
  Say(With(one, "user", "Else?"), "three");
  Say(With(two, "user", "Go on."), "four");
  const Episode episode = session_->Take();
  ASSERT_THAT(episode.branches, SizeIs(2));
  EXPECT_THAT(Trained(episode.branches[0]),
              ElementsAre("one<|im_end|>", "two<|im_end|>", "four<|im_end|>"));
  const EpisodeBranch& branch = episode.branches[1];
  EXPECT_EQ(branch.parent, 0);
  EXPECT_THAT(Trained(branch), ElementsAre("three<|im_end|>"));
  EXPECT_EQ(Text(branch.token_ids) + "\n",
            Rendered(With(With(one, "user", "Else?"), "assistant", "three")));
  // Of what is shared nothing is sampled here.
  const auto& logprobs = branch.logprobs;
  EXPECT_EQ(std::count(logprobs.begin(), logprobs.begin() + branch.turns[0].begin, 0.0F),
            branch.turns[0].begin);
  EXPECT_EQ(branch.segments.front().first_token, branch.turns[0].begin);
  EXPECT_EQ(episode.reencoded_tokens, 0);
  EXPECT_EQ(episode.sampled_tokens(), session_->sampled_tokens());
}

TEST_F(SessionTest, CallsAtOnceAreBranchesInTheOrderOfTheCalls) {
  PolicyCall first = Begin(kOpening), second = Begin(kOpening);
  ASSERT_TRUE(session_->Finish(std::move(second), Sampled("second"), 1000).ok());
  ASSERT_TRUE(session_->Finish(std::move(first), Sampled("first"), 1000).ok());
  const Episode episode = session_->Take();
  ASSERT_THAT(episode.branches, SizeIs(2));
  EXPECT_THAT(Trained(episode.branches[0]), ElementsAre("first<|im_end|>"));
  EXPECT_EQ(episode.branches[1].parent, 0);
}

TEST_F(SessionTest, TextThatThePolicyDidNotWriteIsContextAndItsOwnTextElsewhereIsCounted) {
  const ordered_json one = Say(kOpening, "one");
  // An agent that rewrites the answer.
  Say(With(With(kOpening, "assistant", "uno"), "user", "And?"), "two");
  EXPECT_EQ(session_->Take().reencoded_tokens, 0);
  // An agent that keeps the answer and drops what was before it.
  const ordered_json rest = ordered_json::array(
      {Message("user", "Shortened."), Message("assistant", "one"), Message("user", "And?")});
  Say(rest, "three");
  const Episode episode = session_->Take();
  ASSERT_THAT(episode.branches, SizeIs(3));
  EXPECT_THAT(Trained(episode.branches[1]), ElementsAre("two<|im_end|>"));
  EXPECT_THAT(Trained(episode.branches[2]), ElementsAre("three<|im_end|>"));
  EXPECT_EQ(Text(episode.branches[2].token_ids) + "\n", Rendered(With(rest, "assistant", "three")));
  EXPECT_EQ(episode.reencoded_tokens, static_cast<std::int64_t>(Sampled("one").token_ids.size()));
}

TEST_F(SessionTest, ToolCallsMatchHoweverAClientWritesThem) {
  const std::string text =
      "Let me see. <tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n"
      "</tool_call>";
  const auto answer = session_->Finish(Begin(kOpening), Sampled(text), 1000);
  ASSERT_TRUE(answer.ok());
  ASSERT_THAT(answer->message.calls, SizeIs(1));
  ordered_json said = Message("assistant", answer->message.content + "\n");
  said["tool_calls"] =
      ordered_json::array({{{"id", "call_1"},
                            {"type", "function"},
                            {"function", {{"name", "add"}, {"arguments", R"({"b":2,  "a":1})"}}}}});
  ordered_json messages = kOpening;
  messages.push_back(said);
  Say(With(messages, "tool", "3"), "3");
  const Episode episode = session_->Take();
  ASSERT_THAT(episode.branches, SizeIs(1));
  EXPECT_THAT(Trained(episode.branches[0]), ElementsAre(text + "<|im_end|>", "3<|im_end|>"));
  EXPECT_THAT(episode.branches[0].turns[0].tools, ElementsAre("add"));
  EXPECT_THAT(Text(episode.branches[0].token_ids), HasSubstr("<tool_response>\n3"));
}

TEST_F(SessionTest, RawPromptsContinueTheTokensOrTheTextOfABranch) {
  PolicyCall call = *session_->Begin({.text = "Once upon"}, 1000);
  const std::vector<std::int32_t> prompt = call.prompt_token_ids;
  ASSERT_TRUE(session_->Finish(std::move(call), Sampled(" a time"), 1000).ok());
  call = *session_->Begin({.text = "Once upon a time, there"}, 1000);
  EXPECT_EQ(Text(call.prompt_token_ids), "Once upon a time<|im_end|>, there");
  ASSERT_TRUE(session_->Finish(std::move(call), Sampled(" was"), 1000).ok());
  std::vector<std::int32_t> tokens = session_->Take().branches[0].token_ids;
  tokens.push_back(5);
  ASSERT_TRUE(
      session_->Finish(*session_->Begin({.token_ids = tokens}, 1000), Sampled("x"), 1000).ok());
  ASSERT_TRUE(
      session_->Finish(*session_->Begin({.token_ids = prompt}, 1000), Sampled("y"), 1000).ok());
  const Episode episode = session_->Take();
  ASSERT_THAT(episode.branches, SizeIs(2));
  EXPECT_THAT(episode.branches[0].turns, SizeIs(3));
  EXPECT_EQ(episode.reencoded_tokens, 0);
  const Result<PolicyCall> beyond = session_->Begin({.token_ids = {1 << 30}}, 1000);
  EXPECT_THAT(beyond.status().message(), HasSubstr("token 1073741824"));
}

TEST_F(SessionTest, ALimitEndsTheEpisodeAtTheNextCall) {
  env_.max_turns = 2;
  Restart();
  const ordered_json one = With(Say(kOpening, "one"), "user", "And?");
  const ordered_json two = With(Say(one, "two"), "user", "And?");
  EXPECT_EQ(session_->end(), EpisodeEnd::kUnspecified);
  EXPECT_THAT(session_->Begin({.messages = two}, 1000).status().ToString(),
              HasSubstr("run.env.max_turns = 2 is reached"));
  EXPECT_EQ(session_->Take().end, EpisodeEnd::kTurns);
  EXPECT_EQ(session_->Take().failure, "");

  env_ = {};
  env_.max_tokens = 12;
  Restart();
  EXPECT_EQ(Begin(kOpening).sampling.max_tokens, 12);
  Restart();
  const ordered_json long_one = With(Say(kOpening, "one"), "user", "a b c d e f g h i j k l m n");
  EXPECT_FALSE(session_->Begin({.messages = long_one}, 1000).ok());
  EXPECT_EQ(session_->end(), EpisodeEnd::kTokens);

  env_ = {};
  env_.max_tokens = 12;
  Restart();
  max_prompt_tokens_ = Begin(kOpening).prompt_token_ids.size() - 2;
  Restart();
  EXPECT_EQ(Begin(kOpening).sampling.max_tokens, 10) << "of a prompt that is too long";
  max_prompt_tokens_ -= 10;
  Restart();
  EXPECT_FALSE(session_->Begin({.messages = kOpening}, 1000).ok());
  EXPECT_EQ(session_->end(), EpisodeEnd::kFailed) << "there is nothing to score";

  env_ = {};
  env_.max_tool_calls = 1;
  Restart();
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  Say(kOpening, call);
  EXPECT_EQ(session_->end(), EpisodeEnd::kUnspecified);
  Say(ordered_json::array({Message("user", "Again.")}), call);
  EXPECT_EQ(session_->end(), EpisodeEnd::kTools);
}

TEST_F(SessionTest, MaxTokensOfARequestMayOnlyShrink) {
  PolicyAsk ask{.messages = kOpening, .max_tokens = 5};
  EXPECT_EQ(session_->Begin(ask, 1000)->sampling.max_tokens, 5);
  ask.max_tokens = 5000;
  EXPECT_EQ(session_->Begin(ask, 1000)->sampling.max_tokens, 100);
}

TEST_F(SessionTest, WhatCannotBeAnsweredIsRefused) {
  const auto refusal = [&](ordered_json messages) {
    return session_->Begin({.messages = std::move(messages)}, 1000).status().message();
  };
  EXPECT_THAT(refusal(ordered_json::object()), HasSubstr("not a list"));
  EXPECT_THAT(refusal(ordered_json::array({"hello"})), HasSubstr("messages[0] has no role"));
  EXPECT_THAT(refusal(With(kOpening, "assistant", "I")), HasSubstr("is the assistant's"));
  EXPECT_THAT(session_->Begin({}, 1000).status().message(), HasSubstr("the prompt is empty"));
  EXPECT_EQ(session_->end(), EpisodeEnd::kUnspecified);
}

}  // namespace
}  // namespace buttress
