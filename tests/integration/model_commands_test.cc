// The commands that show what a model folder computes, as real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/process.h"
#include "lib/base/os/file.h"
#include "tests/support/runs/quickstart_run.h"
#include "tests/support/temp_dir.h"

namespace buttress::model_commands_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr std::int64_t kCommandMs = 60000;

class ModelCommandsTest : public ::testing::Test {
 protected:
  // Runs `buttress COMMAND --model MODEL FILE` on rows and returns the printed objects, in order.
  std::vector<json> Run(const std::string& command, const std::string& model,
                        const std::vector<json>& rows, std::vector<std::string> more = {}) {
    std::string text;
    for (const json& row : rows) text += row.dump() + "\n";
    more.emplace_back("--json");
    EXPECT_EQ(ExitCodeOf(command, model, text, more), 0) << TextOf(log_);
    std::vector<json> printed;
    std::istringstream lines(TextOf(log_));
    for (std::string line; std::getline(lines, line);) printed.push_back(json::parse(line));
    return printed;
  }

  int ExitCodeOf(const std::string& command, const std::string& model, const std::string& text,
                 const std::vector<std::string>& more = {}) {
    const std::string file = JoinPath(dir_.path(), "rows.jsonl");
    EXPECT_TRUE(WriteFileAtomic(file, text).ok());
    log_ = JoinPath(dir_.path(), "log" + std::to_string(++runs_));
    std::vector<std::string> argv = {SiblingProgram("buttress"), command, "--model", model, file};
    argv.insert(argv.end(), more.begin(), more.end());
    return RunToEnd(argv, log_, kCommandMs);
  }

  static std::string Golden(const std::string& name) { return JoinPath(BUTTRESS_GOLDEN, name); }

  TempDir dir_;
  std::string log_;
  int runs_ = 0;
};

TEST_F(ModelCommandsTest, LogprobsEqualThoseOfTransformersInTheOrderOfTheFile) {
  const json golden = json::parse(TextOf(Golden("policy/policy_logits.json")));
  std::vector<json> rows;
  for (const json& row : golden["qwen2_tiny"]["sequences"]) {
    rows.push_back({{"id", "row" + std::to_string(rows.size())}, {"token_ids", row["tokens"]}});
  }
  const auto printed = Run("logprobs", Golden("policy/qwen2_tiny"), rows,
                           {"--temperature", golden["temperature"].dump(), "--batch-tokens", "60"});
  ASSERT_EQ(printed.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(printed[i]["id"], rows[i]["id"]);
    const json& expected = golden["qwen2_tiny"]["sequences"][i]["logprobs"];
    ASSERT_EQ(printed[i]["logprobs"].size(), expected.size());
    for (std::size_t t = 0; t < expected.size(); ++t) {
      EXPECT_NEAR(printed[i]["logprobs"][t].get<double>(), expected[t].get<double>(), 1e-4);
    }
  }
}

TEST_F(ModelCommandsTest, GenerateBeginsWithTheMostProbableTokenAndStops) {
  const json golden = json::parse(TextOf(Golden("policy/policy_logits.json")));
  std::vector<json> rows;
  std::vector<std::int64_t> best;
  for (const json& row : golden["qwen2_tiny"]["sequences"]) {
    const auto logits = row["last_logits"].get<std::vector<double>>();
    best.push_back(std::max_element(logits.begin(), logits.end()) - logits.begin());
    rows.push_back({{"id", rows.size()}, {"token_ids", row["tokens"]}, {"max_tokens", 4}});
  }
  rows[0]["stop_token_ids"] = {best[0]};
  const auto printed = Run("generate", Golden("policy/qwen2_tiny"), rows);
  ASSERT_EQ(printed.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(printed[i]["id"], i);
    EXPECT_EQ(printed[i]["token_ids"][0], best[i]);
    EXPECT_EQ(printed[i]["token_ids"].size(), printed[i]["logprobs"].size());
  }
  EXPECT_EQ(printed[0]["stop_reason"], "stop");
  EXPECT_EQ(printed[0]["token_ids"].size(), 1U);
  EXPECT_EQ(printed[1]["stop_reason"], "length");
  EXPECT_EQ(printed[1]["token_ids"].size(), 4U);
}

