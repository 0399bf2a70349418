#include "rollout_worker/openai/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rollout_worker/openai/tokenize.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Json = nlohmann::ordered_json;

OpenAiRequest Completion(const std::string& body) {
  Result<OpenAiRequest> request = ParseCompletions(body);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? *std::move(request) : OpenAiRequest();
}

OpenAiRequest Chat(const std::string& fields) {
  Result<OpenAiRequest> request =
      ParseChat(R"({"messages": [{"role": "user", "content": "hi"}])" + fields + "}");
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? *std::move(request) : OpenAiRequest();
}

std::string Refused(const Result<OpenAiRequest>& request) {
  EXPECT_EQ(request.status().code(), StatusCode::kInvalidArgument);
  return request.status().message();
}

std::string RefusedCompletion(const std::string& fields) {
  return Refused(ParseCompletions(R"({"prompt": "a", )" + fields + "}"));
}

std::string RefusedMessages(const std::string& messages) {
  return Refused(ParseChat(R"({"messages": )" + messages + "}"));
}

TEST(OpenAiRequestTest, APromptIsATextTokensOrAListOfThese) {
  EXPECT_THAT(Completion(R"({"prompt": "a"})").prompts, ElementsAre(OpenAiPrompt("a")));
  EXPECT_THAT(Completion(R"({"prompt": [5, 6]})").prompts,
              ElementsAre(OpenAiPrompt(std::vector{5, 6})));
  EXPECT_THAT(Completion(R"({"prompt": ["a", "b"]})").prompts,
              ElementsAre(OpenAiPrompt("a"), OpenAiPrompt("b")));
  EXPECT_THAT(Completion(R"({"prompt": [[5], [6, 7]]})").prompts,
              ElementsAre(OpenAiPrompt(std::vector{5}), OpenAiPrompt(std::vector{6, 7})));
  EXPECT_THAT(Refused(ParseCompletions("{}")), HasSubstr("prompt is missing"));
  for (const char* prompt : {"[]", "{}", "5", "[5, \"a\"]", "[-1]", "[1.5]", "[4294967296]"}) {
    EXPECT_THAT(Refused(ParseCompletions(std::string(R"({"prompt": )") + prompt + "}")),
                StartsWith("prompt = "))
        << prompt;
  }
}

TEST(OpenAiRequestTest, AbsentFieldsAreThoseOfTheApi) {
  const OpenAiRequest request = Completion(R"({"prompt": "a", "stop": null, "n": null})");
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.top_p, 1);
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.seed, std::nullopt);
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.stream || request.logprobs || request.ignore_eos);
  EXPECT_EQ(Chat("").max_tokens, std::nullopt);
  EXPECT_TRUE(Chat("").tools.is_null());
}

TEST(OpenAiRequestTest, WhatOurVllmClientSendsIsRead) {
  CompletionBody body;
  body.model = "m";
  body.prompt_token_ids = {1, 2};
  body.sampling.temperature = 0.5;
  body.sampling.top_p = 0.9;
  body.sampling.top_k = 7;
  body.sampling.max_tokens = 9;
  body.sampling.min_tokens = 2;
  body.sampling.stop = {"x", "y"};
  body.sampling.stop_token_ids = {3};
  body.sampling.seed = 0x8000000000000005ULL;
  body.seeded = true;
  body.ignore_eos = true;
  body.cache_salt = "salt";
  body.stream_interval = 16;
  const OpenAiRequest request = Completion(body.ToJson());
  EXPECT_EQ(request.model, "m");
  EXPECT_THAT(request.prompts, ElementsAre(OpenAiPrompt(std::vector{1, 2})));
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.min_tokens, 2);
  EXPECT_THAT(request.sampling.stop, ElementsAre("x", "y"));
  EXPECT_THAT(request.sampling.stop_token_ids, ElementsAre(3));
  EXPECT_TRUE(request.sampling.include_stop);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.seed, 5);
  EXPECT_TRUE(request.ignore_eos && request.stream && request.include_usage && request.logprobs &&
              request.return_token_ids && request.tokens_as_ids);
  EXPECT_EQ(request.extras, SampleExtras());
  body.sampling.top_k = 0;
  EXPECT_EQ(Completion(body.ToJson()).sampling.top_k, 0);
}

