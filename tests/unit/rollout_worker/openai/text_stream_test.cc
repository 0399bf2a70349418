#include "rollout_worker/openai/text_stream.h"

#include <gtest/gtest.h>

#include <vector>

#include "lib/base/text/unicode.h"
#include "tests/support/fakes/byte_tokenizer.h"

namespace buttress {
namespace {

// Replaces what is no character, as a tokenizer does.
class Utf8Tokenizer : public ByteTokenizer {
 public:
  Result<std::string> Decode(std::span<const std::int32_t> tokens,
                             SpecialTokens special) const override {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string bytes, ByteTokenizer::Decode(tokens, special));
    return ReplaceInvalidUtf8(bytes);
  }
};

// Drops the space at the beginning of a text, as SentencePiece does.
class StrippingTokenizer : public ByteTokenizer {
 public:
  Result<std::string> Decode(std::span<const std::int32_t> tokens,
                             SpecialTokens special) const override {
    BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ByteTokenizer::Decode(tokens, special));
    return text.starts_with(' ') ? text.substr(1) : text;
  }
};

std::vector<std::string> Pieces(const Tokenizer& tokenizer, std::size_t held,
                                const std::string& text) {
  TextStream stream(tokenizer, held);
  std::vector<std::string> pieces;
  for (const char byte : text) {
    const std::int32_t token = static_cast<unsigned char>(byte);
    pieces.push_back(stream.Add(std::span(&token, 1)));
  }
  pieces.push_back(stream.Finish(text));
  return pieces;
}

TEST(TextStreamTest, CharactersAreWhole) {
  EXPECT_EQ(Pieces(Utf8Tokenizer(), 0, "aé中!"),
            (std::vector<std::string>{"a", "", "é", "", "", "中", "!", ""}));
}

TEST(TextStreamTest, WhatMayBeginAStopStringIsHeldBack) {
  EXPECT_EQ(Pieces(Utf8Tokenizer(), 2, "abcd"), (std::vector<std::string>{"", "", "a", "b", "cd"}));
  EXPECT_EQ(Pieces(Utf8Tokenizer(), 1, "é!"), (std::vector<std::string>{"", "", "é", "!"}));
}

TEST(TextStreamTest, TheFirstTokenOfATextMayLookDifferent) {
  EXPECT_EQ(Pieces(StrippingTokenizer(), 0, "a b"), (std::vector<std::string>{"a", " ", "b", ""}));
}

TEST(TextStreamTest, TheEndOfATextIsWhatItsStopLeaves) {
  const Utf8Tokenizer tokenizer;
  TextStream stream(tokenizer, 0);
  const std::vector<std::int32_t> tokens = {'a', 'b'};
  EXPECT_EQ(stream.Add(tokens), "ab");
  EXPECT_EQ(stream.Finish("abcd"), "cd");
  EXPECT_EQ(stream.Finish("ab"), "");
  EXPECT_EQ(stream.Finish("a"), "");  // what was shown stays shown
}

}  // namespace
}  // namespace buttress