TEST_F(ModelCommandsTest, GenerateEndsAtStopStringsOfARow) {
  // The first tokens of this tokenizer are single characters, from '!' on.
  const std::string model = JoinPath(dir_.path(), "model");
  std::filesystem::copy(Golden("policy/qwen2_tiny"), model);
  std::filesystem::copy(Golden("tokenizer/tokenizer.json"), JoinPath(model, "tokenizer.json"));
  json row = {{"id", 0}, {"token_ids", {5, 6}}, {"max_tokens", 40}, {"stop", "no such text"}};
  const auto tokens = Run("generate", model, {row})[0]["token_ids"].get<std::vector<int>>();
  ASSERT_EQ(tokens.size(), 40U);
  const auto is_character = [](int token) { return token < 94; };
  std::size_t at = 1;
  while (at + 1 < tokens.size() && !(is_character(tokens[at]) && is_character(tokens[at + 1])))
    ++at;
  ASSERT_LT(at + 1, tokens.size());
  const std::vector<int> wanted = {tokens[at], tokens[at + 1]};
  const auto found = std::search(tokens.begin(), tokens.end(), wanted.begin(), wanted.end());
  const std::string stop = {static_cast<char>('!' + wanted[0]), static_cast<char>('!' + wanted[1])};

  row["stop"] = {"no such text", stop};
  json with_stop = row;
  with_stop["include_stop"] = true;
  json later = row;
  later["min_tokens"] = found - tokens.begin() + 2;
  const auto printed = Run("generate", model, {row, with_stop, later});
  EXPECT_EQ(printed[0]["token_ids"], json(std::vector<int>(tokens.begin(), found + 2)));
  EXPECT_EQ(printed[0]["stop_reason"], "stop");
  EXPECT_EQ(printed[1]["token_ids"], printed[0]["token_ids"]);
  EXPECT_EQ(printed[1]["text"].get<std::string>(), printed[0]["text"].get<std::string>() + stop);
  EXPECT_GT(printed[2]["token_ids"].size(), printed[0]["token_ids"].size());
}

TEST_F(ModelCommandsTest, TokenizeAndDetokenizeInvertEachOther) {
  const std::string model = Golden("tokenizer");
  const std::vector<json> rows = {{{"id", 1}, {"text", "Hello, 12 <|im_end|>"}},
                                  {{"id", 2}, {"text", "naïve 漢字"}}};
  const auto tokens = Run("tokenize", model, rows);
  const auto texts = Run("detokenize", model, tokens);
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0], rows[0]);
  EXPECT_EQ(texts[1], rows[1]);
  const auto skipped = Run("detokenize", model, tokens, {"--skip-special-tokens"});
  EXPECT_EQ(skipped[0]["text"], "Hello, 12 ");
}

TEST_F(ModelCommandsTest, TheChatTemplateReadsTheToolsOfARowAndTheArguments) {
  const std::string model = JoinPath(dir_.path(), "model");
  std::filesystem::copy(Golden("policy/qwen2_tiny"), model);
  std::filesystem::copy(Golden("tokenizer/tokenizer.json"), JoinPath(model, "tokenizer.json"));
  ASSERT_TRUE(WriteFileAtomic(JoinPath(model, "chat_template.jinja"),
                              "{{ tools | length }}{{ level }}{{ messages[0].content }}")
                  .ok());
  const json row = {{"messages", {{{"role", "user"}, {"content", "7"}}}},
                    {"tools", {{{"name", "f"}}, {{"name", "g"}}}}};
  const std::vector<std::string> level = {"--template-argument", "level=5"};
  const auto tokens = Run("tokenize", model, {row}, level);
  EXPECT_EQ(Run("detokenize", model, tokens)[0]["text"], "257");
  const std::vector<std::string> few = {"--max-tokens", "20"};
  const auto from_tokens = Run("generate", model, tokens, few);
  const auto from_messages = Run("generate", model, {row}, {level[0], level[1], few[0], few[1]});
  EXPECT_EQ(from_messages[0]["token_ids"], from_tokens[0]["token_ids"]);
  EXPECT_EQ(from_messages[0]["logprobs"], from_tokens[0]["logprobs"]);
  for (const char* command : {"tokenize", "generate"}) {
    EXPECT_EQ(ExitCodeOf(command, model, row.dump() + "\n", {"--template-argument", "level"}), 2);
    EXPECT_THAT(TextOf(log_), HasSubstr("--template-argument level: expected NAME=VALUE"));
  }
}

