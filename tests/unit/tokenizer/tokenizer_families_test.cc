// Compares tokenizers of each kind with Hugging Face's tokenizers
// (tests/golden/make_tokenizer_families.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.h"
#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json FamilyFile(const json& golden, const json& family) {
  json tokenizer = family["tokenizer"];
  tokenizer["model"].update(golden["vocabularies"][family["vocabulary"].get<std::size_t>()]);
  return tokenizer;
}

class TokenizerFamiliesTest : public ::testing::Test {
 protected:
  const json golden_ = ReadGoldenJson("tokenizer/families.json");

  json File(const std::string& name) const {
    for (const json& family : golden_["families"]) {
      if (family["name"] == name) return FamilyFile(golden_, family);
    }
    ADD_FAILURE() << "no family " << name;
    return {};
  }
};

TEST_F(TokenizerFamiliesTest, EveryFamilyEncodesAndDecodesAsHuggingFace) {
  ASSERT_GE(golden_["families"].size(), 10U);
  for (const json& family : golden_["families"]) {
    SCOPED_TRACE(family["name"].get<std::string>());
    const auto tokenizer = LoadFrom(FamilyFile(golden_, family).dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    for (std::size_t i = 0; i < golden_["texts"].size(); ++i) {
      const auto ids = (*tokenizer)->Encode(golden_["texts"][i].get<std::string>());
      ASSERT_TRUE(ids.ok()) << ids.status().ToString();
      EXPECT_EQ(json(*ids), family["ids"][i]) << golden_["texts"][i];
    }
    for (const json& one : family["decodes"]) {
      const std::vector<std::int32_t> ids = one[0];
      EXPECT_EQ(*(*tokenizer)->Decode(ids, SpecialTokens::kKeep), one[1].get<std::string>()) << one;
      EXPECT_EQ(*(*tokenizer)->Decode(ids, SpecialTokens::kSkip), one[2].get<std::string>()) << one;
    }
    EXPECT_EQ(json((*tokenizer)->AddSpecialTokens(*(*tokenizer)->Encode("hi"))), family["framed"]);
  }
}

TEST_F(TokenizerFamiliesTest, TheBytesOfTokensAreTheTextBehindAnotherToken) {
  for (const json& family : golden_["families"]) {
    SCOPED_TRACE(family["name"].get<std::string>());
    const auto tokenizer = LoadFrom(FamilyFile(golden_, family).dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    const std::vector<std::int32_t> first = *(*tokenizer)->Encode("x");
    const std::string before = *(*tokenizer)->Decode(first, SpecialTokens::kSkip);
    for (const json& row : family["ids"]) {
      const std::vector<std::int32_t> ids = row;
      std::vector<std::int32_t> all = first;
      all.insert(all.end(), ids.begin(), ids.end());
      std::string bytes = before;
      for (const std::int32_t id : ids) bytes += (*tokenizer)->TokenBytes(id);
      EXPECT_EQ(bytes, *(*tokenizer)->Decode(all, SpecialTokens::kSkip)) << row;
    }
  }
}

TEST_F(TokenizerFamiliesTest, TheConfigMayTurnBosOffAndEosOn) {
  const auto frame = [&](const std::string& config) {
    const auto tokenizer = LoadFrom(File("llama2").dump(), config);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    return (*tokenizer)->AddSpecialTokens({77});
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(frame(R"({"bos_token": "<s>", "eos_token": "</s>"})"), (Ids{1, 77}));
  EXPECT_EQ(frame(R"({"bos_token": "<s>", "add_bos_token": false})"), (Ids{77}));
  EXPECT_EQ(frame(R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true,
                      "add_eos_token": true})"),
            (Ids{1, 77, 2}));
}

TEST_F(TokenizerFamiliesTest, PaddingAndTruncationAreNotApplied) {
  json file = File("llama2");
  const auto plain = LoadFrom(file.dump());
  file["truncation"] = {{"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  file["padding"] = {{"strategy", {{"Fixed", 64}}}, {"pad_id", 0}};
  const auto cut = LoadFrom(file.dump());
  ASSERT_TRUE(cut.ok()) << cut.status().ToString();
  EXPECT_EQ(*(*cut)->Encode("Hello world"), *(*plain)->Encode("Hello world"));
}

TEST_F(TokenizerFamiliesTest, WhatIsNotSupportedIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"normalizer": {"type": "Precompiled", "normalizers": null}})", "type = 'Precompiled'"},
      {R"({"decoder": {"type": "WordPiece", "decoders": null}})", "decoder.type = 'WordPiece'"},
      {R"({"pre_tokenizer": {"type": "BertPreTokenizer"}})",
       "pre_tokenizer.type = 'BertPreTokenizer'"},
      {R"({"pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "last"}})",
       "pre_tokenizer.prepend_scheme = 'last'"},
      {R"({"model": {"unk_token": "<none>"}})", "model.unk_token = '<none>'"},
      {R"({"post_processor": {"single": [{"Sequence": {"id": "A"}}, {"Sequence": {"id": "A"}}]}})",
       "has the text 2 times"},
      {R"({"post_processor": {"special_tokens": {"<s>": null}}})", "gives '<s>' no ids"},
  };
  for (const auto& [patch, message] : cases) {
    json file = File("llama2");
    file.merge_patch(json::parse(patch));
    const auto tokenizer = LoadFrom(file.dump());
    ASSERT_FALSE(tokenizer.ok()) << patch;
    EXPECT_THAT(tokenizer.status().message(), HasSubstr(message)) << patch;
  }
}

}  // namespace
}  // namespace buttress
