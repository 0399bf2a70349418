#include "rollout_worker/model_commands/sampling_fields.h"

#include <gmock/gmock.h>

namespace buttress {
namespace {

using ::testing::HasSubstr;

JsonRow RowOf(const char* text) {
  JsonRow row;
  row.fields = nlohmann::ordered_json::parse(text);
  return row;
}

TEST(SamplingFieldsTest, ARowReplacesTheFlagsItNames) {
  SamplingParams sampling;
  sampling.temperature = 0.25;
  const auto row = RowOf(
      R"({"id": 1, "text": "a", "top_p": 0.5, "max_tokens": 7, "stop_token_ids": [3, 4],
          "stop": ["a", "b"], "min_tokens": 2, "include_stop": true,
          "seed": 18446744073709551615})");
  ASSERT_TRUE(CheckFields(row).ok());
  ASSERT_TRUE(ReadSamplingFields(row, sampling).ok());
  EXPECT_EQ(sampling.temperature, 0.25);
  EXPECT_EQ(sampling.top_p, 0.5);
  EXPECT_EQ(sampling.max_tokens, 7);
  EXPECT_EQ(sampling.stop_token_ids, (std::vector<std::int32_t>{3, 4}));
  EXPECT_EQ(sampling.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_TRUE(sampling.include_stop);
  EXPECT_EQ(sampling.seed, 18446744073709551615ULL);
}

TEST(SamplingFieldsTest, AMisspeltFieldIsRefusedWithTheKnownOnes) {
  const Status status = CheckFields(RowOf(R"({"text": "a", "max_token": 7})"));
  EXPECT_THAT(status.message(), HasSubstr("'max_token' is not a field"));
  EXPECT_THAT(status.message(), HasSubstr("max_tokens"));
}

TEST(SamplingFieldsTest, ARowHasOnePrompt) {
  EXPECT_THAT(CheckFields(RowOf(R"({"text": "a", "token_ids": [1]})")).message(),
              HasSubstr("keep one"));
  EXPECT_TRUE(CheckFields(RowOf(R"({"messages": [], "tools": []})")).ok());
  EXPECT_THAT(CheckFields(RowOf(R"({"token_ids": [1], "tools": []})")).message(),
              HasSubstr("'tools' next to 'token_ids'"));
  EXPECT_THAT(CheckFields(RowOf(R"({"id": 1})")).message(), HasSubstr("no prompt"));
}

TEST(SamplingFieldsTest, ValuesOfAnotherTypeOrRangeAreRefused) {
  SamplingParams sampling;
  for (const char* row :
       {R"({"max_tokens": 0})", R"({"max_tokens": 1.5})", R"({"max_tokens": 2147483648})",
        R"({"temperature": "1"})", R"({"stop_token_ids": 5})", R"({"stop_token_ids": [-1]})",
        R"({"stop": 5})", R"({"stop": ["a", 5]})", R"({"min_tokens": -1})",
        R"({"include_stop": 1})", R"({"seed": -1})"}) {
    EXPECT_EQ(ReadSamplingFields(RowOf(row), sampling).code(), StatusCode::kInvalidArgument) << row;
  }
}

}  // namespace
}  // namespace buttress
