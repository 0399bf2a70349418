#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "lib/http/http_client.h"
#include "tests/support/fakes/scripted_http_server.h"
#include "tests/unit/rollout_worker/episodes/agents_fixture.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Asks once, and goes on as two processes.
constexpr char kTwoProcesses[] = R"(
say([user("?")])
os.fork()
)";

// Expects the processes to end whose numbers an agent has written, and returns how many they are.
int EndedProcesses(const std::string& written) {
  std::istringstream pids(written);
  int processes = 0;
  for (pid_t pid; pids >> pid; ++processes) {
    std::string state = "R";
    for (int i = 0; i < 250 && !state.empty() && state.find(") Z ") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      state.assign(std::istreambuf_iterator<char>(stat), {});  // "Z": init has not reaped it yet
    }
    EXPECT_TRUE(state.empty() || state.find(") Z ") != std::string::npos) << state;
  }
  return processes;
}

TEST_F(AgentsTest, AProgramHoldsTheConversation) {
  const Episode episode = EpisodeOf(R"(
messages = [user(task["prompt"])]
for question in "What?", "Why?":
    messages.append(say(messages)["choices"][0]["message"])
    messages.append(user(question))
assert say(messages)["choices"][0]["message"]["content"] == "3"
)" + Write(R"(task["prompt_id"], task["source"], task["answer"], task["row"]["id"])"));
  EXPECT_EQ(episode.failure, "");
  EXPECT_EQ(episode.end, EpisodeEnd::kDone);
  ASSERT_THAT(episode.branches, SizeIs(1));
  EXPECT_THAT(episode.branches[0].turns, SizeIs(3));
  EXPECT_EQ(episode.answer, "3");
  EXPECT_EQ(episode.reencoded_tokens, 0);
  EXPECT_FALSE(episode.reward.has_value());
  EXPECT_EQ(Written(), "p0 s 4 4\n");
}

TEST_F(AgentsTest, AnAgentRewardsItsEpisode) {
  const Episode episode = EpisodeOf(R"(
assert post("/reward", {"reward": 1})["status"] == 400
say([user("?")])
assert post("/reward", {"turn_reward": 0.25}) == {}
assert post("/reward", {"reward": 0.5, "turn_reward": 0.25}) == {}
for wrong in {"reward": "1"}, {"reward": 1e9}, {"points": 1}, {}, []:
    assert post("/reward", wrong)["status"] == 400, wrong
)");
  EXPECT_EQ(episode.failure, "");
  EXPECT_EQ(episode.reward, 0.5);
  EXPECT_EQ(episode.branches[0].turns[0].reward, 0.5);
}

TEST_F(AgentsTest, TheEndpointSpeaksAsOpenAiDoes) {
  const Episode episode = EpisodeOf(R"(
def got(answer):
    return answer.get("status"), answer["error"]["code"]
assert got(post("/chat/completions", {}, "wrong")) == (401, "invalid_api_key")
assert post("/nothing", {})["status"] == 404
assert say([])["status"] == 400
# What would change the distribution of an answer, or is not kept of it, is refused.
for field in ({"presence_penalty": 1}, {"prompt_logprobs": 1},
              {"logprobs": True, "top_logprobs": 1},
              {"tools": [{"type": "function", "function": {"name": "f"}}],
               "tool_choice": "required"}):
    answer = say([user("?")], **field)
    assert answer["status"] == 400 and "for agents" in answer["error"]["message"], answer
assert post("/completions", {"prompt": [1], "echo": True})["status"] == 400
models = json.load(urllib.request.urlopen(urllib.request.Request(
    url + "/models", headers={"Authorization": "Bearer " + key})))
assert [model["id"] for model in models["data"]] == ["policy"]
# The parameters are those of the run; max_tokens may shrink an answer.
answer = say([user("?")], temperature=0, seed=5, top_p=0.5, max_tokens=1)
assert answer["choices"][0]["finish_reason"] == "length", answer
assert answer["usage"]["completion_tokens"] == 1
two = say([user("??")], n=2)
assert [choice["message"]["content"] for choice in two["choices"]] == ["2", "2"], two
raw = post("/completions", {"prompt": [1, 2, 3], "max_tokens": 5, "return_token_ids": True})
ids = raw["choices"][0]["token_ids"]
raw = post("/completions", {"prompt": [1, 2, 3] + ids + [4], "max_tokens": 5})
assert raw["choices"][0]["text"] == "0", raw
request = urllib.request.Request(url + "/chat/completions", json.dumps(
    {"messages": [user("?")], "stream": True}).encode(), {"Authorization": "Bearer " + key})
events = urllib.request.urlopen(request).read().decode()
assert '"content":"1"' in events and events.endswith("data: [DONE]\n\n"), events
)");
  EXPECT_EQ(episode.failure, "");
  // The raw prompts, the chats.
  EXPECT_THAT(episode.branches, SizeIs(5));
  for (const SampleRequest& asked : policy_->asked()) EXPECT_EQ(asked.sampling.temperature, 1);
}

