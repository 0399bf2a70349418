// Evaluations whose completions come from an OpenAI-compatible server.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/base/thread/sync.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/evaluation/local_models.h"
#include "rollout_worker/evaluation/probe.h"
#include "tests/support/fakes/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Completes with a text of the test's choice, and refuses with `failures` before that.
class FakeOpenAi {
 public:
  std::string owner = "vllm";
  std::string key;
  std::string models;  // instead of the list of models
  std::string text = "7";
  std::string finish = "stop";
  std::vector<double> logprobs;         // of the tokens; empty: none
  std::vector<std::int32_t> token_ids;  // of the text; empty: none
  nlohmann::json tokens = 3;            // their number
  int positions = 32;

  std::string url() const { return server_.url(); }

  void Fail(int status, int times) {
    const MutexLock lock(mutex_);
    failures_.assign(static_cast<std::size_t>(times), status);
  }

  std::vector<nlohmann::json> bodies() const {
    const MutexLock lock(mutex_);
    return bodies_;
  }

  std::set<std::string> calls() const {
    const MutexLock lock(mutex_);
    return calls_;
  }

 private:
  void Handle(const ScriptedRequest& request, ScriptedConnection& connection) {
    const MutexLock lock(mutex_);
    if (!key.empty() && (!request.headers.contains("authorization") ||
                         request.headers.at("authorization") != "Bearer " + key))
      return connection.Reply(401, R"({"error": "Unauthorized"})");
    if (request.target == "/v1/models") {
      if (models == "none") return connection.Reply(404, R"({"detail": "Not Found"})");
      const nlohmann::json one = {
          {"id", "policy"}, {"owned_by", owner}, {"max_model_len", positions}};
      return connection.Reply(200,
                              models.empty() ? nlohmann::json{{"data", {one}}}.dump() : models);
    }
    if (!failures_.empty()) {
      const int status = failures_.back();
      failures_.pop_back();
      return connection.Reply(status, R"({"error": {"message": "not now"}})");
    }
    calls_.insert(request.target);
    bodies_.push_back(nlohmann::json::parse(request.body));
    nlohmann::json choice = {{"index", 0}, {"finish_reason", finish}};
    if (!token_ids.empty() && bodies_.back().contains("return_token_ids"))
      choice["token_ids"] = token_ids;
    if (request.target == "/v1/completions")
      choice.update({{"text", text}, {"logprobs", {{"token_logprobs", logprobs}}}});
    else
      choice["message"] = {{"role", "assistant"}, {"content", text}};
    connection.Reply(
        200,
        nlohmann::json{{"choices", {choice}}, {"usage", {{"completion_tokens", tokens}}}}.dump());
  }

  mutable Mutex mutex_;
  std::vector<int> failures_ GUARDED_BY(mutex_);
  std::vector<nlohmann::json> bodies_ GUARDED_BY(mutex_);
  std::set<std::string> calls_ GUARDED_BY(mutex_);
  ScriptedHttpServer server_{
      [this](const ScriptedRequest& request, ScriptedConnection& connection) {
        Handle(request, connection);
      }};
};

class EvalServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.prompts = JoinPath(dir_.path(), "prompts.jsonl");
    options_.reward.verifier = "exact";
    options_.sampling.temperature = 0;
    options_.sampling.max_tokens = 16;
    options_.server.url = server_.url() + "/v1/";
    ASSERT_TRUE(WriteFileAtomic(options_.prompts,
                                "{\"prompt\": \"3+4=\", \"answer\": \"7\"}\n"
                                "{\"prompt\": \"3+3=\", \"answer\": \"6\"}\n")
                    .ok());
  }

  // A folder with a tokenizer and a configuration, and no weights.
  void MakeTokenizer() {
    NewModelOptions model;
    model.characters = "0123456789+=";
    model.layers = 1;
    model.hidden = 32;
    model.heads = 1;
    model.intermediate = 64;
    model.max_positions = 32;
    options_.model.path = JoinPath(dir_.path(), "model");
    ASSERT_TRUE(WriteNewModel(model, options_.model.path).ok());
  }

  EvalResult Evaluated() {
    const auto result = Evaluate(options_, &kLocalModels);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? *result : EvalResult();
  }

  Status Refused() { return Evaluate(options_, &kLocalModels).status(); }

  const TempDir dir_;
  FakeOpenAi server_;
  EvalOptions options_;
};

