// Compares encoding and decoding with Hugging Face's tokenizers
// (tests/golden/make_tokenizer_golden.py), and tests properties that hold for any text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/text/unicode.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::unique_ptr<Tokenizer> LoadGolden(const json& patch = json::object()) {
  Result<std::unique_ptr<Tokenizer>> tokenizer = LoadFrom(PatchedTokenizer(patch).dump());
  BUTTRESS_CHECK(tokenizer.ok(), tokenizer.status().ToString());
  return *std::move(tokenizer);
}

void ExpectEncoding(const Tokenizer& tokenizer, const std::string& text,
                    const std::vector<std::int32_t>& ids) {
  const auto encoded = tokenizer.Encode(text);
  ASSERT_TRUE(encoded.ok()) << encoded.status().ToString() << " for " << json(text);
  EXPECT_EQ(*encoded, ids) << json(text);
}

TEST(TokenizerEncodeTest, EveryVariantEncodesAsHuggingFace) {
  const json golden = ReadGoldenJson("tokenizer/encodings.json");
  ASSERT_GE(golden["variants"].size(), 20U);
  for (const json& variant : golden["variants"]) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    const auto tokenizer = LoadGolden(variant["patch"]);
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      ExpectEncoding(*tokenizer, golden["texts"][i], variant["ids"][i]);
    }
    for (const json& one : variant["more"]) ExpectEncoding(*tokenizer, one[0], one[1]);
  }
}

TEST(TokenizerEncodeTest, EveryVariantDecodesAsHuggingFace) {
  const json golden = ReadGoldenJson("tokenizer/encodings.json");
  for (const json& variant : golden["variants"]) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    const auto tokenizer = LoadGolden(variant["patch"]);
    for (const json& one : variant["decodes"]) {
      const std::vector<std::int32_t> ids = one[0];
      const auto kept = tokenizer->Decode(ids, SpecialTokens::kKeep);
      const auto skipped = tokenizer->Decode(ids, SpecialTokens::kSkip);
      ASSERT_TRUE(kept.ok() && skipped.ok());
      EXPECT_EQ(*kept, one[1].get<std::string>()) << one[0];
      EXPECT_EQ(*skipped, one[2].get<std::string>()) << one[0];
    }
  }
}

std::string RandomText(std::mt19937& random) {
  static constexpr char32_t kEnds[] = {0x80, 0x800, 0x3000, 0xD800, 0x20000, 0x110000};
  std::string text;
  for (int i = static_cast<int>(random() % 60); i > 0; --i) {
    auto c = static_cast<char32_t>(random() % kEnds[random() % std::size(kEnds)]);
    if (c >= 0xD800 && c < 0xE000) c = ' ';
    AppendUtf8(c, text);
  }
  return text;
}

TEST(TokenizerEncodeTest, DecodeOfEncodeIsTheNormalizedText) {
  const auto tokenizer = LoadGolden();
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    const std::string text = RandomText(random);
    const auto ids = tokenizer->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    const auto back = tokenizer->Decode(*ids, SpecialTokens::kKeep);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, NormalizeNfc(text)) << json(text);
  }
}

TEST(TokenizerEncodeTest, LongWordsDoNotTakeQuadraticTime) {
  const auto tokenizer = LoadGolden();
  constexpr std::size_t kBytes = 1 << 20;
  for (const std::string& unit :
       {std::string("a"), std::string("the"), std::string(" "), std::string("\n"), std::string("="),
        std::string("\u0301\u0323"), std::string("一"), std::string("\r \n")}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    const auto ids = tokenizer->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    const auto back = tokenizer->Decode(*ids, SpecialTokens::kKeep);
    ASSERT_TRUE(back.ok());
    EXPECT_TRUE(*back == NormalizeNfc(text)) << json(unit);
  }
}

TEST(TokenizerEncodeTest, TextThatIsNotUtf8IsRefusedWithItsPosition) {
  const auto tokenizer = LoadGolden();
  for (const std::string& bad :
       {std::string("\xff"), std::string("\xc3"), std::string("\xed\xa0\x80"),
        std::string("\xc0\x80"), std::string("\xf4\x90\x80\x80"), std::string("\x80"),
        std::string("\xe2\x82")}) {
    const auto ids = tokenizer->Encode("abc" + bad);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(ids.status().message(), HasSubstr("byte 3 of"));
  }
}

TEST(TokenizerEncodeTest, AVocabularyWithoutACharacterNamesIt) {
  const auto loaded = LoadFrom(ReadGolden("tokenizer/digits.json"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  const Tokenizer& tokenizer = **loaded;
  EXPECT_EQ(tokenizer.vocab_size(), 22);
  ExpectEncoding(tokenizer, "12+3=15\n<eos>", {1, 2, 10, 3, 16, 1, 5, 20, 21});
  const auto ids = tokenizer.Encode("<eos>12 + x");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ids.status().message(), HasSubstr("'x' in"));
}

TEST(TokenizerEncodeTest, DecodeRefusesIdsOutsideTheVocabulary) {
  const auto tokenizer = LoadGolden();
  for (const std::int32_t id : {-1, tokenizer->vocab_size(), 1 << 30}) {
    const std::vector<std::int32_t> ids = {1, id};
    const auto text = tokenizer->Decode(ids, SpecialTokens::kKeep);
    ASSERT_FALSE(text.ok());
    EXPECT_EQ(text.status().code(), StatusCode::kOutOfRange);
    EXPECT_THAT(text.status().message(),
                HasSubstr("token " + std::to_string(id) + " at position 1"));
    const auto skipped = tokenizer->Decode(ids, SpecialTokens::kSkip);
    ASSERT_TRUE(skipped.ok()) << "a padded embedding has rows that are no tokens";
    EXPECT_EQ(*skipped, *tokenizer->Decode(std::vector<std::int32_t>{1}, SpecialTokens::kSkip));
  }
}

TEST(TokenizerEncodeTest, ThreadsGetTheSameIds) {
  const auto tokenizer = LoadGolden();
  const json golden = ReadGoldenJson("tokenizer/encodings.json");
  std::vector<int> wrong(4, 0);
  {
    std::vector<std::jthread> threads;
    for (int& count : wrong) {
      threads.emplace_back([&golden, &tokenizer, &count] {
        for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
          const auto ids = tokenizer->Encode(golden["texts"][i].get_ref<const std::string&>());
          count += !ids.ok() || json(*ids) != golden["variants"][0]["ids"][i];
        }
      });
    }
  }
  EXPECT_THAT(wrong, ::testing::Each(0));
}

}  // namespace
}  // namespace buttress
