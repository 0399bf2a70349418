#include "lib/tokenizer/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/unit/tokenizer/tokenizer_folder.h"

namespace buttress {
namespace {

// Returns the number of tokens up to the one that completes a string, or -1.
std::int64_t EndOf(const Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens,
                   std::vector<std::string> strings, std::int32_t min_tokens = 0) {
  StopMatcher stops(tokenizer, std::move(strings), min_tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (stops.Completes(tokens[i])) return static_cast<std::int64_t>(i) + 1;
  }
  return -1;
}

std::int64_t EndOfBytes(const std::string& text, std::vector<std::string> strings,
                        std::int32_t min_tokens = 0) {
  const ByteTokenizer tokenizer;
  return EndOf(tokenizer, *tokenizer.Encode(text), std::move(strings), min_tokens);
}

TEST(StopMatcherTest, TheLastByteOfAStringCompletesIt) {
  EXPECT_EQ(EndOfBytes("so </answer> it", {"</answer>"}), 12);
  EXPECT_EQ(EndOfBytes("so </answer", {"</answer>"}), -1);
  EXPECT_EQ(EndOfBytes("aaab", {"aab"}), 4);
  EXPECT_EQ(EndOfBytes("abcab abcabd", {"abcabd"}), 12);
  EXPECT_EQ(EndOfBytes("one two three", {"three", "two"}), 7);
  EXPECT_EQ(EndOfBytes("xabcd", {"abcd", "bc"}), 4);
}

TEST(StopMatcherTest, ACharacterMayBeSpreadOverTokens) {
  const std::string text = "naïve é";
  EXPECT_EQ(EndOfBytes(text, {"ï"}), 4);
  EXPECT_EQ(EndOfBytes(text, {" é"}), 9);
  EXPECT_EQ(EndOfBytes("\xc3 \xa9", {"é"}), -1);
}

TEST(StopMatcherTest, TheFirstTokensCompleteNone) {
  EXPECT_EQ(EndOfBytes("a;b;c;", {";"}, 1), 2);
  EXPECT_EQ(EndOfBytes("a;b;c;", {";"}, 2), 4);
  EXPECT_EQ(EndOfBytes("a;b;c;", {";b"}, 3), -1);
  EXPECT_EQ(EndOfBytes("a;b;c;", {";b;"}, 3), 4);  // begins among them
  EXPECT_EQ(EndOfBytes("a;b;c;", {"a;b;c;", ";"}, 2), 4);
}

TEST(StopMatcherTest, WithoutStringsNothingIsFound) {
  StopMatcher stops;
  EXPECT_FALSE(stops.Completes(65));
}

TEST(StopMatcherTest, SpecialTokensAreNoText) {
  const auto tokenizer = LoadFrom(PatchedTokenizer(nlohmann::json::object()).dump());
  ASSERT_TRUE(tokenizer.ok());
  const auto tokens = *(*tokenizer)->Encode("ab<|im_end|>cd");
  EXPECT_EQ(EndOf(**tokenizer, tokens, {"<|im_end|>"}), -1);
  EXPECT_GT(EndOf(**tokenizer, tokens, {"bc"}), 0);
}

// What a matcher finds, found in the whole text.
TEST(StopMatcherTest, AgreesWithASearchOfTheWholeText) {
  const auto tokenizer = LoadFrom(PatchedTokenizer(nlohmann::json::object()).dump());
  ASSERT_TRUE(tokenizer.ok());
  std::mt19937 random(3);
  const auto pick = [&](std::size_t bound) { return static_cast<std::size_t>(random()) % bound; };
  const std::vector<std::string> pieces = {"a", "aa", "the ", "<", "é", "漢", "\n\n", "1", " "};
  int found = 0;
  for (int round = 0; round < 500; ++round) {
    std::string text, stop;
    for (int i = 0; i < 30; ++i) text += pieces[pick(pieces.size())];
    for (std::size_t i = 1 + pick(4); i > 0; --i) stop += pieces[pick(pieces.size())];
    const std::vector<std::int32_t> tokens = *(*tokenizer)->Encode(text);
    std::string bytes;
    std::int64_t expected = -1;
    for (std::size_t i = 0; i < tokens.size() && expected < 0; ++i) {
      bytes += (*tokenizer)->TokenBytes(tokens[i]);
      if (bytes.find(stop) != std::string::npos) expected = static_cast<std::int64_t>(i) + 1;
    }
    EXPECT_EQ(EndOf(**tokenizer, tokens, {stop}), expected) << text << " " << stop;
    found += expected > 0 ? 1 : 0;
  }
  EXPECT_GT(found, 100);
}

}  // namespace
}  // namespace buttress
