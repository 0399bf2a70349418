#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "lib/base/thread/sync.h"
#include "lib/verify/verifier.h"
#include "tests/support/fakes/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

RewardConfig Config(const std::string& url) {
  RewardConfig config;
  config.timeout_ms = 20000;
  config.http.url = url + "/score";
  return config;
}

std::vector<Verdict> Score(const RewardConfig& config, std::size_t count) {
  const Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("http", config);
  EXPECT_TRUE(verifier.ok()) << verifier.status().ToString();
  std::vector<std::string> responses;
  for (std::size_t i = 0; i < count; ++i) responses.push_back(std::to_string(i));
  std::vector<VerifyRequest> requests;
  for (const std::string& response : responses)
    requests.push_back({"p", response, "1", "{}", false});
  return (*verifier)->VerifyGroup(requests);
}

// Scores 1 if the response is the answer.
void Reply(const ScriptedRequest& request, ScriptedConnection& connection) {
  const json batch = json::parse(request.body);
  json results = json::array();
  for (const json& item : batch["items"])
    results.push_back({{"score", item["response"] == item["answer"] ? 1 : 0}});
  connection.Reply(200, json{{"results", results}}.dump());
}

TEST(HttpReward, ScoresABatchInItsOrderWithTheToken) {
  TempDir dir;
  ASSERT_TRUE(WriteFileAtomic(JoinPath(dir.path(), "token"), "secret\n").ok());
  std::string seen;
  ScriptedHttpServer server([&](const ScriptedRequest& request, ScriptedConnection& connection) {
    seen = request.method + " " + request.target + " " + request.headers.at("authorization") + " " +
           request.headers.at("content-type");
    Reply(request, connection);
  });
  RewardConfig config = Config(server.url());
  config.http.token_file = JoinPath(dir.path(), "token");
  const auto verdicts = Score(config, 3);
  ASSERT_EQ(verdicts.size(), 3U);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kWrong) << verdicts[0].unscorable_reason;
  EXPECT_EQ(verdicts[1].outcome, Outcome::kCorrect);
  EXPECT_EQ(verdicts[2].outcome, Outcome::kWrong);
  EXPECT_EQ(seen, "POST /score Bearer secret application/json");
}

TEST(HttpReward, RetriesOnlyWhenTheServerIsBusy) {
  std::atomic<int> calls = 0;
  ScriptedHttpServer busy([&](const ScriptedRequest& request, ScriptedConnection& connection) {
    if (++calls < 3) return connection.Reply(503, "busy");
    Reply(request, connection);
  });
  EXPECT_EQ(Score(Config(busy.url()), 2)[1].outcome, Outcome::kCorrect);
  EXPECT_EQ(calls, 3);
  std::atomic<int> refused = 0;
  ScriptedHttpServer refusing([&](const ScriptedRequest&, ScriptedConnection& connection) {
    ++refused;
    connection.Reply(400, "bad request");
  });
  const auto verdicts = Score(Config(refusing.url()), 1);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kUnscorable);
  EXPECT_THAT(verdicts[0].unscorable_reason, HasSubstr("status 400: bad request"));
  EXPECT_EQ(refused, 1);
}

// A connection that the server closed while it was idle costs no attempt.
TEST(HttpReward, KeepsItsConnectionAndReplacesAStaleOne) {
  ScriptedHttpServer server(&Reply);
  RewardConfig config = Config(server.url());
  config.http.attempts = 1;
  const auto verifier = MakeVerifier("http", config);
  ASSERT_TRUE(verifier.ok()) << verifier.status().ToString();
  const auto score = [&] { return (*verifier)->Verify({"p", "1", "1", "{}", false}); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(score().outcome, Outcome::kCorrect);
  EXPECT_EQ(server.connections(), 1);
  server.Stop();
  server.Restart();
  EXPECT_EQ(score().outcome, Outcome::kCorrect);
  EXPECT_EQ(server.connections(), 2);
}

// The server closes it behind the request, before a byte of the reply.
TEST(HttpReward, RepeatsARequestWhoseKeptConnectionBreaks) {
  std::atomic<int> calls = 0;
  ScriptedHttpServer server([&](const ScriptedRequest& request, ScriptedConnection& connection) {
    if (++calls == 2) return connection.Close();
    Reply(request, connection);
  });
  RewardConfig config = Config(server.url());
  config.http.attempts = 1;
  const auto verifier = MakeVerifier("http", config);
  ASSERT_TRUE(verifier.ok()) << verifier.status().ToString();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ((*verifier)->Verify({"p", "1", "1", "{}", false}).outcome, Outcome::kCorrect);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(server.connections(), 2);
}

TEST(HttpReward, StopsAfterItsAttemptsAndAtItsDeadline) {
  std::atomic<int> calls = 0;
  ScriptedHttpServer broken([&](const ScriptedRequest&, ScriptedConnection& connection) {
    ++calls;
    connection.Reply(500, "");
  });
  EXPECT_THAT(Score(Config(broken.url()), 1)[0].unscorable_reason, HasSubstr("status 500"));
  EXPECT_EQ(calls, 3);
  StopSignal over;
  ScriptedHttpServer silent(
      [&](const ScriptedRequest&, ScriptedConnection&) { over.WaitFor(std::chrono::seconds(60)); });
  RewardConfig config = Config(silent.url());
  config.timeout_ms = 200;
  const auto verdicts = Score(config, 2);
  over.Stop();
  ASSERT_EQ(verdicts.size(), 2U);
  for (const Verdict& verdict : verdicts) EXPECT_EQ(verdict.unscorable_reason, TimeoutReason(200));
}

TEST(HttpReward, ARedirectIsNotFollowed) {
  ScriptedHttpServer server([](const ScriptedRequest&, ScriptedConnection& connection) {
    connection.SendRaw(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
  });
  EXPECT_THAT(Score(Config(server.url()), 1)[0].unscorable_reason, HasSubstr("status 302"));
}

TEST(HttpReward, RequiresAUrlAndAReadableToken) {
  EXPECT_THAT(MakeVerifier("http", RewardConfig{}).status().message(),
              HasSubstr("run.reward.http.url = ''"));
  RewardConfig config = Config("http://127.0.0.1:1");
  config.http.token_file = "/no/such/token";
  EXPECT_EQ(MakeVerifier("http", config).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace buttress
