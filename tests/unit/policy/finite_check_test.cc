#include "lib/policy/weights/finite_check.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <limits>

#include "tests/support/live_bytes.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinite = std::numeric_limits<float>::infinity();

TEST(FiniteCheckTest, TheFirstTensorIsNamedWithItsShapeAndCounts) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    std::vector<std::pair<std::string, at::Tensor>> tensors = {
        {"a", at::ones({2, 3}, type)}, {"b", at::ones({4, 5}, type)}, {"c", at::ones({1}, type)}};
    EXPECT_TRUE(AllFinite(tensors));
    EXPECT_EQ(DescribeNonFinite(tensors), "");
    EXPECT_TRUE(CheckFinite(tensors, "model", "fix").ok());
    tensors[1].second[0][1] = std::numeric_limits<float>::quiet_NaN();
    tensors[1].second[3].fill_(-kInfinite);
    EXPECT_FALSE(AllFinite(tensors));
    EXPECT_EQ(DescribeNonFinite(tensors), "b [4, 5]: 1 NaN and 5 infinite of 20 values");
    tensors[2].second[0] = kInfinite;
    EXPECT_THAT(DescribeNonFinite(tensors), HasSubstr("values (and 1 more tensors)"));
    const Status status = CheckFinite(tensors, "the start model DIR", "take another");
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("the start model DIR: b [4, 5]: 1 NaN"));
    EXPECT_THAT(status.message(), HasSubstr("; take another"));
  }
}

TEST(FiniteCheckTest, LargeValuesAreFinite) {
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"a", at::full({1000}, std::numeric_limits<float>::max())}};
  EXPECT_TRUE(AllFinite(tensors));
  EXPECT_TRUE(AllFinite({}));
}

// bfloat16 values are summed in float32, of which a part exists at a time.
TEST(FiniteCheckTest, ALargeTensorIsNotCopied) {
  const at::Tensor large = at::ones({(1 << 24) + 1}, at::kBFloat16);
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {{"a", large}};
  const LiveBytes bytes;
  EXPECT_TRUE(AllFinite(tensors));
  EXPECT_LT(bytes.peak(), 20 << 20);
  large[1 << 24] = kInfinite;
  EXPECT_FALSE(AllFinite(tensors));
}

}  // namespace
}  // namespace buttress
