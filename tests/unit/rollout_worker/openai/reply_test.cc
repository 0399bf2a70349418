#include "rollout_worker/openai/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fakes/byte_tokenizer.h"

namespace buttress {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Json = nlohmann::ordered_json;

OpenAiChoice Choice(std::string text, FinishReason reason) {
  OpenAiChoice choice;
  choice.index = 1;
  choice.text = std::move(text);
  choice.token_ids = {'h', 'i'};
  choice.logprobs = {-0.5F, -INFINITY};
  choice.finish_reason = reason;
  return choice;
}

Json EventJson(const std::string& event) {
  EXPECT_THAT(event, StartsWith("data: "));
  EXPECT_THAT(event, EndsWith("\n\n"));
  return Json::parse(event.substr(6));
}

struct Rig {
  OpenAiRequest request;
  ByteTokenizer tokenizer;

  OpenAiReply Make() const { return {request, tokenizer, "m"}; }
};

TEST(OpenAiReplyTest, AWholeCompletion) {
  Rig rig;
  const Json body = Json::parse(rig.Make().Whole({Choice("hi", FinishReason::kLength)}, {3, 2}));
  EXPECT_EQ(body["object"], "text_completion");
  EXPECT_THAT(body["id"].get<std::string>(), StartsWith("cmpl-"));
  EXPECT_EQ(body["model"], "m");
  EXPECT_EQ(body["choices"].dump(),
            R"([{"index":1,"text":"hi","logprobs":null,"finish_reason":"length"}])");
  EXPECT_EQ(body["usage"].dump(), R"({"prompt_tokens":3,"completion_tokens":2,"total_tokens":5})");
  EXPECT_NE(rig.Make().Whole({}, {}), rig.Make().Whole({}, {}));  // ids differ
}

TEST(OpenAiReplyTest, LogProbsOfACompletion) {
  Rig rig;
  rig.request.logprobs = true;
  OpenAiChoice choice = Choice("hi", FinishReason::kStop);
  const auto logprobs = [&] {
    return Json::parse(rig.Make().Whole({choice}, {}))["choices"][0]["logprobs"].dump();
  };
  EXPECT_EQ(logprobs(),
            R"({"tokens":["h","i"],"token_logprobs":[-0.5,-9999.0],"top_logprobs":null,)"
            R"("text_offset":[0,1]})");
  rig.request.extras.top_logprobs = 2;
  choice.top_logprobs = {{{'h', -0.5F}, {'x', -2}}, {{'y', -1}, {'z', -2}}};
  EXPECT_THAT(
      logprobs(),
      HasSubstr(R"("top_logprobs":[{"h":-0.5,"x":-2.0},{"y":-1.0,"z":-2.0,"i":-9999.0}],)"));
  rig.request.tokens_as_ids = true;
  EXPECT_THAT(logprobs(), StartsWith(R"({"tokens":["token_id:104","token_id:105"])"));
  EXPECT_THAT(logprobs(), EndsWith(R"("text_offset":[0,12]})"));  // as vLLM counts
  choice.text_offset = 5;                                         // of an event of a stream
  EXPECT_THAT(logprobs(), EndsWith(R"("text_offset":[5,17]})"));
}

TEST(OpenAiReplyTest, CharactersAreCodePoints) {
  EXPECT_EQ(CharactersOf(""), 0);
  EXPECT_EQ(CharactersOf("a\u00e9\u20ac\U0001F600"), 4);
}

TEST(OpenAiReplyTest, AnEchoBeginsWithThePrompt) {
  Rig rig;
  rig.request.echo = rig.request.logprobs = true;
  rig.request.extras.top_logprobs = 1;
  OpenAiChoice choice = Choice("abhi", FinishReason::kStop);
  choice.top_logprobs = {{{'h', -0.5F}}, {{'y', -1}}};
  choice.prompt_token_ids = {'a', 'b'};
  choice.prompt_logprobs = {{-3, 4, {{'c', -1}}}};
  const Json shown = Json::parse(rig.Make().Whole({choice}, {}))["choices"][0]["logprobs"];
  EXPECT_EQ(shown["tokens"].dump(), R"(["a","b","h","i"])");
  EXPECT_EQ(shown["text_offset"].dump(), "[0,1,2,3]");
  EXPECT_EQ(shown["token_logprobs"].dump(), "[null,-3.0,-0.5,-9999.0]");
  EXPECT_EQ(shown["top_logprobs"].dump(),
            R"([null,{"c":-1.0,"b":-3.0},{"h":-0.5},{"y":-1.0,"i":-9999.0}])");
}

TEST(OpenAiReplyTest, LogProbsOfThePromptHaveTheFormOfVllm) {
  Rig rig;
  rig.request.prompt_logprobs = true;
  OpenAiChoice choice = Choice("hi", FinishReason::kStop);
  choice.prompt_token_ids = {'a', 'b'};
  choice.prompt_logprobs = {{-3, 4, {{'c', -1}}}};
  const std::string expected = R"([null,{"98":{"logprob":-3.0,"rank":4,"decoded_token":"b"},)"
                               R"("99":{"logprob":-1.0,"rank":1,"decoded_token":"c"}}])";
  Json body = Json::parse(rig.Make().Whole({choice}, {}));
  EXPECT_EQ(body["choices"][0]["prompt_logprobs"].dump(), expected);
  rig.request.chat = true;
  body = Json::parse(rig.Make().Whole({choice}, {}));
  EXPECT_EQ(body["prompt_logprobs"].dump(), expected);
}

TEST(OpenAiReplyTest, TokenIdsWhereTheyAreAskedFor) {
  Rig rig;
  rig.request.return_token_ids = true;
  OpenAiChoice choice = Choice("hi", FinishReason::kAbort);
  choice.prompt_token_ids = {7};
  const Json shown = Json::parse(rig.Make().Whole({choice}, {}))["choices"][0];
  EXPECT_EQ(shown["token_ids"].dump(), "[104,105]");
  EXPECT_EQ(shown["prompt_token_ids"].dump(), "[7]");
  EXPECT_EQ(shown["finish_reason"], "abort");
}

TEST(OpenAiReplyTest, AWholeChatWithLogProbs) {
  Rig rig;
  rig.request.chat = rig.request.logprobs = true;
  const Json body = Json::parse(rig.Make().Whole({Choice("hi", FinishReason::kStop)}, {}));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_THAT(body["id"].get<std::string>(), StartsWith("chatcmpl-"));
  const Json& choice = body["choices"][0];
  EXPECT_EQ(choice["message"].dump(), R"({"role":"assistant","content":"hi"})");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["logprobs"]["content"][0].dump(),
            R"({"token":"h","logprob":-0.5,"bytes":[104],"top_logprobs":[]})");
  OpenAiChoice top = Choice("", FinishReason::kStop);
  top.top_logprobs = {{}, {{'y', -1}}};
  EXPECT_EQ(Json::parse(rig.Make().Whole({top}, {}))["choices"][0]["logprobs"]["content"][1].dump(),
            R"({"token":"i","logprob":-9999.0,"bytes":[105],)"
            R"("top_logprobs":[{"token":"y","logprob":-1.0,"bytes":[121]}]})");
}

