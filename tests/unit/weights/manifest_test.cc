#include "lib/weights/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "lib/base/text/digest.h"

namespace buttress {
namespace {

class ManifestTest : public ::testing::Test {
 protected:
  ManifestTest() {
    manifest_.version = {3, 4, ""};
    manifest_.files = {{"a", 10, Sha256Of("a")}};
    manifest_.tensors = {{"t", "F32", {1, 2}, "a", 2, 10}};
    manifest_.version.digest = ManifestDigest(manifest_);
    manifest_.folder = "/somewhere";
    manifest_.run_id = "0123";
    manifest_.sources = {"x:1", "y:2"};
    manifest_.canaries = {{{1, 2}, {3, 4}, {-0.1F, -12.345678F}}, {{5}, {6}, {0}}};
  }

  WeightManifest manifest_;
};

TEST_F(ManifestTest, RoundTripsThroughJsonAndProto) {
  EXPECT_EQ(*ManifestFromJson(*ManifestToJson(manifest_)), manifest_);
  EXPECT_EQ(*ManifestFromProto(ManifestToProto(manifest_)), manifest_);
  EXPECT_EQ(ManifestToProto(manifest_).total_bytes(), 10U);
}

TEST_F(ManifestTest, AnyChangedEntryIsDetected) {
  const std::function<void(WeightManifest&)> changes[] = {
      [](WeightManifest& m) { m.files[0].bytes = 11; },
      [](WeightManifest& m) { m.files[0].sha256[0] ^= 1; },
      [](WeightManifest& m) { m.files[0].sha256.pop_back(); },
      [](WeightManifest& m) { m.files[0].name = "../a"; },
      [](WeightManifest& m) { m.files.clear(); },
      [](WeightManifest& m) { m.files.push_back(m.files[0]); },
      [](WeightManifest& m) { m.tensors[0].name = "u"; },
      [](WeightManifest& m) {
        m.tensors[0].shape = {2, 1};
      },
      [](WeightManifest& m) { m.tensors[0].end = 11; },
      [](WeightManifest& m) { m.tensors[0].begin = 11; },
      [](WeightManifest& m) { m.tensors[0].file = "b"; },
      [](WeightManifest& m) { m.tensors.push_back(m.tensors[0]); },
      [](WeightManifest& m) { m.version.digest.clear(); },
      [](WeightManifest& m) { m.canaries[0].logprobs.pop_back(); },
      [](WeightManifest& m) {
        m.canaries[0].logprobs[0] = std::numeric_limits<float>::quiet_NaN();
      },
      [](WeightManifest& m) { m.canaries[0].logprobs[0] = 0.5F; },
      [](WeightManifest& m) { m.canaries[0].token_ids[0] = -1; },
      [](WeightManifest& m) { m.canaries[0].prompt_token_ids.clear(); },
      [](WeightManifest& m) { m.canaries[0].prompt_token_ids.resize(kMaxCanaryTokens); },
      [](WeightManifest& m) { m.canaries.resize(kMaxCanaries + 1, m.canaries[0]); },
  };
  ASSERT_TRUE(CheckManifest(manifest_).ok());
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    WeightManifest changed = manifest_;
    changes[i](changed);
    EXPECT_EQ(CheckManifest(changed).code(), StatusCode::kDataLoss) << i;
    EXPECT_FALSE(ManifestFromProto(ManifestToProto(changed)).ok()) << i;
  }
}

TEST_F(ManifestTest, DeepJsonIsRefused) {
  const std::string deep = "{\"version\":" + std::string(1000000, '[') + std::string(1000000, ']');
  EXPECT_EQ(ManifestFromJson(deep + "}").status().code(), StatusCode::kDataLoss);
}

TEST_F(ManifestTest, JsonCutAtAnyByteIsRefused) {
  const std::string json = *ManifestToJson(manifest_);
  for (std::size_t size = 0; size + 2 < json.size(); ++size)
    EXPECT_FALSE(ManifestFromJson(json.substr(0, size)).ok()) << size;
}

}  // namespace
}  // namespace buttress
