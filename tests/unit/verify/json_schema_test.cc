#include "lib/verify/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/verifier.h"

namespace buttress::json_schema_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Status Check(const char* schema, const char* value) {
  const auto compiled = JsonSchema::Compile(json::parse(schema));
  EXPECT_TRUE(compiled.ok()) << compiled.status().ToString();
  return compiled->Check(json::parse(value));
}

// The expected results follow the draft (json-schema.org, 2020-12, validation 6 and core 10).
TEST(JsonSchema, AcceptsAndRefusesByEachKeyword) {
  struct Case {
    const char* schema;
    const char* fits;
    const char* does_not;
  };

  const Case cases[] = {
      {R"({"type": "integer"})", "3", "3.5"},
      {R"({"type": "integer"})", "3.0", "\"3\""},
      {R"({"type": ["null", "string"]})", "null", "1"},
      {R"({"enum": [1, "a", null]})", "null", "2"},
      {R"({"const": {"a": [1]}})", R"({"a": [1.0]})", R"({"a": [2]})"},
      {R"({"minimum": 3})", "3", "2.999"},
      {R"({"exclusiveMaximum": 3})", "2", "3"},
      {R"({"maximum": 18446744073709551615})", "18446744073709551614", "1.9e19"},
      {R"({"multipleOf": 0.1})", "0.3", "0.35"},
      {R"({"minLength": 2, "maxLength": 3})", "\"äöü\"", "\"ä\""},
      {R"({"pattern": "^a+$"})", "\"aaa\"", "\"aab\""},
      {R"({"items": {"type": "integer"}})", "[1, 2]", "[1, \"2\"]"},
      {R"({"prefixItems": [{"type": "string"}], "items": false})", "[\"a\"]", "[\"a\", 1]"},
      {R"({"minItems": 1, "maxItems": 2})", "[1]", "[1, 2, 3]"},
      {R"({"uniqueItems": true})", "[1, 2]", "[1, 2, 1.0]"},
      {R"({"contains": {"const": 5}})", "[1, 5]", "[1]"},
      {R"({"required": ["a"]})", R"({"a": null})", R"({"b": 1})"},
      {R"({"properties": {"a": {"type": "string"}}, "additionalProperties": false})",
       R"({"a": "x"})", R"({"a": "x", "b": 1})"},
      {R"({"minProperties": 1, "maxProperties": 1})", R"({"a": 1})", "{}"},
      {R"({"propertyNames": {"maxLength": 1}})", R"({"a": 1})", R"({"ab": 1})"},
      {R"({"allOf": [{"minimum": 1}, {"maximum": 2}]})", "2", "3"},
      {R"({"anyOf": [{"type": "string"}, {"minimum": 5}]})", "7", "4"},
      {R"({"oneOf": [{"minimum": 1}, {"minimum": 5}]})", "3", "7"},
      {R"({"not": {"type": "string"}})", "1", "\"a\""},
      {R"({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}})",
       R"({"a": 1})", R"({"a": "1"})"},
      {R"({"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}})",
       R"({"next": {"v": 1}})", R"({"next": {"v": "1"}})"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(Check(c.schema, c.fits).ok())
        << c.schema << " of " << c.fits << ": " << Check(c.schema, c.fits).ToString();
    EXPECT_EQ(Check(c.schema, c.does_not).code(), StatusCode::kInvalidArgument)
        << c.schema << " of " << c.does_not;
  }
  EXPECT_TRUE(Check(R"({"minimum": 3, "minLength": 9, "required": ["a"]})", "[]").ok())
      << "keywords of other types do not apply";
}

TEST(JsonSchema, RefusesUnsupportedKeywordsAndMalformedSchemas) {
  for (const char* schema :
       {R"({"dependentRequired": {}})", R"({"properties": {"a": {"minimun": 3}}})",
        R"({"type": "int"})", R"({"minimum": "3"})", R"([])", R"({"pattern": "(a"})",
        R"({"pattern": "(a)\\1"})", R"({"$ref": "http://example.com"})", R"({"$ref": "#/default"})",
        R"({"minLength": -1})", R"({"multipleOf": 0})", R"({"required": "a"})", R"({"anyOf": []})",
        R"({"items": [{}]})"}) {
    const auto compiled = JsonSchema::Compile(json::parse(schema));
    EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidArgument) << schema;
  }
  EXPECT_THAT(JsonSchema::Compile(json::parse(R"({"properties": {"a": {"minimun": 3}}})"))
                  .status()
                  .message(),
              HasSubstr("'/properties/a': keyword 'minimun'"));
}

TEST(JsonSchema, RecursiveReferencesAndAlternativesTerminate) {
  EXPECT_EQ(Check(R"({"$ref": "#"})", "1").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Check(R"({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]})", "1").code(),
            StatusCode::kResourceExhausted);
}

TEST(BoundedJson, RefusesTextsThatAreTooDeepOrTooLarge) {
  EXPECT_TRUE(ParseBoundedJson(std::string(64, '[') + std::string(64, ']')).ok());
  EXPECT_FALSE(ParseBoundedJson(std::string(65, '[') + std::string(65, ']')).ok());
  EXPECT_FALSE(ParseBoundedJson(std::string(1000000, '[')).ok());
  EXPECT_FALSE(ParseBoundedJson("\"" + std::string(kMaxJsonBytes, 'x') + "\"").ok());
  EXPECT_TRUE(ParseBoundedJson("\"" + std::string(100, '[') + "\"").ok());
  EXPECT_TRUE(ParseBoundedJson("\"\\\"" + std::string(100, '[') + "\"").ok());
}

TEST(JsonSchemaVerifier, FindsTheValue) {
  const auto verifier = *MakeVerifier("json_schema", RewardConfig{});
  const auto judge = [&](std::string_view response) {
    return verifier->Verify({{}, response, R"({"type": "integer"})", {}, false});
  };
  EXPECT_EQ(judge("7").outcome, Outcome::kCorrect);
  EXPECT_EQ(judge("Here:\n```json\n7\n```\ndone").anchor, "fence");
  EXPECT_EQ(judge("<answer>7</answer>").anchor, "tags");
  EXPECT_EQ(judge("It is 7").outcome, Outcome::kWrong);
  EXPECT_EQ(judge(std::string(200000, '[')).outcome, Outcome::kWrong);
}

}  // namespace
}  // namespace buttress::json_schema_test
