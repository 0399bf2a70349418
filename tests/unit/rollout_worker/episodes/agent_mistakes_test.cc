// Agents that ask for what there is not, and say nothing of it: each gets an error of OpenAI's
// form, and its episode a reason.
#include "tests/unit/rollout_worker/episodes/agents_fixture.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kRefused[] = "its last request was refused: ";

// The tools of the programs: what an error says, and messages that no policy reads.
constexpr char kErrors[] = R"(
def error(answer):
    what = answer["error"]
    assert set(what) == {"message", "type", "param", "code"}, what
    return answer["status"], what["type"], what["param"], what["code"]
def call(arguments):
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}]}
def result(content):
    return {"role": "tool", "tool_call_id": "1", "content": content}
)";

class AgentMistakesTest : public AgentsTest {
 protected:
  Episode EpisodeOf(const std::string& program) { return AgentsTest::EpisodeOf(kErrors + program); }

  // Expects that the policy was not asked, and why.
  void ExpectReason(const Episode& episode, const std::string& reason) {
    EXPECT_EQ(episode.end, EpisodeEnd::kFailed);
    EXPECT_THAT(episode.branches, SizeIs(0));
    EXPECT_THAT(episode.failure, HasSubstr(reason));
    EXPECT_THAT(policy_->asked(), SizeIs(0));
  }
};

TEST_F(AgentMistakesTest, AnAgentThatNeverCalls) {
  ExpectReason(EpisodeOf(""), "the agent ended without an answer of the policy");
}

TEST_F(AgentMistakesTest, AModelThatIsNotServed) {
  const Episode episode = EpisodeOf(R"(
assert os.environ["OPENAI_MODEL"] == os.environ["OPENAI_DEFAULT_MODEL"] == "policy"
for path, body in (("/chat/completions", {"messages": [user("?")]}),
                   ("/completions", {"prompt": "?"})):
    answer = post(path, {"model": "gpt-4o", **body})
    assert error(answer) == (404, "not_found_error", "model", "model_not_found"), answer
)");
  ExpectReason(episode,
               std::string(kRefused) + "model = 'gpt-4o' is not served; expected 'policy'");
}

TEST_F(AgentMistakesTest, AWrongKey) {
  const Episode episode = EpisodeOf(R"(
for path in "/chat/completions", "/completions", "/reward":
    answer = post(path, {"messages": [user("?")]}, "sk-wrong")
    assert error(answer) == (401, "authentication_error", None, "invalid_api_key"), answer
)");
  ExpectReason(episode, std::string(kRefused) + "the API key is wrong or missing");
}

TEST_F(AgentMistakesTest, APathThatIsNot) {
  const Episode episode = EpisodeOf(R"(
answer = post("/embeddings", {"input": "?"})
assert error(answer) == (404, "not_found_error", None, None), answer
)");
  ExpectReason(episode, "POST /v1/embeddings is no call of an episode");
}

TEST_F(AgentMistakesTest, AnImage) {
  const Episode episode = EpisodeOf(R"(
image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100000}}
answer = say([{"role": "user", "content": [{"type": "text", "text": "?"}, image]}])
assert error(answer) == (400, "invalid_request_error", "messages[0].content[1]", None), answer
assert len(answer["error"]["message"]) < 300, answer
)");
  ExpectReason(episode, "images and sounds are not read");
}

TEST_F(AgentMistakesTest, ArgumentsOfACallThatAreNoJson) {
  const Episode episode = EpisodeOf(R"(
for wrong in "{a: 1", "[1]", 5, "[" * 100000:
    answer = say([user("?"), call(wrong), result("2")])
    assert error(answer) == (400, "invalid_request_error",
                             "messages[1].tool_calls[0].function.arguments", None), answer
    assert len(answer["error"]["message"]) < 300, answer
)");
  ExpectReason(episode, "expected the JSON of an object");
}