TEST_F(EvalServerTest, WithATokenizerAVllmGetsTokensAndEverySamplingField) {
  MakeTokenizer();
  options_.sampling.stop = {"="};
  options_.sampling.max_tokens = 30;
  const EvalResult result = Evaluated();
  EXPECT_EQ(result.correct, 1);
  EXPECT_EQ(result.wrong, 1);
  EXPECT_EQ(result.tokens, 6);
  EXPECT_EQ(server_.calls(), std::set<std::string>{"/v1/completions"});
  const auto bodies = server_.bodies();
  ASSERT_EQ(bodies.size(), 2U);
  const auto tokenizer = *Tokenizer::Load(options_.model.path);
  std::set<std::vector<std::int32_t>> prompts;
  for (const auto& body : bodies) {
    prompts.insert(body["prompt"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(body["model"], "policy");
    EXPECT_EQ(body["temperature"], 0);
    EXPECT_EQ(body["top_k"], -1);
    EXPECT_EQ(body["repetition_penalty"], 1);
    EXPECT_EQ(body["stop"], std::vector<std::string>{"="});
    EXPECT_EQ(body["stop_token_ids"], std::vector<std::int32_t>{tokenizer->eos_token_id()});
    EXPECT_EQ(body["max_tokens"], 28) << "what 32 positions leave";
    EXPECT_FALSE(body.contains("logprobs"));
  }
  EXPECT_EQ(prompts, (std::set{*tokenizer->Encode("3+4="), *tokenizer->Encode("3+3=")}));
}

TEST_F(EvalServerTest, AProbeAsksTheServerAsTheRunWould) {
  MakeTokenizer();
  ProbeOptions probe;
  probe.server = options_.server;
  probe.completions = 3;
  RunSettings& run = probe.config.run;
  run.model.path = options_.model.path;
  run.data.prompts = options_.prompts;
  run.reward.verifier = "exact";
  run.sampling.temperature = 0.7;
  run.sampling.top_k = 5;
  run.sampling.max_tokens = 16;
  const auto facts = RunProbe(probe, &kLocalModels);
  ASSERT_TRUE(facts.ok()) << facts.status().message();
  EXPECT_EQ(facts->prompts.size(), 2);
  EXPECT_TRUE(facts->sampled.empty()) << "the server gives no log-probs";
  server_.logprobs = {-1, -2, -0.5};
  const auto with = RunProbe(probe, &kLocalModels);
  ASSERT_TRUE(with.ok()) << with.status().message();
  ASSERT_EQ(with->sampled.size(), 2);
  EXPECT_EQ(with->sampled[0].tokens, 9);
  EXPECT_EQ(with->sampled[0].logprob, -10.5);
  const auto bodies = server_.bodies();
  ASSERT_EQ(bodies.size(), 12U);
  for (const auto& body : bodies) {
    EXPECT_EQ(body["temperature"], 0.7);
    EXPECT_EQ(body["top_k"], 5);
    EXPECT_EQ(body["logprobs"], 0);
    EXPECT_EQ(body["max_tokens"], 16);
  }
}

TEST_F(EvalServerTest, WithoutATokenizerAServerGetsMessages) {
  server_.owner = "somebody";
  server_.finish = "length";
  options_.data.system_prompt = "Say \"it\".";
  options_.data.chat_template = true;
  const EvalResult result = Evaluated();
  EXPECT_EQ(result.truncated, 2);
  EXPECT_EQ(server_.calls(), std::set<std::string>{"/v1/chat/completions"});
  std::set<nlohmann::json> asked;
  for (const auto& body : server_.bodies()) {
    EXPECT_EQ(body["messages"][0],
              (nlohmann::json{{"role", "system"}, {"content", "Say \"it\"."}}));
    asked.insert(body["messages"][1]);
    for (const char* field : {"top_k", "stop_token_ids", "stop", "min_tokens"})
      EXPECT_FALSE(body.contains(field)) << "OpenAI refuses " << field;
  }
  EXPECT_EQ(asked, (std::set<nlohmann::json>{{{"role", "user"}, {"content", "3+4="}},
                                             {{"role", "user"}, {"content", "3+3="}}}));
  options_.sampling.top_k = 20;
  EXPECT_THAT(Refused().message(), HasSubstr("sampling.top_k is set, but http"));
}

// Guesses 7 until the game ends.
TEST_F(EvalServerTest, EpisodesAskAServerForTheTokensOfTheirAnswers) {
  NewModelOptions model;
  model.characters = "0123456789-abcdefghijklmnopqrstuvwxyz ";
  model.chat = true;
  const std::string folder = JoinPath(dir_.path(), "chat");
  ASSERT_TRUE(WriteNewModel(model, folder).ok());
  const auto tokenizer = *Tokenizer::Load(folder);
  server_.token_ids = {tokenizer->Encode("7")->front(), tokenizer->eos_token_id()};
  server_.positions = 512;
  ASSERT_TRUE(WriteFileAtomic(options_.prompts, R"({"prompt": "1-9", "answer": "7", "number": 7})"
                                                "\n"
                                                R"({"prompt": "1-9", "answer": "4", "number": 4})"
                                                "\n")
                  .ok());
  options_.env.kind = EnvKind::kBuiltin;
  options_.env.name = BuiltinEnv::kGuess;
  options_.env.guess_max = 9;
  options_.env.max_turns = 3;
  EXPECT_THAT(Refused().message(), HasSubstr("--tokenizer"));
  options_.model.path = folder;
  const EvalResult result = Evaluated();
  EXPECT_EQ(result.correct, 1);
  EXPECT_EQ(result.wrong, 1);
  EXPECT_EQ(result.episodes.turns, 4);
  EXPECT_EQ(result.tokens, 8);
  const auto bodies = server_.bodies();
  ASSERT_EQ(bodies.size(), 4U);
  for (const auto& body : bodies) EXPECT_EQ(body["return_token_ids"], true);

  server_.token_ids.clear();
  EXPECT_THAT(Refused().message(), HasSubstr("no token_ids"));
  server_.owner = "somebody";
  EXPECT_THAT(Refused().message(), HasSubstr("neither vLLM nor `buttress serve`"));
}

TEST_F(EvalServerTest, EachCompletionHasItsSeedAndAnEvaluationContinues) {
  options_.completions = 3;
  options_.sampling.temperature = 1;
  options_.results = JoinPath(dir_.path(), "results.jsonl");
  options_.limit = 1;
  EXPECT_EQ(Evaluated().correct, 3);
  options_.limit = 0;
  server_.text = "6";
  const EvalResult result = Evaluated();
  EXPECT_EQ(result.correct, 6);
  std::set<std::uint64_t> seeds;
  for (const auto& body : server_.bodies()) seeds.insert(body["seed"].get<std::uint64_t>());
  EXPECT_EQ(seeds.size(), 6U);
  EXPECT_EQ(ReadEvalRecord(options_.results)->settings["model"], "policy");
}

TEST_F(EvalServerTest, ARequestThatFailsIsRepeatedSomeTimes) {
  server_.Fail(503, 2);
  EXPECT_EQ(Evaluated().completions, 2);
  options_.limit = 1;
  server_.Fail(400, 1);
  const Status refused = Refused();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("/v1/chat/completions"), HasSubstr("not now")));
  EXPECT_EQ(server_.bodies().size(), 2U) << "a request that is wrong is not repeated";
}

