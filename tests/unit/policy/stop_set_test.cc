#include "lib/policy/stop_set.h"

#include <gmock/gmock.h>

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig ModelWithEos(std::vector<std::int32_t> eos) {
  ModelConfig model;
  model.vocab_size = 100;
  model.eos_token_ids = std::move(eos);
  return model;
}

TEST(StopSetTest, HasTheEosTokensAndTheIdsAskedForOnce) {
  SamplingParams sampling;
  sampling.stop_token_ids = {42, 7};
  ASSERT_TRUE(DecideStops(ModelWithEos({99, 7, 3}), sampling).ok());
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(3, 7, 42, 99));
  ASSERT_TRUE(DecideStops(ModelWithEos({}), sampling).ok());
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(3, 7, 42, 99));
}

TEST(StopSetTest, RefusesIdsOutsideTheVocabulary) {
  for (const std::int32_t id : {-1, 100}) {
    SamplingParams sampling;
    sampling.stop_token_ids = {5, id};
    const Status status = DecideStops(ModelWithEos({1}), sampling);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("stop_token_ids: " + std::to_string(id) +
                                            " is not a token of the model; expected 0 to 99"));
  }
}

}  // namespace
}  // namespace buttress
