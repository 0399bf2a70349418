#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/os/file.h"
#include "lib/verify/countdown.h"

namespace buttress::expression_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Expression, AgreesWithPythonsParserAndFractions) {
  const Result<std::string> text =
      ReadFile(BUTTRESS_SOURCE_DIR "/tests/golden/countdown_expressions.json");
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const auto rows = nlohmann::json::parse(*text);
  ASSERT_GT(rows.size(), 900U);
  for (const auto& row : rows) {
    const auto source = row[0].get<std::string>();
    const Result<Expression> expression = EvaluateExpression(source);
    ASSERT_EQ(expression.ok(), !row[1].is_null()) << source;
    if (!expression.ok()) continue;
    EXPECT_EQ(ToString(expression->value), row[1].get<std::string>()) << source;
    EXPECT_EQ(expression->numbers, row[2].get<std::vector<std::int64_t>>()) << source;
  }
}

TEST(Expression, LargeIntermediatesStayExact) {
  std::string text = "999999999999999999";
  for (int i = 0; i < 20; ++i) text += "*999999999999999999";
  for (int i = 0; i < 20; ++i) text += "/999999999999999999";
  const Result<Expression> expression = EvaluateExpression(text);
  ASSERT_TRUE(expression.ok());
  EXPECT_EQ(ToString(expression->value), "999999999999999999");
}

TEST(Expression, TypographicSignsAreReadAsAscii) {
  const Result<Expression> expression = EvaluateExpression("8 × 6 ÷ 4 − 2");
  ASSERT_TRUE(expression.ok()) << expression.status().ToString();
  EXPECT_EQ(expression->text, "8*6/4-2");
  EXPECT_EQ(ToString(expression->value), "10");
  EXPECT_THAT(expression->numbers, ElementsAre(8, 6, 4, 2));
  EXPECT_EQ(expression->operators, "*/-");
}

TEST(Expression, ErrorsNameTheFault) {
  const auto error = [](std::string_view text) {
    return EvaluateExpression(text).status().message();
  };
  EXPECT_THAT(error(""), HasSubstr("ends early"));
  EXPECT_THAT(error("1+"), HasSubstr("ends early"));
  EXPECT_THAT(error("1 2"), HasSubstr("two numbers"));
  EXPECT_THAT(error("2(3)"), HasSubstr("unexpected character at 1"));
  EXPECT_THAT(error("1.5"), HasSubstr("unexpected character at 1"));
  EXPECT_THAT(error("+1"), HasSubstr("unexpected character at 0"));
  EXPECT_THAT(error("07+1"), HasSubstr("leading zero"));
  EXPECT_THAT(error("1/(2-2)"), HasSubstr("division by zero"));
  EXPECT_THAT(error("99999999999999999999"), HasSubstr("too many digits"));
  EXPECT_THAT(error(std::string("1\0+1", 4)), HasSubstr("unexpected character"));
}

TEST(Expression, SizeAndDepthAreBounded) {
  const auto nested = [](int depth, char open, const std::string& close) {
    std::string text(static_cast<std::size_t>(depth), open);
    text += "1";
    for (int i = 0; i < depth; ++i) text += close;
    return EvaluateExpression(text);
  };
  EXPECT_TRUE(nested(kMaxExpressionDepth - 1, '(', ")").ok());
  EXPECT_THAT(nested(kMaxExpressionDepth, '(', ")").status().message(), HasSubstr("nests deeper"));
  EXPECT_TRUE(nested(kMaxExpressionDepth - 1, '-', "").ok());
  EXPECT_THAT(nested(kMaxExpressionDepth, '-', "").status().message(), HasSubstr("nests deeper"));
  EXPECT_THAT(EvaluateExpression(std::string(1 << 20, '(')).status().message(),
              HasSubstr("more than 1024 bytes"));
}

}  // namespace
}  // namespace buttress::expression_test