TEST_F(ModelCommandsTest, AnEvaluationThatIsKilledContinuesAndIsComparedWithAnother) {
  const std::string model = JoinPath(dir_.path(), "model"), log = JoinPath(dir_.path(), "log");
  std::filesystem::copy(Golden("policy/qwen2_tiny"), model);
  std::filesystem::copy(Golden("tokenizer/tokenizer.json"), JoinPath(model, "tokenizer.json"));
  const std::string prompts = JoinPath(dir_.path(), "prompts.jsonl");
  constexpr std::int64_t kPrompts = 60;
  std::string text;
  for (std::int64_t i = 0; i < kPrompts; ++i)
    text += json{{"prompt", std::to_string(i)}, {"answer", "0"}}.dump() + "\n";
  ASSERT_TRUE(WriteFileAtomic(prompts, text).ok());
  const auto eval = [&](const std::string& results, const std::string& seed) {
    return std::vector<std::string>{SiblingProgram("buttress"),
                                    "eval",
                                    "--model",
                                    model,
                                    "--prompts",
                                    prompts,
                                    "--verifier",
                                    "number",
                                    "--results",
                                    JoinPath(dir_.path(), results),
                                    "--completions",
                                    "16",
                                    "--temperature",
                                    "1",
                                    "--max-tokens",
                                    "64",
                                    "--seed",
                                    seed};
  };
  const std::string killed = JoinPath(dir_.path(), "killed"),
                    other = JoinPath(dir_.path(), "other");
  const auto lines = [&] {
    const auto found = ReadFile(killed);
    return found.ok() ? std::ranges::count(*found, '\n') : 0;
  };
  auto process = Process::Start(eval("killed", "1"), log);
  ASSERT_TRUE(process.ok()) << process.status().message();
  ASSERT_TRUE(WaitUntil(kCommandMs, [&] { return lines() > 3 || !process->Running(); }));
  process->Signal(SIGKILL);
  ASSERT_TRUE(WaitUntil(kCommandMs, [&] { return !process->Running(); }));
  EXPECT_EQ(process->exit_code(), 128 + SIGKILL) << TextOf(log);
  const std::string before = TextOf(killed);
  ASSERT_EQ(RunToEnd(eval("killed", "1"), log, kCommandMs), 0) << TextOf(log);
  EXPECT_TRUE(TextOf(killed).starts_with(before.substr(0, before.rfind('\n') + 1)));
  EXPECT_EQ(lines(), 1 + kPrompts);

  ASSERT_EQ(RunToEnd(eval("other", "2"), log, kCommandMs), 0) << TextOf(log);
  const std::string page = JoinPath(dir_.path(), "page"), found = JoinPath(dir_.path(), "found");
  const std::string compared = JoinPath(dir_.path(), "compared");
  ASSERT_EQ(RunToEnd({SiblingProgram("buttress"), "compare", killed, other, "--out", page, "--json",
                      found},
                     compared, kCommandMs),
            0)
      << TextOf(compared);
  EXPECT_THAT(TextOf(compared), HasSubstr("seed: 1 | 2"));
  EXPECT_THAT(TextOf(page), HasSubstr("pass@16"));
  EXPECT_EQ(json::parse(TextOf(found))["prompts"], kPrompts);

  ASSERT_TRUE(WriteFileAtomic(prompts, text + text).ok());
  EXPECT_EQ(RunToEnd(eval("killed", "1"), log, kCommandMs), 2);
  EXPECT_THAT(TextOf(log), HasSubstr("has results of other settings: prompts_sha256 is "));
}

TEST_F(ModelCommandsTest, ABadLineIsAnErrorWithFileAndLineAndPrintsNothingElse) {
  const std::string rows =
      "{\"id\": 1, \"token_ids\": [1, 2]}\n{\"id\": 2, \"token_ids\": [999]}\n";
  for (const char* command : {"logprobs", "generate"}) {
    EXPECT_EQ(ExitCodeOf(command, Golden("policy/qwen2_tiny"), rows), 2);
    EXPECT_THAT(TextOf(log_), HasSubstr("line 2: token_ids[0] = 999")) << command;
    EXPECT_THAT(TextOf(log_), HasSubstr("from 0 to 127")) << command;
  }
  EXPECT_EQ(ExitCodeOf("tokenize", Golden("tokenizer"), "{\"text\": 5}\n"), 2);
  EXPECT_THAT(TextOf(log_), HasSubstr("line 1: 'text'"));
}

}  // namespace
}  // namespace buttress::model_commands_test
