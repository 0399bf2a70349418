#include "lib/experience/codec.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace buttress {
namespace {

TEST(CodecTest, SmallTypesSurviveTheRoundTrip) {
  const PolicyVersion version = {3, std::numeric_limits<std::uint64_t>::max(),
                                 std::string(32, '\xFF')};
  EXPECT_EQ(*FromProto(ToProto(version)), version);
  const CollapseCounts counts = {15, 1, 2, 3, 4, 5};
  EXPECT_EQ(*FromProto(ToProto(counts)), counts);
  const CollapseSnapshot snapshot = {counts, {30, 2, 4, 6, 8, 10}, 0.25, 0.125};
  EXPECT_EQ(*FromProto(ToProto(snapshot)), snapshot);
}

TEST(CodecTest, RejectsNumbersThatOurTypesCannotHold) {
  v1::PolicyVersion version;
  version.set_digest("short");
  EXPECT_EQ(FromProto(version).status().message(),
            "version.digest has 5 bytes; expected 32 or none");

  v1::CollapseCounts counts;
  counts.set_groups(2);
  counts.set_mixed(1);
  EXPECT_FALSE(FromProto(counts).ok());
  counts.set_all_wrong(
      std::numeric_limits<std::uint64_t>::max());  // 1 + (2^64 - 1) wraps around to 0
  EXPECT_FALSE(FromProto(counts).ok());

  v1::CollapseSnapshot snapshot;
  snapshot.set_acr_ema(1.5);
  EXPECT_FALSE(FromProto(snapshot).ok());
  snapshot.set_acr_ema(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(FromProto(snapshot).ok());
}

TEST(CodecTest, RejectsUnusableSamplingParameters) {
  const auto refused = [](const std::function<void(v1::SamplingParams&)>& change) {
    v1::SamplingParams sampling = ToProto(SamplingParams());
    change(sampling);
    return !FromProto(sampling).ok();
  };
  EXPECT_FALSE(refused([](v1::SamplingParams&) {}));
  EXPECT_TRUE(refused([](v1::SamplingParams& s) { s.set_temperature(-1); }));
  EXPECT_TRUE(refused(
      [](v1::SamplingParams& s) { s.set_temperature(std::numeric_limits<double>::quiet_NaN()); }));
  EXPECT_TRUE(refused([](v1::SamplingParams& s) { s.set_top_p(0); }));
  EXPECT_TRUE(refused([](v1::SamplingParams& s) { s.set_top_p(1.5); }));
  EXPECT_TRUE(refused([](v1::SamplingParams& s) { s.set_max_tokens(0); }));
}

}  // namespace
}  // namespace buttress