TEST_F(AgentMistakesTest, ABodyThatIsNoJson) {
  const Episode episode = EpisodeOf(R"(
for wrong in b"", b"messages", b"[]", b"\xff", b"[" * 100000:
    request = urllib.request.Request(url + "/chat/completions", wrong,
                                     {"Authorization": "Bearer " + key})
    try:
        urllib.request.urlopen(request, timeout=60)
        assert False
    except urllib.error.HTTPError as got:
        answer = {"status": got.code, **json.load(got)}
        assert error(answer) == (400, "invalid_request_error", None, None), answer
)");
  ExpectReason(episode, "the body is nested too deeply");
}

// The result of a tool is a text, whatever it says.
TEST_F(AgentMistakesTest, AToolResultThatIsNoJsonIsRead) {
  const Episode episode = EpisodeOf(R"(
messages = [user("?"), say([user("?")])["choices"][0]["message"]]
assert say(messages + [result("{not ? json")])["choices"][0]["message"]["content"] == "2"
for wrong in 5, {"value": 5}, True:
    assert error(say(messages + [result(wrong)]))[0] == 400
)");
  EXPECT_EQ(episode.failure, "");
  EXPECT_EQ(episode.end, EpisodeEnd::kDone);
  EXPECT_THAT(policy_->asked(), SizeIs(2));
}

constexpr char kMegabyte[] = R"(
megabyte = "".join(chr(97 + i * i % 26) + " ?"[i % 7 == 0] for i in range(1 << 19))
)";

TEST_F(AgentMistakesTest, AToolResultOfAMegabyteEndsTheEpisodeAtItsLimit) {
  run_.env.max_tokens = 1000;
  const Episode episode = EpisodeOf(std::string(kMegabyte) + R"(
messages = [user("?"), say([user("?")])["choices"][0]["message"]]
start = time.time()
answer = say(messages + [result(megabyte)])
)" + Write("time.time() - start, answer") +
                                    R"(
assert error(answer)[:2] == (400, "invalid_request_error"), answer
assert answer["error"]["code"] == "episode_ended", answer
assert "run.env.max_tokens = 1000 is reached by a conversation of" in answer["error"]["message"]
assert post("/reward", {"reward": 0.5}) == {}
)");
  EXPECT_EQ(episode.failure, "");
  EXPECT_EQ(episode.end, EpisodeEnd::kTokens);
  EXPECT_EQ(episode.reward, 0.5) << Written();
  ASSERT_THAT(episode.branches, SizeIs(1));
  EXPECT_LT(episode.branches[0].token_ids.size(), 1000) << "the result is not kept";
}

TEST_F(AgentMistakesTest, APromptOfAMegabyteFailsTheEpisode) {
  run_.env.max_tokens = 1000;
  run_.data.max_prompt_tokens = 1000;
  const Episode episode = EpisodeOf(std::string(kMegabyte) + R"(
assert error(say([user(megabyte)]))[3] == "episode_ended"
)");
  ExpectReason(episode, "run.env.max_tokens = 1000 is reached by a conversation of");
}

TEST_F(AgentMistakesTest, ARefusalIsNoReasonOfAnEpisodeThatWasAnswered) {
  const Episode episode = EpisodeOf(R"(
assert say([user("?")], model="gpt-4o")["status"] == 404
say([user("?")])
assert say([user("?")], model="gpt-4o")["status"] == 404
)");
  EXPECT_EQ(episode.failure, "");
  EXPECT_EQ(episode.end, EpisodeEnd::kDone);
}

// What a client raises ends the program, and its last line is the reason.
TEST_F(AgentMistakesTest, AnAgentThatRaisesTheErrorHasItAsItsReason) {
  const Episode episode = EpisodeOf(R"(
answer = say([user("?")], model="gpt-4o")
raise RuntimeError(answer["error"]["message"])
)");
  EXPECT_THAT(episode.failure,
              StartsWith("the agent exited with status 1: RuntimeError: model = "));
}

}  // namespace
}  // namespace buttress
