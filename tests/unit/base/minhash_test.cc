#include "lib/base/text/minhash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace buttress {
namespace {

std::vector<std::int32_t> Tokens(std::int32_t first, std::size_t count) {
  std::vector<std::int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(MinHashTest, OneChangedTokenChangesTheSketchALittle) {
  const std::vector<std::int32_t> tokens = Tokens(0, 500);
  std::vector<std::int32_t> near_copy = tokens;
  near_copy[250] = 9999;
  EXPECT_EQ(Similarity(SketchTokens(tokens), SketchTokens(tokens)), 1.0);
  EXPECT_GT(Similarity(SketchTokens(tokens), SketchTokens(near_copy)), 0.9);
  EXPECT_LT(Similarity(SketchTokens(tokens), SketchTokens(Tokens(5000, 500))), 0.1);
}

TEST(MinHashTest, ShortSequencesShareTheirCommonRuns) {
  const std::vector<std::int32_t> a = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> b = {1, 2, 3, 4, 5, 7};
  EXPECT_GT(Similarity(SketchTokens(a), SketchTokens(b)), 0.3);
}

TEST(MinHashTest, SimilarityIsUnbiasedForLongSequences) {
  double sum = 0;
  constexpr int kPairs = 50;
  for (int pair = 0; pair < kPairs; ++pair) {
    const std::int32_t first = 100000 * pair;
    sum +=
        Similarity(SketchTokens(Tokens(first, 20000)), SketchTokens(Tokens(first + 10000, 20000)));
  }
  EXPECT_NEAR(sum / kPairs, 1.0 / 3, 0.04);  // half of the runs of either are common
}

TEST(MinHashTest, ShortSequencesAreComparedAsAWhole) {
  EXPECT_EQ(Similarity(SketchTokens(Tokens(1, 2)), SketchTokens(Tokens(1, 2))), 1.0);
  EXPECT_EQ(Similarity(SketchTokens(Tokens(1, 2)), SketchTokens(Tokens(2, 2))), 0.0);
  EXPECT_EQ(Similarity(SketchTokens({}), SketchTokens({})), 1.0);
}

}  // namespace
}  // namespace buttress
