#include "lib/policy/stop_set.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/fakes/byte_tokenizer.h"

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

// Knows two added tokens: a special one, and one that is text.
class AddedTokens : public ByteTokenizer {
 public:
  std::int32_t AddedTokenId(std::string_view token) const override {
    return token == "<|end|>" ? 50 : token == "</think>" ? 51 : -1;
  }

  std::string TokenBytes(std::int32_t token) const override {
    return token == 51 ? "</think>" : "";
  }
};

TEST(StopSetTest, AddedTokensAreIdsAndTheTextThatDecodingShowsIsMatched) {
  const AddedTokens tokenizer;
  SamplingParams sampling;
  sampling.stop = {"</think>", "\n\n", "<|end|>"};
  ASSERT_TRUE(DecideStops(ModelWithEos({99}), &tokenizer, sampling).ok());
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(50, 51, 99));
  EXPECT_THAT(sampling.stop, ElementsAre("</think>", "\n\n"));
}

TEST(StopSetTest, RefusesTextsThatNothingWrites) {
  const AddedTokens tokenizer;
  for (const char* text : {"", "\xc3"}) {
    SamplingParams sampling;
    sampling.stop = {"a", text};
    EXPECT_EQ(DecideStops(ModelWithEos({1}), &tokenizer, sampling).code(),
              StatusCode::kInvalidArgument);
  }
  SamplingParams sampling;
  sampling.stop = {"a"};
  EXPECT_THAT(DecideStops(ModelWithEos({1}), nullptr, sampling).message(),
              HasSubstr("need the tokenizer"));
}

TEST(StopSetTest, RefusesMinTokensThatCannotBe) {
  SamplingParams sampling;
  sampling.min_tokens = sampling.max_tokens + 1;
  EXPECT_THAT(DecideStops(ModelWithEos({1}), nullptr, sampling).message(),
              HasSubstr("min_tokens = 257; expected at most max_tokens = 256"));
  sampling.min_tokens = 1;
  std::vector<std::int32_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_THAT(DecideStops(ModelWithEos(all), nullptr, sampling).message(),
              HasSubstr("every token is a stop token"));
}

TEST(StopSetTest, HasTheEosTokensAndTheIdsAskedForOnce) {
  SamplingParams sampling;
  sampling.stop_token_ids = {42, 7};
  ASSERT_TRUE(DecideStops(ModelWithEos({99, 7, 3}), nullptr, sampling).ok());
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(3, 7, 42, 99));
  ASSERT_TRUE(DecideStops(ModelWithEos({}), nullptr, sampling).ok());
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(3, 7, 42, 99));
}

TEST(StopSetTest, RefusesIdsOutsideTheVocabulary) {
  for (const std::int32_t id : {-1, 100}) {
    SamplingParams sampling;
    sampling.stop_token_ids = {5, id};
    const Status status = DecideStops(ModelWithEos({1}), nullptr, sampling);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("stop_token_ids: " + std::to_string(id) +
                                            " is not a token of the model; expected 0 to 99"));
  }
}

}  // namespace
}  // namespace buttress