TEST(OpenAiRequestTest, FieldsThatChangeNothingMayHaveAnyValue) {
  Completion(R"({"prompt": "a", "user": "u", "metadata": {"a": 1}, "store": true, "priority": 3})");
  Completion(R"({"prompt": "a", "best_of": 1, "echo": false, "suffix": "", "logit_bias": {}})");
  Chat(R"(, "response_format": {"type": "text"}, "parallel_tool_calls": true, "functions": null)");
}

TEST(OpenAiRequestTest, AFieldThatIsNotSupportedIsRefusedByName) {
  EXPECT_THAT(RefusedCompletion(R"("min_p": 0.5)"), StartsWith("min_p = 0.5; expected 0"));
  EXPECT_THAT(
      RefusedMessages(R"([{"role": "user", "content": ""}],
                                 "response_format": {"type": "json_object"})"),
      StartsWith("response_format = {\"type\":\"json_object\"}; expected {\"type\": \"text\"}"));
  EXPECT_THAT(RefusedCompletion(R"("chat_template_kwargs": {"enable_thinking": false})"),
              StartsWith(R"(chat_template_kwargs = {"enable_thinking":false}; expected {})"));
  EXPECT_THAT(RefusedCompletion(R"("guided_json": {})"), StartsWith("guided_json is not a field"));
  EXPECT_THAT(RefusedCompletion(R"("messages": [])"), StartsWith("messages is not a field"));
  EXPECT_THAT(RefusedCompletion(R"("stream_options": {"x": 1})"),
              StartsWith("stream_options.x is"));
}

TEST(OpenAiRequestTest, WrongValuesAreRefusedByName) {
  for (const char* field : {R"("n": 0)",
                            R"("n": 129)",
                            R"("n": 1.5)",
                            R"("n": true)",
                            R"("max_tokens": 0)",
                            R"("max_tokens": 18446744073709551615)",
                            R"("max_tokens": -9223372036854775808)",
                            R"("temperature": -1)",
                            R"("temperature": "hot")",
                            R"("top_p": 0)",
                            R"("top_p": 1.5)",
                            R"("top_k": -2)",
                            R"("presence_penalty": 2.1)",
                            R"("frequency_penalty": "no")",
                            R"("repetition_penalty": 0)",
                            R"("prompt_logprobs": -1)",
                            R"("echo": 1)",
                            R"("min_tokens": -1)",
                            R"("seed": 1.5)",
                            R"("stream": 1)",
                            R"("stop": [""])",
                            R"("stop": [1])",
                            R"("stop_token_ids": 5)",
                            R"("logprobs": 21)",
                            R"("logprobs": true)",
                            R"("model": 5)",
                            R"("ignore_eos": "no")"}) {
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(RefusedCompletion(field), StartsWith(name + " = ")) << field;
  }
  EXPECT_LT(RefusedCompletion(R"("n": ")" + std::string(100000, 'x') + "\"").size(), 200U);
}

TEST(OpenAiRequestTest, ABodyThatIsNoObjectIsRefused) {
  for (const std::string& body :
       {std::string(), std::string("[]"), std::string("{"), std::string("{\"prompt\": \"\xff\"}"),
        std::string(100000, '['), "{\"prompt\":" + std::string(1000, '[') + "1"}) {
    EXPECT_THAT(Refused(ParseCompletions(body)), StartsWith("the body is "));
    EXPECT_THAT(Refused(ParseChat(body)), StartsWith("the body is "));
  }
}

TEST(OpenAiRequestTest, LogProbsOfTheMostProbableTokensAndOfThePrompt) {
  EXPECT_EQ(Completion(R"({"prompt": "a", "logprobs": 5})").extras.top_logprobs, 5);
  EXPECT_EQ(Completion(R"({"prompt": "a", "logprobs": 5})").extras.prompt_logprobs, -1);
  EXPECT_EQ(Chat(R"(, "logprobs": true, "top_logprobs": 20)").extras.top_logprobs, 20);
  EXPECT_EQ(Chat(R"(, "logprobs": true, "top_logprobs": 0)").extras, SampleExtras());
  EXPECT_THAT(RefusedMessages(R"([{"role": "user", "content": ""}], "top_logprobs": 1)"),
              HasSubstr("expected logprobs = true"));
  const OpenAiRequest prompt = Chat(R"(, "prompt_logprobs": 2)");
  EXPECT_TRUE(prompt.prompt_logprobs);
  EXPECT_EQ(prompt.extras.prompt_logprobs, 2);

  const OpenAiRequest echo =
      Completion(R"({"prompt": "a", "echo": true, "logprobs": 1, "max_tokens": 0})");
  EXPECT_TRUE(echo.echo);
  EXPECT_FALSE(echo.prompt_logprobs);
  EXPECT_EQ(echo.extras.prompt_logprobs, 1);
  EXPECT_EQ(echo.max_tokens, 0);
  EXPECT_EQ(Completion(R"({"prompt": "a", "echo": true})").extras, SampleExtras());
  EXPECT_THAT(RefusedCompletion(R"("echo": true, "stream": true)"), StartsWith("echo is not"));
  EXPECT_THAT(RefusedCompletion(R"("prompt_logprobs": 0, "stream": true)"),
              StartsWith("prompt_logprobs is not"));
}