TEST(OpenAiReplyTest, ToolCallsHaveIdsAndTheJsonOfTheirArguments) {
  Rig rig;
  rig.request.chat = true;
  OpenAiChoice choice = Choice("", FinishReason::kStop);
  choice.calls = {{"f", {{"x", 1}}}, {"g", Json::object()}};
  const OpenAiReply reply = rig.Make();
  const Json shown = Json::parse(reply.Whole({choice}, {}))["choices"][0];
  EXPECT_EQ(shown["finish_reason"], "tool_calls");
  EXPECT_TRUE(shown["message"]["content"].is_null());
  const Json& calls = shown["message"]["tool_calls"];
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"].dump(), R"({"name":"f","arguments":"{\"x\":1}"})");
  EXPECT_EQ(calls[0]["id"].get<std::string>().size(), 9U);
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  const Json delta = EventJson(reply.Event(choice))["choices"][0]["delta"];
  EXPECT_EQ(delta["tool_calls"][1]["index"], 1);
  EXPECT_EQ(delta["tool_calls"][1]["id"], calls[1]["id"]);
}

TEST(OpenAiReplyTest, AStreamOfAChat) {
  Rig rig;
  rig.request.chat = rig.request.include_usage = true;
  const OpenAiReply reply = rig.Make();
  const Json first = EventJson(reply.FirstEvent(2));
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"].dump(),
            R"([{"index":2,"delta":{"role":"assistant","content":""},"logprobs":null,)"
            R"("finish_reason":null}])");
  const Json event = EventJson(reply.Event(Choice("hi", FinishReason::kUnspecified)));
  EXPECT_EQ(event["id"], first["id"]);
  EXPECT_EQ(event["choices"][0]["delta"].dump(), R"({"content":"hi"})");
  EXPECT_TRUE(event["choices"][0]["finish_reason"].is_null());
  const std::string last = reply.LastEvents({1, 2});
  EXPECT_THAT(last, EndsWith("data: [DONE]\n\n"));
  const Json usage = EventJson(last.substr(0, last.find("\n\n") + 2));
  EXPECT_EQ(usage["choices"].dump(), "[]");
  EXPECT_EQ(usage["usage"]["total_tokens"], 3);
  rig.request.include_usage = false;
  EXPECT_EQ(reply.LastEvents({1, 2}), "data: [DONE]\n\n");
}

TEST(OpenAiReplyTest, ErrorsHaveTheFormOfTheApi) {
  const Status wrong = InvalidArgument("n = 0; expected a whole number");
  EXPECT_EQ(HttpCodeOf(wrong), 400U);
  EXPECT_EQ(ErrorBody(wrong), R"({"error":{"message":"n = 0; expected a whole number",)"
                              R"("type":"invalid_request_error","param":"n","code":null}})");
  EXPECT_TRUE(
      Json::parse(ErrorBody(InvalidArgument("the body is not JSON")))["error"]["param"].is_null());
  EXPECT_EQ(HttpCodeOf({StatusCode::kUnauthenticated, "no"}), 401U);
  EXPECT_EQ(Json::parse(ErrorBody({StatusCode::kUnauthenticated, "no"}))["error"]["code"],
            "invalid_api_key");
  EXPECT_EQ(HttpCodeOf(OutOfRange("long")), 400U);
  EXPECT_EQ(HttpCodeOf(NotFound("model")), 404U);
  EXPECT_EQ(HttpCodeOf(ResourceExhausted("full")), 429U);
  EXPECT_EQ(HttpCodeOf(OutOfMemory("cache")), 500U);
  EXPECT_EQ(HttpCodeOf(Unavailable("ends")), 503U);
  EXPECT_EQ(HttpCodeOf(Internal("bug")), 500U);
  EXPECT_EQ(EventJson(ErrorEvent(Internal("bug")))["error"]["type"], "server_error");
}

}  // namespace
}  // namespace buttress