TEST_F(EvalServerTest, APromptThatLeavesNoRoomIsUnscorable) {
  MakeTokenizer();
  ASSERT_TRUE(WriteFileAtomic(options_.prompts,
                              "{\"prompt\": \"3+4=\", \"answer\": \"7\"}\n"
                              "{\"prompt\": \"" +
                                  std::string(40, '1') + "\", \"answer\": \"7\"}\n")
                  .ok());
  const EvalResult result = Evaluated();
  EXPECT_EQ(result.correct, 1);
  EXPECT_EQ(result.unscorable, 1);
  EXPECT_EQ(server_.bodies().size(), 1U);
}

TEST_F(EvalServerTest, NonsenseOfAServerIsNoFigure) {
  for (const nlohmann::json& tokens : {nlohmann::json(nullptr), nlohmann::json(-3)}) {
    server_.tokens = tokens;
    EXPECT_THAT(Refused().message(), HasSubstr("usage.completion_tokens of the server is " +
                                               tokens.dump() + "; expected the number"));
  }
  server_.tokens = 3;
  MakeTokenizer();
  server_.logprobs = {-1, 5};
  EXPECT_THAT(Refused().message(), HasSubstr("log-prob of the server is above 0: 5"));
  server_.logprobs = {-1, 1e-7};  // a rounding error
  EXPECT_EQ(Evaluated().completions, 2);
}

TEST_F(EvalServerTest, AServerThatCannotBeUsedIsNamedWithTheFix) {
  options_.server.model = "other";
  EXPECT_THAT(Refused().message(),
              HasSubstr("has no model 'other'; name one of these with --model: "
                        "policy"));
  options_.server.model = "";
  server_.models = R"({"data": [{"id": "a"}, {"id": "b"}]})";
  EXPECT_THAT(Refused().message(), HasSubstr("has several models; name one with --model: a, b"));
  server_.models = "<html>";
  EXPECT_THAT(Refused().message(), AllOf(HasSubstr("/v1/models gave no list of models: <html>"),
                                         HasSubstr("expected an OpenAI-compatible server")));
  server_.models = "none";
  EXPECT_THAT(Refused().message(), HasSubstr("expected an OpenAI-compatible server"));
  server_.models = "";
  server_.key = "secret";
  EXPECT_EQ(Refused().code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(Refused().message(), HasSubstr("--api-key-file"));
  options_.server.api_key = "secret";
  EXPECT_EQ(Evaluated().completions, 2);
  options_.data.template_arguments = {{"enable_thinking", "false"}};
  EXPECT_THAT(Refused().message(), HasSubstr("--tokenizer"));
  options_.server.url = "http://127.0.0.1:1";
  options_.data.template_arguments.clear();
  EXPECT_EQ(Refused().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Refused().message(), HasSubstr("start the server, or name another by --server"));
}

}  // namespace
}  // namespace buttress
