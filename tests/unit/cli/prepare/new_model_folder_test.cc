#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/prepare/new_model.h"
#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json Read(const TempDir& dir, const std::string& name) {
  const Result<std::string> text = ReadFile(JoinPath(dir.path(), name));
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  return json::parse(*text);
}

TEST(NewModel, WritesAConsistentFolder) {
  const TempDir dir;
  ASSERT_TRUE(WriteNewModel({.characters = "0123456789+-:>"}, dir.path()).ok());
  const json config = Read(dir, "config.json");
  EXPECT_EQ(config["architectures"], json({"Qwen2ForCausalLM"}));
  EXPECT_EQ(config["vocab_size"], 16);
  EXPECT_EQ(config["num_key_value_heads"], config["num_attention_heads"]);
  const json tokenizer = Read(dir, "tokenizer.json");
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), 14U);
  EXPECT_EQ(tokenizer["model"]["vocab"][">"], 13);
  EXPECT_EQ(tokenizer["added_tokens"][0]["content"],
            Read(dir, "tokenizer_config.json")["pad_token"]);
  EXPECT_EQ(tokenizer["added_tokens"][1]["content"],
            Read(dir, "tokenizer_config.json")["eos_token"]);
  for (const char* file : {"config.json", "generation_config.json"}) {
    EXPECT_EQ(tokenizer["added_tokens"][0]["id"], Read(dir, file)["pad_token_id"]) << file;
    EXPECT_EQ(tokenizer["added_tokens"][1]["id"], Read(dir, file)["eos_token_id"]) << file;
  }
}

// Only config.json differs between families; the heads have one size in all of them.
TEST(NewModel, WritesTheConfigOfEachFamily) {
  const std::pair<NewModelFamily, const char*> families[] = {
      {NewModelFamily::kQwen2, "Qwen2ForCausalLM"},
      {NewModelFamily::kQwen3, "Qwen3ForCausalLM"},
      {NewModelFamily::kLlama, "LlamaForCausalLM"}};
  for (const auto& [family, architecture] : families) {
    const TempDir dir;
    ASSERT_TRUE(WriteNewModel({.family = family, .characters = "ab"}, dir.path()).ok());
    const json config = Read(dir, "config.json");
    EXPECT_EQ(config["architectures"], json({architecture}));
    EXPECT_EQ(config["model_type"], ChoiceName(family));
    EXPECT_EQ(config.value("head_dim", 32), 32);
  }
}

// Expected names from GPT-2's bytes_to_unicode.
TEST(NewModel, BytesUseTheByteLevelAlphabet) {
  const TempDir dir;
  ASSERT_TRUE(WriteNewModel({.characters = " \nAé\x7f"
                                           "A"},
                            dir.path())
                  .ok());
  EXPECT_EQ(Read(dir, "tokenizer.json")["model"]["vocab"],
            json({{"Ġ", 0}, {"Ċ", 1}, {"A", 2}, {"Ã", 3}, {"©", 4}, {"ġ", 5}}));
}

TEST(NewModel, RefusesInconsistentOptions) {
  const TempDir dir;
  const auto error = [&](NewModelOptions options) {
    return WriteNewModel(options, dir.path()).message();
  };
  EXPECT_THAT(error({.characters = ""}), HasSubstr("--characters is empty"));
  EXPECT_THAT(error({.characters = "a", .hidden = 100}), HasSubstr("use a multiple of 6"));
  EXPECT_THAT(error({.characters = "a", .heads = 3, .kv_heads = 2}), HasSubstr("does not divide"));
  EXPECT_THAT(error({.characters = "a", .layers = 0}), HasSubstr("--layers = 0"));
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    const std::string path = JoinPath(dir.path(), name);
    ASSERT_TRUE(WriteFileAtomic(path, "x").ok());
    EXPECT_EQ(WriteNewModel({.characters = "a"}, dir.path()).code(), StatusCode::kAlreadyExists);
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace buttress
