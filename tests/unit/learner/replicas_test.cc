#include <gtest/gtest.h>
#include <torch/types.h>

#include "learner/output/job_checkpoints.h"
#include "tests/support/live_bytes.h"

namespace buttress {
namespace {

TEST(DigestOfTest, ChangesWithAnyBit) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const NamedTensors tensors = {{"a", at::ones({3, 5}, type)}, {"b", at::zeros({7}, type)}};
    const std::int64_t digest = DigestOf(tensors);
    EXPECT_EQ(DigestOf(tensors), digest);
    for (const auto& [name, tensor] : tensors) {
      auto* const bytes = static_cast<unsigned char*>(tensor.mutable_data_ptr());
      for (std::size_t bit = 0; bit < 8 * tensor.nbytes(); bit += 7) {
        bytes[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
        EXPECT_NE(DigestOf(tensors), digest) << name << " bit " << bit;
        bytes[bit / 8] ^= static_cast<unsigned char>(1U << bit % 8);
      }
    }
    EXPECT_NE(DigestOf({tensors[1], tensors[0]}), digest);
  }
}

// An embedding of 152k words, in bfloat16, would otherwise be copied to integers of 8 bytes.
TEST(DigestOfTest, NeedsLittleMemory) {
  const NamedTensors tensors = {{"a", at::ones({5000, 4000}, at::kBFloat16)}};
  const LiveBytes bytes;
  DigestOf(tensors);
  EXPECT_LT(bytes.peak(), 64 << 20);
}

TEST(CompareReplicasTest, OneRankAgreesWithItselfAndReadsNothing) {
  const auto alone = MakeLocalCollective();
  const at::Tensor unreadable = at::empty(4, at::kMeta);
  EXPECT_TRUE(
      CompareReplicas("weights", {{"a", unreadable}}, *alone, std::chrono::seconds(1)).ok());
}

}  // namespace
}  // namespace buttress