TEST(OpenAiRequestTest, PenaltiesAreThoseOfTheApi) {
  const OpenAiRequest request = Completion(
      R"({"prompt": "a", "presence_penalty": 2, "frequency_penalty": -2,
          "repetition_penalty": 1.2})");
  EXPECT_EQ(request.extras.penalties,
            (Penalties{.repetition = 1.2, .presence = 2, .frequency = -2}));
  EXPECT_EQ(Completion(R"({"prompt": "a", "presence_penalty": 0})").extras, SampleExtras());
}

TEST(OpenAiRequestTest, MessagesBecomeWhatATemplateReads) {
  const OpenAiRequest request = Completion(R"({"prompt": "a"})");
  const Result<Json> messages = TemplateMessages(Json::parse(R"([
      {"role": "system", "content": "s"},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
       "function": {"name": "f", "arguments": "{\"x\": [1]}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "2"}])"));
  ASSERT_TRUE(messages.ok()) << messages.status().ToString();
  EXPECT_EQ(messages->dump(),
            R"([{"role":"system","content":"s"},{"role":"user","content":"a\nb"},)"
            R"({"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function",)"
            R"("function":{"name":"f","arguments":{"x":[1]}}}]},)"
            R"({"role":"tool","tool_call_id":"1","content":"2"}])");
}

TEST(OpenAiRequestTest, MalformedMessagesAreRefusedWithTheirPlace) {
  EXPECT_THAT(RefusedMessages("[]"), StartsWith("messages = []"));
  EXPECT_THAT(RefusedMessages("\"hi\""), StartsWith("messages = \"hi\""));
  EXPECT_THAT(RefusedMessages(R"(["hi"])"), StartsWith("messages[0] = \"hi\""));
  EXPECT_THAT(RefusedMessages(R"([{"content": "a"}])"), StartsWith("messages[0] = "));
  EXPECT_THAT(RefusedMessages(R"([{"role": 5, "content": "a"}])"), StartsWith("messages[0] = "));
  EXPECT_THAT(RefusedMessages(R"([{"role": "user"}])"), StartsWith("messages[0].content is"));
  EXPECT_THAT(RefusedMessages(R"([{"role": "user", "content": 5}])"),
              StartsWith("messages[0].content = 5"));
  EXPECT_THAT(RefusedMessages(R"([{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "x"}}]}])"),
              HasSubstr("images and sounds are not read"));
  EXPECT_THAT(RefusedMessages(R"([{"role": "assistant", "tool_calls": [
                {"function": {"name": "f", "arguments": "{"}}]}])"),
              StartsWith("messages[0].tool_calls[0].function.arguments = \"{\""));
  EXPECT_THAT(RefusedMessages(R"([{"role": "assistant", "tool_calls": [5]}])"),
              StartsWith("messages[0].tool_calls[0] = 5"));
  EXPECT_THAT(Refused(ParseChat("{}")), StartsWith("messages is missing"));
}

