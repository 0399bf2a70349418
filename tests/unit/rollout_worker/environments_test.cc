#include <gmock/gmock.h>

#include "lib/base/os/file.h"
#include "lib/chat/tool_calls.h"
#include "rollout_worker/environments/tool.h"
#include "rollout_worker/episodes/environment.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr std::int64_t kDeadlineMs = 60000;

EpisodeTask TaskOf(const std::string& row) {
  return {.prompt_id = "p1", .source = "s", .row_json = row, .answer = ""};
}

std::string ErrorOf(const RunSettings& run) {
  const auto factory = EnvironmentFactory::Create(run);
  return factory.ok() ? "" : factory.status().message();
}

class GuessTest : public ::testing::Test {
 protected:
  GuessTest() { run_.env.name = BuiltinEnv::kGuess; }

  Result<std::unique_ptr<Environment>> Make(const std::string& row, std::uint64_t seed = 1) const {
    return (*EnvironmentFactory::Create(run_))->Make(TaskOf(row), seed);
  }

  // "higher", "lower", "not a number", or "reward 1".
  static std::string Said(Environment& environment, const std::string& guess) {
    const EnvironmentReply reply = *environment.Reply({.content = guess}, kDeadlineMs);
    EXPECT_EQ(reply.reward, reply.turn_reward);
    EXPECT_EQ(reply.ended(), reply.turn_reward == 1);
    if (reply.ended()) return "reward 1";
    EXPECT_THAT(reply.messages, SizeIs(1));
    EXPECT_EQ(reply.messages[0]["role"], "user");
    return reply.messages[0]["content"];
  }

  RunSettings run_;
};

TEST_F(GuessTest, ThePolicyHearsWhereTheNumberIs) {
  const auto environment = *Make(R"({"prompt": "Guess.", "number": 7})");
  EXPECT_EQ(environment->messages().dump(), R"([{"role":"user","content":"Guess."}])");
  EXPECT_TRUE(environment->tools().is_null());
  EXPECT_EQ(Said(*environment, "3"), "higher");
  EXPECT_EQ(Said(*environment, "between 3 and 12."), "lower");
  EXPECT_EQ(Said(*environment, "-7"), "higher");
  EXPECT_EQ(Said(*environment, "99999999999999999999"), "lower");
  EXPECT_EQ(Said(*environment, "seven"), "not a number");
  EXPECT_EQ(Said(*environment, "<think>7"), "not a number");
  EXPECT_EQ(Said(*environment, ""), "not a number");
  EXPECT_EQ(Said(*environment, "<think>3</think>\n7!"), "reward 1");
}

TEST_F(GuessTest, TheSeedDrawsTheNumber) {
  run_.env.guess_max = 4;
  const auto number = [&](std::uint64_t seed) {
    const auto environment = *Make(R"({"prompt": [{"role": "user", "content": "Guess."}]})", seed);
    for (int guess = 1; guess <= 4; ++guess) {
      if (Said(*environment, std::to_string(guess)) == "reward 1") return guess;
    }
    return 0;
  };
  std::vector<int> drawn(5);
  for (std::uint64_t seed = 0; seed < 200; ++seed) ++drawn[static_cast<std::size_t>(number(seed))];
  EXPECT_EQ(drawn[0], 0);
  for (std::size_t i = 1; i <= 4; ++i) EXPECT_GT(drawn[i], 25) << i;
  EXPECT_EQ(number(5), number(5));
}

TEST_F(GuessTest, RowsThatAreOfNoUseAreRefused) {
  for (const char* number : {"0", "17", "1.5", "\"7\"", "null"}) {
    const auto made = Make(std::string(R"({"prompt": "Guess.", "number": )") + number + "}");
    ASSERT_FALSE(made.ok()) << number;
    EXPECT_THAT(made.status().message(), HasSubstr("from 1 to run.env.guess_max = 16"));
  }
  EXPECT_THAT(Make("[]").status().message(), HasSubstr("prompt p1: its row is no JSON object"));
  EXPECT_THAT(Make("{}").status().message(), HasSubstr("neither a text nor a list"));
}

class ToolsTest : public ::testing::Test {
 protected:
  ToolsTest() { run_.env.name = BuiltinEnv::kTools; }

  EnvironmentReply Reply(const AssistantMessage& answer) const {
    const auto environment =
        *(*EnvironmentFactory::Create(run_))->Make(TaskOf(R"({"prompt": "What is 2+2?"})"), 1);
    return *environment->Reply(answer, kDeadlineMs);
  }

  // What a call of a tool returns; "failed: " where it counts as failed.
  std::string Called(const std::string& tool, const ordered_json& arguments) const {
    const EnvironmentReply reply = Reply({.content = "", .calls = {{tool, arguments}}});
    EXPECT_THAT(reply.messages, SizeIs(1));
    EXPECT_THAT(reply.tools, ElementsAre(tool));
    return (reply.failed_tools == 1 ? "failed: " : "") +
           reply.messages[0]["content"].get<std::string>();
  }

  std::string Calculated(const std::string& expression) const {
    return Called("calculator", {{"expression", expression}});
  }

  RunSettings run_;
};