TEST_F(AgentsTest, TheArgumentsOfTheTemplateAreThoseOfTheRun) {
  tokenizer_ = TokenizerOfFamily("qwen3");
  run_.data.template_arguments = {{"enable_thinking", "false"}};
  const Episode episode = EpisodeOf(R"(
say([user("?")], chat_template_kwargs={})
refused = say([user("?")], chat_template_kwargs={"enable_thinking": True})
assert refused["status"] == 400, refused
assert "chat_template_kwargs" in refused["error"]["message"], refused
)");
  EXPECT_EQ(episode.failure, "");
  ASSERT_THAT(policy_->asked(), SizeIs(1));
  EXPECT_THAT(*tokenizer_->Decode(policy_->asked()[0].prompt_token_ids, SpecialTokens::kKeep),
              HasSubstr("<think>\n\n</think>"));
}

TEST_F(AgentsTest, ALimitIsAnErrorWithACodeAndTheEpisodeIsScored) {
  run_.env.max_turns = 1;
  const Episode episode = EpisodeOf(R"(
say([user("?")])
answer = say([user("??")])
assert (answer["status"], answer["error"]["code"]) == (400, "episode_ended"), answer
assert post("/reward", {"reward": 3}) == {}
sys.exit("confused")
)");
  EXPECT_EQ(episode.end, EpisodeEnd::kTurns);
  EXPECT_EQ(episode.failure, "");
  EXPECT_EQ(episode.reward, 3);
}

TEST_F(AgentsTest, AnAgentThatFailsCostsItsOwnEpisode) {
  StartProgram(R"(
say([user("?")])
if task["prompt_id"] == "p1":
    raise ValueError("no such tool")
if task["prompt_id"] == "p2":
    os.kill(os.getpid(), 9)
)");
  for (int i = 0; i < 4; ++i) Submit(i);
  const std::vector<EngineResult> results = Poll(4);
  EXPECT_EQ(results[0].episode->end, EpisodeEnd::kDone);
  EXPECT_EQ(results[1].episode->end, EpisodeEnd::kFailed);
  EXPECT_EQ(results[1].episode->failure,
            "the agent exited with status 1: ValueError: no such tool");
  EXPECT_EQ(results[2].episode->failure, "the agent was ended by signal 9");
  EXPECT_EQ(results[3].episode->end, EpisodeEnd::kDone);
  EXPECT_THAT(results[1].episode->branches, SizeIs(1)) << "its tokens are accounted for";
}

TEST_F(AgentsTest, AnAgentThatHangsIsKilledWithAllItsProcesses) {
  run_.env.timeout_ms = 3000;
  const Episode episode = EpisodeOf(kTwoProcesses + Write("os.getpid()") + "time.sleep(1000)\n");
  EXPECT_EQ(episode.end, EpisodeEnd::kTime);
  EXPECT_THAT(episode.failure, HasSubstr("run.env.timeout_ms = 3000"));
  EXPECT_EQ(EndedProcesses(Written()), 2);
}

