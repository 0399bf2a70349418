#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/prepare/verify.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<VerifyRow> Parse(const std::string& line, std::int64_t number,
                        const VerifyFields& fields = {}) {
  JsonRow row;
  row.fields = nlohmann::ordered_json::parse(line);
  row.line = number;
  return ReadVerifyRow(std::move(row), fields);
}

TEST(VerifyRows, ARowWithOneResponseIsNotAGroup) {
  const auto row = Parse(R"({"id": 7, "answer": "4", "response": "2+2", "label": true})", 1);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(row->id, "7");
  EXPECT_EQ(row->json_id, 7);  // --json prints the id with its type
  EXPECT_FALSE(row->is_group);
  EXPECT_THAT(row->responses, ElementsAre("2+2"));
  EXPECT_THAT(row->labels, ElementsAre(true));
}

TEST(VerifyRows, AGroupHasOneLabelPerResponse) {
  const auto row = Parse(R"({"answer": 4, "responses": ["4", "5"], "labels": ["correct", 0]})", 3);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(row->id, "3");
  EXPECT_EQ(row->answer, "4");
  EXPECT_TRUE(row->is_group);
  EXPECT_THAT(row->responses, ElementsAre("4", "5"));
  EXPECT_THAT(row->labels, ElementsAre(true, false));
}

TEST(VerifyRows, LabelsAreOptional) {
  const auto row = Parse(R"({"answer": "4", "responses": ["4"], "labels": null})", 1);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_TRUE(row->labels.empty());
}

TEST(VerifyRows, FieldsHaveNamesAndPaths) {
  VerifyFields fields;
  fields.prompt = "input";
  fields.response = "output.text";
  fields.answer = "reward_model.ground_truth";
  fields.source = "data_source";
  fields.id = "extra_info.index";
  fields.label = "acc";
  const auto row = Parse(
      R"({"input": "2+2?", "output": {"text": ["4", "5"]}, "reward_model": {"ground_truth": "4"},
          "data_source": "gsm8k", "extra_info": {"index": 7}, "acc": [1, 0]})",
      1, fields);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(row->prompt, "2+2?");
  EXPECT_THAT(row->responses, ElementsAre("4", "5"));
  EXPECT_TRUE(row->is_group);
  EXPECT_EQ(row->answer, "4");
  EXPECT_EQ(row->source, "gsm8k");
  EXPECT_EQ(row->id, "7");
  EXPECT_THAT(row->labels, ElementsAre(true, false));
  EXPECT_EQ(nlohmann::json::parse(row->json)["prompt"], "2+2?");
  fields.answer = "";
  EXPECT_EQ(Parse(R"({"output": {"text": "4"}})", 1, fields)->answer, "");
}

TEST(VerifyRows, ResponsesOfMessagesAreTheirContentsAndLabelsOfCsvAreTexts) {
  const auto row = Parse(R"({"answer": "4", "label": "1",
      "response": [{"role": "assistant", "content": "is"}, {"role": "x", "content": "4"}]})",
                         1);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_FALSE(row->is_group);
  EXPECT_THAT(row->responses, ElementsAre("is\n4"));
  EXPECT_THAT(row->labels, ElementsAre(true));
  EXPECT_EQ(row->source, "default");
}

TEST(VerifyRows, AnAuditNeedsNoResponses) {
  VerifyFields fields;
  fields.response_needed = false;
  const auto row = Parse(R"({"answer": "4"})", 1, fields);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_TRUE(row->responses.empty());
  EXPECT_FALSE(Parse(R"({"answer": "4", "label": true})", 1, fields).ok());
}

TEST(VerifyRows, ErrorsNameTheFieldAndItsOption) {
  const auto why = [](const char* line) { return Parse(line, 9).status().message(); };
  EXPECT_THAT(why(R"({"response": "4"})"),
              HasSubstr("no field 'answer'; the row has response; --answer-field names"));
  EXPECT_THAT(why(R"({"answer": "4"})"), HasSubstr("no field 'response'; the row has answer; --r"));
  EXPECT_THAT(why(R"({"answer": "4", "responses": "4"})"),
              HasSubstr("'responses' is not a list; expected the responses of a group"));
  EXPECT_THAT(why(R"({"answer": "4", "responses": ["4", "5"], "labels": [true]})"),
              HasSubstr("'labels' has 1 labels for 2 responses; expected one each"));
  EXPECT_THAT(why(R"({"answer": "4", "response": "4", "label": "maybe"})"),
              HasSubstr("'label' has the label \"maybe\"; expected true"));
  EXPECT_THAT(why(R"({"answer": "4", "responses": []})"),
              HasSubstr("'responses' is empty; expected one response or more"));
  EXPECT_THAT(why(R"({"answer": "4", "response": null})"),
              HasSubstr("'response' has null; expected"));
  EXPECT_THAT(why(R"({"answer": "4", "responses": ["4", null]})"),
              HasSubstr("'responses' has null; expected"));
  EXPECT_THAT(why(R"({"answer": null, "response": "4"})"), HasSubstr("'answer' is null; expected"));
}

}  // namespace
}  // namespace buttress
