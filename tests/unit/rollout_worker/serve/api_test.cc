#include "rollout_worker/serve/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "lib/http/http_client.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/fakes/fake_engine.h"

namespace buttress {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

// A server whose engine does what the test says.
class ServeApiTest : public ::testing::Test {
 protected:
  ServeApiTest() : model_{.encoder = *TextEncoder::Create(tokenizer_)} {
    model_.name = "m";
    model_.tokenizer = &tokenizer_;
    model_.config.vocab_size = 256;
    model_.max_tokens = 100;
    model_.most_open = 4;
    auto api = ServeApi::Start({.listen = "127.0.0.1:0", .weight_calls = true}, engine_, model_);
    EXPECT_TRUE(api.ok()) << api.status().ToString();
    api_ = *std::move(api);
  }

  HttpRequest Request(const std::string& path, const std::string& body = "") const {
    HttpRequest request;
    request.url = "http://127.0.0.1:" + std::to_string(api_->port()) + path;
    if (!body.empty()) request.json = body;
    return request;
  }

  HttpReply Call(const std::string& path, const std::string& body = "") {
    const Result<HttpReply> reply = std::move(http_.Fetch({Request(path, body)})[0]);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
    return reply.ok() ? *reply : HttpReply();
  }

  ByteTokenizer tokenizer_{"{{ messages[0].content }}{{ mark }}"};
  FakeEngine engine_;
  ServedModel model_;
  HttpClient http_;
  std::unique_ptr<ServeApi> api_;
};

TEST_F(ServeApiTest, AnErrorOfTheEngineIsTheAnswer) {
  engine_.FailNext(1, Internal("a logit is NaN"));
  const HttpReply whole = Call("/v1/completions", R"({"prompt": "a"})");
  EXPECT_EQ(whole.status, 500);
  EXPECT_THAT(whole.body, HasSubstr(R"("message":"a logit is NaN","type":"server_error")"));
  EXPECT_EQ(Call("/v1/completions", R"({"prompt": "a"})").status, 200);
  EXPECT_THAT(Call("/metrics").body, HasSubstr(R"(answers_total{code="500")"));
}

// One choice has ended when the other fails.
TEST_F(ServeApiTest, ARequestMayNameArgumentsOfTheTemplate) {
  const std::string chat = R"({"messages": [{"role": "user", "content": "a"}])";
  const std::string marked = chat + R"(, "chat_template_kwargs": {"mark": "b", "other": [1]})";
  EXPECT_THAT(Call("/tokenize", chat + "}").body, HasSubstr(R"("tokens":[97])"));
  EXPECT_THAT(Call("/tokenize", marked + "}").body, HasSubstr(R"("tokens":[97,98])"));
  EXPECT_THAT(Call("/v1/chat/completions", marked + R"(, "return_token_ids": true})").body,
              HasSubstr(R"("prompt_token_ids":[97,98])"));
  EXPECT_THAT(Call("/tokenize", chat + "}").body, HasSubstr(R"("tokens":[97])"));
}

TEST_F(ServeApiTest, AnErrorInAStreamIsItsLastEvent) {
  engine_.Stall(true);
  std::string streamed;
  bool done = false;
  http_.Start(
      Request("/v1/completions", R"({"prompt": "a", "n": 2, "stream": true})"),
      [&](std::string_view bytes) {
        streamed.append(bytes);
        return OkStatus();
      },
      [&](const Result<HttpReply>& reply) {
        EXPECT_TRUE(reply.ok()) << reply.status().ToString();
        done = true;
      });
  while (api_->open() < 2) http_.Step(1);
  engine_.Cancel({0, 1, 1});
  while (streamed.empty()) http_.Step(1);
  engine_.FailNext(1);
  engine_.Stall(false);
  while (!done) http_.Step(100);
  EXPECT_THAT(streamed, EndsWith("}}\n\n"));
  EXPECT_THAT(streamed, HasSubstr(R"({"error":{"message":"told to fail")"));
  EXPECT_THAT(streamed, Not(HasSubstr("[DONE]")));
}

TEST_F(ServeApiTest, ACallThatIsCutByTheEndOfTheServerHasNoAnswer) {
  engine_.Stall(true);
  bool ok = true, done = false;
  http_.Start(Request("/v1/completions", R"({"prompt": "a"})"), nullptr,
              [&](const Result<HttpReply>& reply) {
                ok = reply.ok();
                done = true;
              });
  while (api_->open() < 1) http_.Step(1);
  api_.reset();
  while (!done) http_.Step(100);
  EXPECT_FALSE(ok);
}

TEST_F(ServeApiTest, WeightsThatCannotBeLoadedAreAnError) {
  const std::string body =
      R"({"method": "reload_weights", "kwargs": {"weights_path": "/weights"}})";
  EXPECT_EQ(Call("/collective_rpc", body).status, 200);
  EXPECT_EQ(engine_.updates().size(), 1U);
  engine_.FailUpdates(1);
  EXPECT_GE(Call("/collective_rpc", body).status, 500);
  EXPECT_EQ(Call("/collective_rpc", R"({"method": "sleep"})").status, 400);
}

TEST_F(ServeApiTest, WhatTheServerRefusesWhileItEnds) {
  api_->Drain();
  EXPECT_EQ(Call("/health").status, 503);
  EXPECT_EQ(Call("/v1/completions", R"({"prompt": "a"})").status, 503);
  EXPECT_EQ(Call("/tokenize", R"({"prompt": "a"})").body,
            R"({"count":1,"max_model_len":100,"tokens":[97],"token_strs":null})");
}

}  // namespace
}  // namespace buttress
