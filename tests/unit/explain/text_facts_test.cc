#include <gtest/gtest.h>

#include <string>

#include "lib/explain/facts.h"

namespace buttress {
namespace {

// Returns `count` distinct words.
std::string Words(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "w" + std::to_string(first + i) + " ";
  return text;
}

TEST(TextFactsTest, OnlyEqualTextsHaveEqualDigests) {
  EXPECT_EQ(FactsOfText("a b c").digest, FactsOfText("a b c").digest);
  EXPECT_NE(FactsOfText("a b c").digest, FactsOfText("a b  c").digest);
  EXPECT_TRUE(FactsOfText("").known());
}

TEST(TextFactsTest, WordsNumbersAndOtherCharactersCountOneEach) {
  EXPECT_EQ(FactsOfText("two words").words, 2);
  EXPECT_EQ(FactsOfText("\\frac{1}{2}").words, 8);
  EXPECT_EQ(FactsOfText("日本語").words, 3);
  EXPECT_EQ(FactsOfText(" \n ").words, 0);
}

TEST(TextFactsTest, SimilarityIsOneForEqualTextsAndZeroForUnrelatedOnes) {
  const MinHash sketch = FactsOfText(Words(0, 100)).sketch;
  EXPECT_EQ(Similarity(sketch, FactsOfText(Words(0, 100)).sketch), 1.0);
  EXPECT_LT(Similarity(sketch, FactsOfText(Words(500, 100)).sketch), 0.05);
}

TEST(TextFactsTest, SimilarityEstimatesTheShareOfCommonRuns) {
  double sum = 0;
  constexpr int kPairs = 100;
  for (int pair = 0; pair < kPairs; ++pair) {
    const int at = 10000 * pair;
    sum += Similarity(FactsOfText(Words(at, 200)).sketch, FactsOfText(Words(at + 100, 200)).sketch);
  }
  EXPECT_NEAR(sum / kPairs, 98.0 / 298.0, 0.03);  // 98 runs of three in common, 298 in all
}

TEST(TextFactsTest, AnEndInsideASentenceIsMidway) {
  EXPECT_TRUE(FactsOfText("so we get that the").ends_midway);
  EXPECT_TRUE(FactsOfText("x = 3 +").ends_midway);
  EXPECT_FALSE(FactsOfText("The answer is \\boxed{4}").ends_midway);
  EXPECT_FALSE(FactsOfText("It is 42").ends_midway);
  EXPECT_FALSE(FactsOfText("Done.\n").ends_midway);
}

}  // namespace
}  // namespace buttress