TEST_F(AgentsTest, AllProcessesOfAnAgentEndWithAKilledWorker) {
  const pid_t worker = ::fork();
  if (worker == 0) {
    ::alarm(60);
    StartProgram(kTwoProcesses + Write("os.getpid()") + "time.sleep(1000)\n");
    Submit();
    while (std::ranges::count(Written(), '\n') < 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(worker, &status, 0), worker);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(EndedProcesses(Written()), 2);
}

TEST_F(AgentsTest, TheEndOfTheEngineEndsAgents) {
  StartProgram(Write("os.getpid()") + "time.sleep(1000)\n");
  Submit();
  for (int i = 0; i < 500 && Written().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const pid_t pid = std::stoi(Written());
  ASSERT_EQ(::kill(pid, 0), 0);
  engine_.reset();
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(AgentsTest, AFloodOfCallsIsRefusedAndTheOthersAreAnswered) {
  run_.env.max_turns = 64;
  StartProgram(R"(
import threading
answers = []
def ask(i):
    answers.append(say([user("?" * i)]))
threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
for thread in threads:
    thread.start()
)" + Write("'started'") +
               R"(
for thread in threads:
    thread.join()
codes = [answer["error"]["code"] for answer in answers if "status" in answer]
)" + Write("len(codes), set(codes)"));
  policy_->Stall(true);
  Submit();
  for (int i = 0; i < 1000 && policy_->in_flight() < LiveEpisode::kMostCalls; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(policy_->in_flight(), LiveEpisode::kMostCalls);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_EQ(policy_->in_flight(), LiveEpisode::kMostCalls);
  policy_->Stall(false);
  const auto episode = Poll(1).front().episode;
  EXPECT_EQ(episode->failure, "");
  EXPECT_THAT(Written(), HasSubstr("{'too_many_calls'}"));
}

// Bodies that never end, bodies that are too large, and more requests than are answered, while
// another agent of the same endpoint holds its conversation.
TEST_F(AgentsTest, AnAgentThatFloodsTheEndpointCostsItsOwnEpisode) {
  StartProgram(Write("'starts'") + R"(
import collections, http.client, socket, urllib.parse
def wait_for(word):
    while word not in open(os.path.dirname(__file__) + "/out").read():
        time.sleep(0.02)
if task["prompt_id"] == "p1":
    wait_for("floods")
    messages = [user("?")]
    messages.append(say(messages)["choices"][0]["message"])
    assert say(messages + [user("?")])["choices"][0]["message"]["content"] == "2"
)" + "    " + Write("'talked'") +
               R"(
    sys.exit()
at = urllib.parse.urlsplit(url)
def begun():
    endless = socket.create_connection((at.hostname, at.port))
    endless.sendall(f"POST {at.path}/chat/completions HTTP/1.1\r\nHost: a\r\n"
                    "Content-Length: 16000000\r\n\r\n".encode() + b"x" * 100000)
    return endless
endless = [begun() for _ in range(200)]
)" + Write("'floods'") +
               R"(
codes = collections.Counter()
def flood(count, body):
    for _ in range(count):
        try:
            answer = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
            answer.request("POST", at.path + "/chat/completions", body,
                           {"Authorization": "Bearer " + key})
            codes[answer.getresponse().status] += 1
        except OSError:
            codes["closed"] += 1
flood(1000, json.dumps({"messages": [user("?")]}))
wait_for("talked")
for one in endless:
    one.close()
time.sleep(0.5)
flood(2, b"x" * (17 << 20))
flood(50, json.dumps({"messages": [user("?")]}))
)" + Write("'flooded', sorted(codes)"));
  for (int i = 0; i < 2; ++i) Submit(i);
  const std::vector<EngineResult> results = Poll(2);
  EXPECT_EQ(results[0].episode->end, EpisodeEnd::kTurns);
  EXPECT_THAT(Written(), HasSubstr("flooded [200, 400, 413, 429]"));
  EXPECT_EQ(results[1].episode->failure, "");
  EXPECT_EQ(results[1].episode->end, EpisodeEnd::kDone);
}

TEST_F(AgentsTest, CallsAfterTheEndAndOfOthersAreRefused) {
  auto codec = *EpisodeCodec::Create(run_, *tokenizer_);
  ScriptedPolicy policy(*tokenizer_, [](const std::string&, std::uint64_t) { return "1"; });
  EngineHub hub(policy, 10);
  std::atomic<std::int64_t> lost = 0;
  SampleRequest request;
  request.sampling.stop_token_ids = {tokenizer_->AddedTokenId("<|im_end|>")};
  const auto episode = std::make_shared<LiveEpisode>(request, codec->parts(), hub, lost);
  const auto gateway = *AgentGateway::Start({}, *tokenizer_);
  const std::string key = gateway->Open(episode);
  const auto call = [&](const std::string& of) {
    HttpClient client;
    HttpRequest http;
    http.url = gateway->UrlOf(of) + "/chat/completions";
    http.json = R"({"messages": [{"role": "user", "content": "?"}]})";
    http.bearer = of;
    return std::move(client.Fetch({http}).front())->status;
  };
  EXPECT_EQ(call(key), 200);
  EXPECT_EQ(call("0123"), 404);
  episode->End(EpisodeEnd::kDone);
  EXPECT_EQ(call(key), 410);
  gateway->Close(key);
  EXPECT_EQ(call(key), 410);
}

// Asks the policy as a service does and returns the status.
long AskAsAService(const ordered_json& posted) {
  HttpClient client;
  HttpRequest http;
  http.url = posted["base_url"].get<std::string>() + "/chat/completions";
  http.json = R"({"messages": [{"role": "user", "content": "?"}]})";
  http.bearer = posted["api_key"];
  return std::move(client.Fetch({http}).front())->status;
}

TEST_F(AgentsTest, AServiceHoldsTheConversation) {
  StopSignal stop;
  ScriptedHttpServer service([&](const ScriptedRequest& request, ScriptedConnection& connection) {
    const ordered_json posted = ordered_json::parse(request.body);
    const std::string prompt_id = posted["task"]["prompt_id"];
    if (prompt_id == "p1") return connection.Reply(500, "out of order");
    if (prompt_id == "p2") return connection.Close();
    EXPECT_EQ(posted["task"]["row"]["id"], 4);
    EXPECT_EQ(posted["model"], "policy");
    EXPECT_EQ(AskAsAService(posted), 200);
    if (prompt_id == "p3") stop.WaitFor(kPatience);
    connection.Reply(200, prompt_id == "p4" ? "{}" : R"({"reward": 0.5})");
  });
  run_.env.kind = EnvKind::kHttp;
  run_.env.url = service.url() + "/run";
  run_.env.timeout_ms = 3000;
  Start();
  for (int i = 0; i < 5; ++i) Submit(i);
  const std::vector<EngineResult> results = Poll(5);
  EXPECT_EQ(results[0].episode->end, EpisodeEnd::kDone);
  EXPECT_EQ(results[0].episode->reward, 0.5);
  EXPECT_EQ(results[1].episode->failure, "the agent answered 500: out of order");
  EXPECT_EQ(results[2].episode->end, EpisodeEnd::kFailed);
  EXPECT_THAT(results[2].episode->failure, HasSubstr("run.env.url"));
  EXPECT_EQ(results[3].episode->end, EpisodeEnd::kTime);
  EXPECT_FALSE(results[4].episode->reward.has_value());
  EXPECT_EQ(results[4].episode->answer, "1");
  stop.Stop();
}

TEST_F(AgentsTest, ATaskThatIsTooLargeForAProgramNamesTheOtherKind) {
  StartProgram("");
  SampleRequest request;
  request.id = {1, 1, 0};
  request.task = std::make_shared<EpisodeTask>(
      EpisodeTask{"p", "s", R"({"prompt": ")" + std::string(200000, 'x') + "\"}", ""});
  ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
  EXPECT_THAT(Poll(1).front().episode->failure, HasSubstr("use run.env.kind: http"));
}

TEST_F(AgentsTest, AProgramThatIsNotThereIsAnErrorAtTheStart) {
  run_.env.command = {"no-such-agent"};
  EXPECT_THAT(MakeAgentRunner(run_.env, {}, *tokenizer_).status().message(),
              HasSubstr("'no-such-agent' is not a program"));
}

}  // namespace
}  // namespace buttress
