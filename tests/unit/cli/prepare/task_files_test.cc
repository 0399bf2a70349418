#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/prepare/task.h"
#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::unique_ptr<Task> Quickstart(std::int64_t numbers = 4) {
  CountdownOptions options;
  options.kinds = {{.share = 1, .numbers = numbers, .operators = "+-"}};
  options.use = NumberUse::kExactlyOnce;
  return *MakeCountdownTask(options);
}

TaskFileOptions Small(std::uint64_t seed) {
  TaskFileOptions options;
  options.train = 3000;
  options.held_out = 300;
  options.sft = 3000;
  options.seed = seed;
  return options;
}

std::vector<json> Rows(const std::string& folder, const std::string& name) {
  const Result<std::string> text = ReadFile(JoinPath(folder, name));
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  std::istringstream lines(*text);
  std::vector<json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
  return rows;
}

// Returns (sorted digits, target), parsed from the prompt.
std::string CanonicalOfPrompt(const json& row) {
  auto prompt = row["prompt"].get<std::string>();
  std::sort(prompt.begin(), prompt.begin() + 4);
  return prompt;
}

TEST(TaskFiles, HeldOutProblemsAppearNowhereElseForAnySeed) {
  const TempDir dir;
  std::set<std::string> held_out;
  std::set<std::string> seen;
  for (const std::uint64_t seed : {1U, 2U}) {
    ASSERT_TRUE(WriteTask(*Quickstart(), Small(seed), dir.path()).ok());
    for (const json& row : Rows(dir.path(), "held_out.jsonl"))
      held_out.insert(CanonicalOfPrompt(row));
    for (const char* file : {"train.jsonl", "sft.jsonl"}) {
      for (const json& row : Rows(dir.path(), file)) seen.insert(CanonicalOfPrompt(row));
    }
  }
  EXPECT_GT(held_out.size(), 100U);
  EXPECT_GT(seen.size(), 1000U);
  for (const std::string& form : held_out) EXPECT_FALSE(seen.contains(form)) << form;
}

TEST(TaskFiles, ATenthOfTheProblemsIsHeldOut) {
  std::set<std::string> forms;
  RandomStream random({.seed = 9, .stream = 0});
  const auto task = Quickstart();
  while (forms.size() < 2000) forms.insert(task->Draw(random)->canonical);
  const auto held_out = std::count_if(forms.begin(), forms.end(),
                                      [](const std::string& form) { return IsHeldOut(form, 0.1); });
  EXPECT_NEAR(static_cast<double>(held_out), 200, 68);  // five standard deviations
}

TEST(TaskFiles, OnlyEqualSeedsGiveEqualBytes) {
  const TempDir first;
  const TempDir second;
  const TempDir third;
  ASSERT_TRUE(WriteTask(*Quickstart(), Small(1), first.path()).ok());
  ASSERT_TRUE(WriteTask(*Quickstart(), Small(1), second.path()).ok());
  ASSERT_TRUE(WriteTask(*Quickstart(), Small(2), third.path()).ok());
  for (const char* file : {"train.jsonl", "held_out.jsonl", "sft.jsonl"}) {
    const std::string bytes = *ReadFile(JoinPath(first.path(), file));
    EXPECT_EQ(bytes, *ReadFile(JoinPath(second.path(), file))) << file;
    EXPECT_NE(bytes, *ReadFile(JoinPath(third.path(), file))) << file;
  }
}

TEST(TaskFiles, RowsHaveTheFieldsOfATrainingFile) {
  const TempDir dir;
  ASSERT_TRUE(WriteTask(*Quickstart(), Small(1), dir.path()).ok());
  for (const char* file : {"train.jsonl", "held_out.jsonl"}) {
    std::set<std::string> ids;
    std::set<std::string> prompts;
    for (const json& row : Rows(dir.path(), file)) {
      ids.insert(row["id"].get<std::string>());
      prompts.insert(row["prompt"].get<std::string>());
      EXPECT_TRUE(row["answer"].is_string());
      EXPECT_EQ(row["source"], "countdown");
    }
    const bool held_out = std::string_view(file) == "held_out.jsonl";
    EXPECT_EQ(ids.size(), held_out ? 300U : 3000U);
    if (held_out) {
      EXPECT_EQ(prompts.size(), 300U);
    }
  }
}

TEST(TaskFiles, TheSftFileHoldsSolutionsAndGuesses) {
  const TempDir dir;
  TaskFileOptions options = Small(1);
  const auto right = [&](double solution_share) {
    options.solution_share = solution_share;
    EXPECT_TRUE(WriteTask(*Quickstart(), options, dir.path()).ok());
    int count = 0;
    for (const json& row : Rows(dir.path(), "sft.jsonl")) {
      const auto prompt = row["prompt"].get<std::string>();
      const Result<Expression> expression = EvaluateExpression(row["response"].get<std::string>());
      EXPECT_TRUE(expression.ok());
      if (expression->value == std::stol(prompt.substr(5, 3))) ++count;
    }
    return count;
  };
  EXPECT_EQ(right(1), 3000);
  EXPECT_LT(right(0), 600);
  EXPECT_NEAR(right(0.5), 0.5 * 3000 + right(0) / 2.0, 140);
}

TEST(TaskFiles, TooFewProblemsAreAnError) {
  const TempDir dir;
  TaskFileOptions options;
  options.held_out = 1000;
  EXPECT_THAT(WriteTask(*Quickstart(2), options, dir.path()).message(),
              HasSubstr("--held-out = 1000, but only"));
  options = {};
  options.train = 1;
  options.held_out_share = 1;
  EXPECT_THAT(WriteTask(*Quickstart(), options, dir.path()).message(),
              HasSubstr("only held-out problems"));
  options = {};
  options.held_out = 1;
  options.held_out_share = 0;
  EXPECT_THAT(WriteTask(*Quickstart(), options, dir.path()).message(),
              HasSubstr("no held-out problems"));
}

}  // namespace
}  // namespace buttress
