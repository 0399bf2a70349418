// Episodes whose conversations programs and services hold, with a policy that says how many
// questions it was asked.
#pragma once

#include <gmock/gmock.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rollout_worker/episodes/agent_gateway.h"
#include "rollout_worker/episodes/episode_engine.h"
#include "tests/support/chat_tokenizer.h"
#include "tests/support/fakes/scripted_policy.h"
#include "tests/support/patience.h"
#include "tests/support/temp_dir.h"

namespace buttress {

// What every agent of the tests begins with: say(messages) asks the policy.
inline constexpr char kAgent[] = R"(
import json, os, sys, time, urllib.error, urllib.request
url, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
task = json.loads(os.environ["BUTTRESS_TASK"])
def post(path, body, bearer=key):
    request = urllib.request.Request(url + path, json.dumps(body).encode(),
                                     {"Authorization": "Bearer " + bearer,
                                      "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        return {"status": error.code, **json.load(error)}
def say(messages, **more):
    return post("/chat/completions", {"model": "policy", "messages": messages, **more})
def user(text):
    return {"role": "user", "content": text}
)";

class AgentsTest : public ::testing::Test {
 protected:
  AgentsTest() : tokenizer_(TokenizerOfFamily("qwen2_5")) {
    run_.env.kind = EnvKind::kExec;
    run_.env.timeout_ms = kPatience.count();
  }

  // Starts an engine whose policy says how many questions the prompt has.
  void Start() {
    auto policy =
        std::make_unique<ScriptedPolicy>(*tokenizer_, [](const std::string& prompt, std::uint64_t) {
          return std::to_string(std::count(prompt.begin(), prompt.end(), '?'));
        });
    policy_ = policy.get();
    auto runner = MakeAgentRunner(run_.env, {}, *tokenizer_);
    ASSERT_TRUE(runner.ok()) << runner.status().ToString();
    engine_ = MakeEpisodeEngine(std::move(policy), *EpisodeCodec::Create(run_, *tokenizer_),
                                *std::move(runner), 8);
  }

  // The program that runs behind kAgent.
  void StartProgram(const std::string& program) {
    const std::string path = dir_.path() + "/agent.py";
    std::ofstream(path) << kAgent << program;
    run_.env.command = {"python3", path};
    Start();
  }

  void Submit(std::int32_t index = 0) {
    SampleRequest request;
    request.id = {5, 1, index};
    request.sampling.max_tokens = 50;
    request.sampling.stop_token_ids = {tokenizer_->AddedTokenId("<|im_end|>")};
    request.task = std::make_shared<EpisodeTask>(
        EpisodeTask{"p" + std::to_string(index), "s", R"({"prompt": "2+2?", "id": 4})", "4"});
    ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
  }

  std::vector<EngineResult> Poll(std::size_t count) {
    std::vector<EngineResult> results;
    for (int i = 0; i < 600 && results.size() < count; ++i) {
      for (EngineResult& result : engine_->Poll(std::chrono::milliseconds(100)))
        results.push_back(std::move(result));
    }
    EXPECT_THAT(results, ::testing::SizeIs(count));
    results.resize(count);
    std::ranges::sort(results, {}, &EngineResult::id);
    return results;
  }

  // Runs one episode of the program.
  Episode EpisodeOf(const std::string& program) {
    StartProgram(program);
    Submit();
    const auto episode = Poll(1).front().episode;
    return episode ? *episode : Episode();
  }

  std::string Written() const {
    std::ifstream file(dir_.path() + "/out");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Writes `expression` of Python to the file that Written reads.
  std::string Write(const std::string& expression) const {
    return "print(" + expression + ", file=open(" +
           nlohmann::ordered_json(dir_.path() + "/out").dump() + ", 'a'), flush=True)\n";
  }

  const TempDir dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
  RunSettings run_;
  ScriptedPolicy* policy_ = nullptr;
  std::unique_ptr<InferenceEngine> engine_;
};

}  // namespace buttress
