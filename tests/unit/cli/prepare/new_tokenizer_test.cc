#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "lib/data/text_encoder.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class NewTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<std::string> text = ReadFile(BUTTRESS_GOLDEN "/bpe_training.json");
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    golden_ = json::parse(*text);
    std::string rows;
    for (const json& row : golden_["rows"]) rows += row.dump() + "\n";
    ASSERT_TRUE(WriteFileAtomic(path_, rows).ok());
  }

  const TempDir dir_;
  const std::string path_ = JoinPath(dir_.path(), "rows.jsonl");
  json golden_;
};

TEST_F(NewTokenizerTest, LearnsTheMergesOfHuggingFaceTokenizers) {
  const auto made =
      TrainTokenizer(path_, golden_["tokens"].get<std::int64_t>() + 3);  // special tokens
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const json model = made->json["model"];
  EXPECT_EQ(model["merges"], golden_["merges"]);
  ASSERT_EQ(model["vocab"].size(), golden_["vocab"].size());
  for (std::size_t id = 0; id < golden_["vocab"].size(); ++id) {
    EXPECT_EQ(model["vocab"][golden_["vocab"][id].get<std::string>()], id);
  }
}

TEST_F(NewTokenizerTest, TheWrittenFolderEncodesAndDecodesItsTrainingText) {
  const std::string folder = JoinPath(dir_.path(), "model");
  const Status written = WriteNewModel({.text = path_, .tokens = 423, .vocab = 512}, folder);
  ASSERT_TRUE(written.ok()) << written.ToString();
  const auto tokenizer = Tokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const std::string text = golden_["rows"][0]["answer"];
  const auto tokens = (*tokenizer)->Encode(text);
  ASSERT_TRUE(tokens.ok());
  EXPECT_LT(tokens->size(), text.size());
  EXPECT_EQ(*(*tokenizer)->Decode(*tokens, SpecialTokens::kKeep), text);
  EXPECT_EQ((*tokenizer)->Encode("<|im_end|>")->front(), (*tokenizer)->eos_token_id());
  EXPECT_THAT((*tokenizer)->chat_template(), HasSubstr("<|im_start|>"));
}

TEST_F(NewTokenizerTest, ChatMlOfCharactersRendersEncodesAndEndsACompletion) {
  const std::string folder = JoinPath(dir_.path(), "model");
  ASSERT_TRUE(WriteNewModel({.characters = "0123 .", .chat = true}, folder).ok());
  const auto tokenizer = Tokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const auto encoder = TextEncoder::Create(**tokenizer);
  ASSERT_TRUE(encoder.ok()) << encoder.status().ToString();
  const nlohmann::ordered_json messages = {{{"role", "system"}, {"content", "0 1."}},
                                           {{"role", "user"}, {"content", "23"}},
                                           {{"role", "assistant"}, {"content", "3"}},
                                           {{"role", "user"}, {"content", "1"}}};
  const auto tokens = encoder->EncodeMessages(messages, /*add_generation_prompt=*/true);
  ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
  EXPECT_EQ(*(*tokenizer)->Decode(*tokens, SpecialTokens::kKeep),
            "<|im_start|>system\n0 1.<|im_end|>\n<|im_start|>user\n23<|im_end|>\n"
            "<|im_start|>assistant\n3<|im_end|>\n<|im_start|>user\n1<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(tokens->front(), (*tokenizer)->TokenId("<|im_start|>"));
  EXPECT_EQ((*tokenizer)->eos_token_id(), (*tokenizer)->TokenId("<|im_end|>"));
}

TEST_F(NewTokenizerTest, RefusesUnusableText) {
  EXPECT_THAT(TrainTokenizer(path_, 100).status().message(), HasSubstr("at least 259"));
  EXPECT_THAT(TrainTokenizer(path_ + "x", 300).status().message(), HasSubstr("cannot open"));
  ASSERT_TRUE(WriteFileAtomic(path_, "{\"question\": \"a\"}\n{broken\n").ok());
  EXPECT_THAT(TrainTokenizer(path_, 300).status().message(), HasSubstr("line 2: not JSON"));
  EXPECT_THAT(WriteNewModel({.text = path_, .tokens = 300, .vocab = 259}, dir_.path()).message(),
              HasSubstr("line 2"));
}

}  // namespace
}  // namespace buttress
