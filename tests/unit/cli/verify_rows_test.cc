#include "cli/verify_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(VerifyRows, ARowWithOneResponseIsNotAGroup) {
  const auto row =
      ParseVerifyRow(R"({"id": 7, "answer": "4", "response": "2+2", "label": true})", 1);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(row->id, "7");
  EXPECT_EQ(row->json_id, 7);  // --json prints the id with its type
  EXPECT_FALSE(row->is_group);
  EXPECT_THAT(row->responses, ElementsAre("2+2"));
  EXPECT_THAT(row->labels, ElementsAre(true));
}

TEST(VerifyRows, AGroupHasOneLabelPerResponse) {
  const auto row =
      ParseVerifyRow(R"({"answer": 4, "responses": ["4", "5"], "labels": ["correct", 0]})", 3);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(row->id, "3");
  EXPECT_EQ(row->answer, "4");
  EXPECT_TRUE(row->is_group);
  EXPECT_THAT(row->responses, ElementsAre("4", "5"));
  EXPECT_THAT(row->labels, ElementsAre(true, false));
}

TEST(VerifyRows, LabelsAreOptional) {
  const auto row = ParseVerifyRow(R"({"answer": "4", "responses": ["4"], "labels": null})", 1);
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_TRUE(row->labels.empty());
}

TEST(VerifyRows, ErrorsNameLineAndField) {
  const auto why = [](const char* line) { return ParseVerifyRow(line, 9).status().message(); };
  EXPECT_THAT(why("[1]"), HasSubstr("line 9: not a JSON object"));
  EXPECT_THAT(why(R"({"response": "4"})"), HasSubstr("line 9: no field 'answer'"));
  EXPECT_THAT(why(R"({"answer": "4"})"), HasSubstr("no field 'response'"));
  EXPECT_THAT(why(R"({"answer": "4", "responses": "4"})"),
              HasSubstr("'responses' is not an array"));
  EXPECT_THAT(why(R"({"answer": "4", "responses": ["4", "5"], "labels": [true]})"),
              HasSubstr("1 labels for 2 responses"));
  EXPECT_THAT(why(R"({"answer": "4", "response": "4", "label": "maybe"})"),
              HasSubstr("label \"maybe\""));
}

}  // namespace
}  // namespace buttress
