#include "lib/base/text/random.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace buttress {
namespace {

// Known-answer vectors of Random123's distribution (kat_vectors, philox4x32 10).
TEST(RandomTest, PhiloxGivesThePublishedVectors) {
  EXPECT_EQ(Philox({0, 0}, 0),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffffffffffff, 0xffffffffffffffff}, 0xffffffffffffffff),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x299f31d0a4093822, 0x0370734413198a2e}, 0x85a308d3243f6a88),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, UniformNumbersHaveTheMomentsOfTheUnitInterval) {
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double u = UniformAt({7, 9}, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.005);
}

TEST(RandomTest, NormalNumbersHaveMeanZeroAndVarianceOne) {
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double z = NormalAt({1, 2}, static_cast<std::uint64_t>(i));
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.015);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
}

TEST(RandomTest, NormalNumbersComeOneByOneOrAllAtOnce) {
  for (const std::size_t count : {0U, 1U, 2U, 7U}) {
    std::vector<double> normals(count);
    FillNormals({1, 2}, normals);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(normals[i], NormalAt({1, 2}, i));
  }
}

TEST(RandomTest, AStreamGivesTheNumbersOfItsKeyInOrder) {
  RandomStream stream({3, 4});
  EXPECT_EQ(stream.Uniform(), UniformAt({3, 4}, 0));
  EXPECT_EQ(stream.Uniform(), UniformAt({3, 4}, 1));
}

TEST(RandomTest, BelowReachesEveryValueAboutEquallyOften) {
  RandomStream stream({5, 6});
  std::array<int, 7> counts{};
  for (int i = 0; i < 7000; ++i) ++counts[stream.Below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace buttress
