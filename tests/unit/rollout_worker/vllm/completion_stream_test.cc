#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rollout_worker/vllm/protocol.h"
#include "tests/support/fakes/byte_tokenizer.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTwoChunks[] =
    ": comment\r\n"
    "data: {\"choices\":[{\"index\":0,\"text\":\" "
    "so\",\"logprobs\":{\"token_logprobs\":[-0.5,-0.25]},\"finish_reason\":null,"
    "\"prompt_token_ids\":[1,2,3],\"token_ids\":[577,220]}]}\r\n\r\n"
    "data: "
    "{\"choices\":[{\"index\":0,\"logprobs\":null,\"token_ids\":[],\"finish_reason\":null}]}\n\n"
    "data: "
    "{\"choices\":[{\"index\":0,\"logprobs\":{\"token_logprobs\":[-1]},\"token_ids\":[9],\"finish_"
    "reason\":\"stop\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":3}}\n\n"
    "data: [DONE]\n\n";

TEST(CompletionStreamTest, ChunksOfSeveralTokensAndPiecesOfAnySizeGiveTheSameResult) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{100000}}) {
    CompletionStream stream(3, 8);
    const std::string_view text(kTwoChunks);
    for (std::size_t i = 0; i < text.size(); i += piece)
      ASSERT_TRUE(stream.Read(text.substr(i, piece)).ok());
    EXPECT_TRUE(stream.Finish().ok()) << stream.Finish().ToString();
    EXPECT_THAT(stream.token_ids(), ElementsAre(577, 220, 9));
    EXPECT_THAT(stream.logprobs(), ElementsAre(-0.5F, -0.25F, -1.0F));
    EXPECT_EQ(stream.finish_reason(), FinishReason::kStop);
  }
}

TEST(CompletionStreamTest, TokensBehindAStopStringAreDropped) {
  const ByteTokenizer tokenizer;
  StopMatcher stops(tokenizer, {"bc"}, 0);
  CompletionStream stream(3, 8, &stops);
  const auto chunk = [](const std::string& ids, const std::string& logprobs,
                        const std::string& finish) {
    return "data: {\"choices\":[{\"token_ids\":" + ids +
           ",\"logprobs\":{\"token_logprobs\":" + logprobs + "},\"finish_reason\":" + finish +
           "}]}\n";
  };
  ASSERT_TRUE(stream.Read(chunk("[97,98]", "[-1,-2]", "null")).ok());
  EXPECT_EQ(stream.finish_reason(), FinishReason::kUnspecified);
  // Several tokens come at once from a server that drafts them.
  ASSERT_TRUE(stream.Read(chunk("[99,100,101]", "[-3,-4,-5]", "\"stop\"")).ok());
  ASSERT_TRUE(
      stream
          .Read("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5}}\n")
          .ok());
  EXPECT_TRUE(stream.Finish().ok()) << stream.Finish().ToString();
  EXPECT_THAT(stream.token_ids(), ElementsAre(97, 98, 99));
  EXPECT_THAT(stream.logprobs(), ElementsAre(-1, -2, -3));
  EXPECT_FALSE(stream.cut());
}

TEST(CompletionStreamTest, AServerThatGoesOnBehindAStopStringIsCut) {
  const ByteTokenizer tokenizer;
  StopMatcher stops(tokenizer, {"b"}, 0);
  CompletionStream stream(3, 8, &stops);
  const Status status = stream.Read(
      "data: {\"choices\":[{\"token_ids\":[97,98],\"logprobs\":{\"token_logprobs\":[-1,-2]},"
      "\"finish_reason\":null}]}\n");
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_TRUE(stream.cut());
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.finish_reason(), FinishReason::kStop);
}

TEST(CompletionStreamTest, ValuesOfTheWrongTypeAreRefused) {
  for (const char* choice : {R"({"token_ids":["a"],"logprobs":{"token_logprobs":[-1]}})",
                             R"({"token_ids":[-4],"logprobs":{"token_logprobs":[-1]}})",
                             R"({"token_ids":[99999999999],"logprobs":{"token_logprobs":[-1]}})",
                             R"({"token_ids":[4],"logprobs":{"token_logprobs":[null]}})",
                             R"({"token_ids":[4],"logprobs":{"token_logprobs":[0.5]}})",
                             R"({"token_ids":[],"finish_reason":"tool_calls"})",
                             R"({"token_ids":[],"finish_reason":3})"}) {
    CompletionStream stream(3, 8);
    EXPECT_EQ(stream.Read("data: {\"choices\":[" + std::string(choice) + "]}\n").code(),
              StatusCode::kDataLoss)
        << choice;
  }
}

TEST(CompletionStreamTest, TheLengthOfALineIsBounded) {
  CompletionStream stream(3, 8);
  const std::string piece(1 << 20, 'x');
  Status status;
  for (int i = 0; i < 20 && status.ok(); ++i) status = stream.Read(piece);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
}

TEST(ProtocolTest, ErrorBodiesMayBeObjectsStringsOrText) {
  EXPECT_EQ(ErrorText(R"({"error":{"message":"no such model","code":404}})"), "no such model");
  EXPECT_EQ(ErrorText(R"({"error":"Unauthorized"})"), "Unauthorized");
  EXPECT_EQ(ErrorText("<html>\n<body>\n"), "<html>");
  EXPECT_EQ(ErrorText(""), "(no text)");
  EXPECT_EQ(ErrorText(std::string(1000, 'e')).size(), 300U);
}

TEST(ProtocolTest, StatusCodesTellWhichRequestsToRetry) {
  const auto status = [](long code) { return StatusOf({code, "{}"}, "u"); };
  for (const long code : {408L, 429L, 500L, 502L, 503L})
    EXPECT_TRUE(WorthRetrying(status(code))) << code;
  for (const long code : {400L, 401L, 404L, 405L, 422L, 501L, 307L})
    EXPECT_FALSE(WorthRetrying(status(code))) << code;
  EXPECT_THAT(status(401).message(), HasSubstr("local.worker.vllm.api_key_file"));
  EXPECT_THAT(StatusOf({401, "{}"}, "u", "--api-key-file").message(), HasSubstr("--api-key-file"));
}

}  // namespace
}  // namespace buttress
