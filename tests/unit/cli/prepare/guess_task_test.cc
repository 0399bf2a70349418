#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/prepare/new_model.h"
#include "cli/prepare/task.h"
#include "lib/base/os/file.h"
#include "lib/chat/guess.h"
#include "lib/chat/turns.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> RowsIn(const std::string& path) {
  std::istringstream lines(*ReadFile(path));
  std::vector<ordered_json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(ordered_json::parse(line));
  return rows;
}

TEST(GuessTask, RowsAreTheNumbersAndGamesOfRandomGuesses) {
  const TempDir folder;
  ASSERT_TRUE(WriteGuessTask({.max = 16, .turns = 5, .sft = 2000, .seed = 1}, folder.path()).ok());
  const std::vector<ordered_json> train = RowsIn(folder.path() + "/train.jsonl");
  ASSERT_EQ(train.size(), 16U);
  EXPECT_EQ(train[6].dump(), R"({"id":"guess-7","prompt":[{"role":"user","content":"1-16"}],)"
                             R"("answer":"7","number":7,"source":"guess"})");
  const std::vector<ordered_json> games = RowsIn(folder.path() + "/sft.jsonl");
  ASSERT_EQ(games.size(), 2000U);
  int won = 0;
  for (const ordered_json& game : games) {
    const ordered_json& messages = game["messages"];
    ASSERT_EQ(messages[0]["content"], "1-16");
    ASSERT_LE(messages.size(), 10U);
    // There is a number to which all that is said fits.
    std::vector<std::int64_t> fitting(16);
    for (std::int64_t number = 1; number <= 16; ++number) {
      std::int64_t& fits = fitting[static_cast<std::size_t>(number - 1)] = 1;
      for (std::size_t i = 1; i + 1 < messages.size(); i += 2) {
        const std::int64_t guess = std::stoll(messages[i]["content"].get<std::string>());
        ASSERT_TRUE(guess >= 1 && guess <= 16);
        if (messages[i + 1]["content"] != GuessHint(guess, number)) fits = 0;
      }
    }
    ASSERT_EQ(messages.back()["role"], "assistant");
    EXPECT_THAT(fitting, ::testing::Contains(1)) << game;
    won += messages.size() < 10 ? 1 : 0;
  }
  EXPECT_NEAR(won, 2000 * 0.228, 120) << "1 - (15/16)^4 of all end before the fifth guess";
}

TEST(GuessTask, ConversationsOfANewModelGrowAtTheirEnd) {
  const TempDir folder;
  NewModelOptions options;
  options.characters = "0123456789-highlowernot a number";
  options.chat = true;
  ASSERT_TRUE(WriteNewModel(options, folder.path()).ok());
  const auto tokenizer = *Tokenizer::Load(folder.path());
  const TextEncoder encoder = *TextEncoder::Create(*tokenizer);
  const Result<TurnEncoder> turns = TurnEncoder::Create(encoder, false);
  ASSERT_TRUE(turns.ok()) << turns.status().ToString();
  const auto said = [](const std::string& text) {
    return ordered_json::array({ordered_json{{"role", "user"}, {"content", text}}});
  };
  const auto next =
      turns->Next(said("1-16"), said("higher"), nullptr, tokenizer->AddedTokenId(kEndToken));
  EXPECT_EQ(*tokenizer->Decode(*next, SpecialTokens::kKeep),
            "\n<|im_start|>user\nhigher<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(next->size(), 26U) << "a character each";
}

}  // namespace
}  // namespace buttress