TEST_F(ToolsTest, ToolsAnswerUntilNoneIsCalled) {
  const auto environment =
      *(*EnvironmentFactory::Create(run_))->Make(TaskOf(R"({"prompt": "What is 2+2?"})"), 1);
  EXPECT_EQ(environment->messages()[0]["content"], "What is 2+2?");
  EXPECT_EQ(
      environment->tools().dump(),
      R"([{"type":"function","function":{"name":"calculator","description":)"
      R"("Computes the exact value of an arithmetic expression.","parameters":{"type":"object",)"
      R"("properties":{"expression":{"type":"string","description":)"
      R"("for example (3 + 4) * 2^10 / 7, sqrt(2) or 12!"}},"required":["expression"]}}}])");
  const EnvironmentReply reply = *environment->Reply(
      ReadAnswer(R"(<tool_call>{"name": "calculator", "arguments": {"expression": "2+2"}})"
                 R"(</tool_call><tool_call>{"name": "f", "arguments": {}}</tool_call>)"
                 "<tool_call>2+2</tool_call>",
                 ToolFormat::kHermes),
      kDeadlineMs);
  EXPECT_THAT(reply.tools, ElementsAre("calculator", "f", ""));
  EXPECT_EQ(reply.failed_tools, 2);
  ASSERT_THAT(reply.messages, SizeIs(3));
  EXPECT_EQ(reply.messages[0].dump(), R"({"role":"tool","name":"calculator",)"
                                      R"("tool_call_id":"call00001","content":"4"})");
  EXPECT_EQ(reply.messages[1]["content"], "error: no such tool; the tools are calculator");
  EXPECT_EQ(reply.messages[2]["content"],
            "error: tool call 3 is not JSON; the tools are calculator");
  EXPECT_FALSE(reply.reward);
  const EnvironmentReply last = *environment->Reply({.content = "4"}, kDeadlineMs);
  EXPECT_TRUE(last.ended());
  EXPECT_FALSE(last.reward) << "the verifier decides";
}

TEST_F(ToolsTest, TheCalculatorIsExact) {
  const std::pair<const char*, const char*> known[] = {
      {"(3 + 4) * 2^10 / 7", "1024"},
      {"2**3", "8"},
      {"0.1 + 0.2", "0.3"},
      {"-1/8", "-0.125"},
      {"22/7", "22/7, about 3.14285714285714"},
      {"1,234 * 2", "2468"},
      {"12!", "479001600"},
      {"99999999999999999999 + 1", "100000000000000000000"},
      {"sqrt(2)", "about 1.41421356237310"},
      {"sqrt(16)", "4"},
      {"sin(0)", "about 0"}};
  for (const auto& [expression, value] : known) EXPECT_EQ(Calculated(expression), value);
  for (const char* expression : {"1/0", "2 +", "x + 1", "sqrt(-1)", "9^9^9^9", "", "two plus"})
    EXPECT_THAT(Calculated(expression), StartsWith("failed: error: ")) << expression;
}

TEST_F(ToolsTest, BadArgumentsAreToldToThePolicy) {
  constexpr char kExpected[] =
      "failed: error: calculator takes the argument \"expression\", a text";
  EXPECT_EQ(Called("calculator", ordered_json::object()), kExpected);
  EXPECT_EQ(Called("calculator", {{"expression", 4}}), kExpected);
}

TEST_F(ToolsTest, PythonRunsInTheSandbox) {
  run_.env.tools = {"python"};
  run_.env.max_result_bytes = 64;
  run_.reward.code.wall_ms = 2000;
  const auto ran = [&](const char* code) { return Called("python", {{"code", code}}); };
  EXPECT_EQ(ran("print(sum(range(10)))"), "45\n");
  EXPECT_EQ(ran("x = 1"), "the program printed nothing; print what you want to see");
  EXPECT_THAT(ran("import sys; print('a'); sys.exit('b')"), "failed: a\nb\n");
  EXPECT_THAT(ran("while True: pass"), HasSubstr("it took too long"));
  EXPECT_THAT(ran("import os; os.write(1, b'\\xff')"), "\xEF\xBF\xBD");
  const std::string cut = ran("print('é' * 100)");
  EXPECT_THAT(cut, MatchesRegex("(é)+\n.cut off: 201 bytes in all."));
  EXPECT_LE(cut.size(), 64U);
}

TEST_F(ToolsTest, SearchReturnsTheBestParagraphs) {
  const TempDir folder;
  run_.env.tools = {"search"};
  run_.env.search_file = folder.path() + "/text";
  const std::string text =
      "The cat sat.\n\nA dog and a cat,\nand a bird.\n  \n\nDogs bark.\n\nZÜRICH is a city.\n\n"
      "The dog. The dog!\n\nthe\n\nA dog in Zürich.\n";
  ASSERT_TRUE(WriteFileAtomic(run_.env.search_file, text).ok());
  const auto found = [&](const char* query) { return Called("search", {{"query", query}}); };
  EXPECT_EQ(found("DOG"), "The dog. The dog!\n\nA dog in Zürich.\n\nA dog and a cat,\nand a bird.");
  EXPECT_EQ(found("zürich dog"),
            "A dog in Zürich.\n\nThe dog. The dog!\n\nA dog and a cat,\nand a bird.");
  EXPECT_EQ(found("whale"), "no paragraph has a word of the query");
  EXPECT_EQ(found("?"), "no paragraph has a word of the query");
}

TEST_F(ToolsTest, WhatTheRunLacksIsSaidBeforeItStarts) {
  run_.env.tools = {};
  EXPECT_THAT(ErrorOf(run_), HasSubstr("run.env.tools is empty"));
  run_.env.tools = {"calculator", "abacus"};
  EXPECT_THAT(ErrorOf(run_), HasSubstr("has 'abacus'; expected some of calculator, python"));
  run_.env.tools = {"calculator", "calculator"};
  EXPECT_THAT(ErrorOf(run_), HasSubstr("has 'calculator' twice"));
  run_.env.tools = {"search"};
  EXPECT_THAT(ErrorOf(run_), HasSubstr("run.env.search_file is empty"));
  run_.env.search_file = "/no/such/file";
  EXPECT_THAT(ErrorOf(run_), HasSubstr("run.env.search_file"));
}

}  // namespace
}  // namespace buttress