TEST(OpenAiRequestTest, ToolsAreFunctionsThatThePolicyMayCall) {
  const std::string tools =
      R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])";
  EXPECT_EQ(Chat(tools).tools.size(), 1U);
  EXPECT_EQ(Chat(tools + R"(, "tool_choice": "auto")").tools.size(), 1U);
  EXPECT_TRUE(Chat(tools + R"(, "tool_choice": "none")").tools.is_null());
  EXPECT_TRUE(Chat(R"(, "tools": [])").tools.is_null());
  EXPECT_EQ(Chat(tools).called_tool, std::nullopt);
  EXPECT_EQ(Chat(tools + R"(, "tool_choice": "required")").called_tool, "");
  const auto named = [](const char* name) {
    return std::string(R"(, "tool_choice": {"type": "function", "function": {"name": ")") + name +
           "\"}}";
  };
  EXPECT_EQ(Chat(tools + named("f")).called_tool, "f");
  const std::string head = R"({"messages": [{"role": "user", "content": "a"}])";
  EXPECT_THAT(Refused(ParseChat(head + tools + named("g") + "}")),
              StartsWith("tool_choice is g; expected a tool of `tools`"));
  EXPECT_THAT(Refused(ParseChat(head + R"(, "tool_choice": "required"})")),
              StartsWith("tool_choice is required; expected a tool"));
  for (const char* bad : {R"("any")", R"({"type": "function"})", "5"}) {
    EXPECT_THAT(Refused(ParseChat(head + tools + R"(, "tool_choice": )" + bad + "}")),
                StartsWith("tool_choice = "));
  }
  for (const char* bad : {R"("f")", R"({"type": "function"})", R"({"function": {"name": "f"}})",
                          R"({"type": "function", "function": {"name": 5}})",
                          R"({"type": 5, "function": {"name": "f"}})"}) {
    EXPECT_THAT(Refused(ParseChat(head + R"(, "tools": [)" + bad + "]}")),
                StartsWith("tools[0] = "));
  }
}

TEST(OpenAiRequestTest, ArgumentsOfTheTemplateAreAnObject) {
  const auto given = [](const char* value) {
    return std::string(R"(, "chat_template_kwargs": )") + value;
  };
  EXPECT_TRUE(Chat("").template_arguments.is_null());
  EXPECT_TRUE(Chat(given("{}")).template_arguments.is_null());
  const char* arguments = R"({"enable_thinking":false,"style":null})";
  EXPECT_EQ(Chat(given(arguments)).template_arguments.dump(), arguments);
  const std::string head = R"({"messages": [{"role": "user", "content": "a"}])";
  EXPECT_THAT(Refused(ParseChat(head + given("[1]") + "}")),
              StartsWith("chat_template_kwargs = [1]; expected an object"));
  for (const char* other : {"messages", "tools", "add_generation_prompt", "tokenize"}) {
    const std::string name = std::string("{\"") + other + "\": 1}";
    EXPECT_THAT(Refused(ParseChat(head + given(name.c_str()) + "}")),
                StartsWith(std::string("chat_template_kwargs.") + other + " is not for a request"));
  }
  const Result<TokenizeRequest> tokenize = ParseTokenize(head + given(arguments) + "}");
  ASSERT_TRUE(tokenize.ok()) << tokenize.status().ToString();
  EXPECT_EQ(tokenize->template_arguments.dump(), arguments);
}

TEST(OpenAiRequestTest, TokenizationOfTextsMessagesAndTokens) {
  const Result<TokenizeRequest> text =
      ParseTokenize(R"({"model": "m", "prompt": "a", "add_special_tokens": false})");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(text->prompt, "a");
  EXPECT_FALSE(text->add_special_tokens);
  const Result<TokenizeRequest> chat = ParseTokenize(
      R"({"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": false})");
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  EXPECT_EQ(chat->messages.size(), 1U);
  EXPECT_FALSE(chat->add_generation_prompt);
  const Result<DetokenizeRequest> tokens = ParseDetokenize(R"({"tokens": [5, 6]})");
  ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
  EXPECT_THAT(tokens->tokens, ElementsAre(5, 6));
  for (const char* body : {"{}", R"({"prompt": 5})", R"({"prompt": "a", "x": 1})",
                           R"({"prompt": "a", "messages": [{"role": "user", "content": ""}]})",
                           R"({"messages": []})", R"({"prompt": "a", "tools": 5})"})
    EXPECT_EQ(ParseTokenize(body).status().code(), StatusCode::kInvalidArgument) << body;
  for (const char* body : {"{}", R"({"tokens": "a"})", R"({"tokens": [1], "x": 1})"})
    EXPECT_EQ(ParseDetokenize(body).status().code(), StatusCode::kInvalidArgument) << body;
}

TEST(OpenAiRequestTest, ChoicesHaveSeedsOfTheirOwn) {
  EXPECT_EQ(OpenAiRequest::SeedOf(5, 0), 5U);
  EXPECT_NE(OpenAiRequest::SeedOf(5, 1), OpenAiRequest::SeedOf(5, 2));
  EXPECT_NE(OpenAiRequest::SeedOf(5, 1), OpenAiRequest::SeedOf(6, 1));
}

}  // namespace
}  // namespace buttress
