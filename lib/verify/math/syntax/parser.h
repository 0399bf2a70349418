// Parses an answer by recursive descent over its tokens, in time linear in the text and with
// bounded depth. The .cc files state the grammar.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/report/status.h"
#include "lib/verify/math/syntax/lexer.h"
#include "lib/verify/math/syntax/node.h"

namespace buttress {

// Parses an answer. Returns kInvalidArgument with the part that is not mathematics or the limit
// that is exceeded.
Result<MathNode> ParseMath(std::string_view text, CommaReading commas);

// The state of ParseMath, and one method for each rule.
class MathParser {
 public:
  explicit MathParser(std::vector<MathToken> tokens) : tokens_(std::move(tokens)) {}

  Result<MathNode> Answer();

 private:
  // Counts nested brackets, signs and exponents.
  class Deeper {
   public:
    explicit Deeper(int& depth) : depth_(++depth) {}

    ~Deeper() { --depth_; }

    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    int& depth_;
  };

  Result<MathNode> Relation();
  Result<MathNode> Union();
  Result<MathNode> Intersection();
  Result<MathNode> Ratio();
  Result<MathNode> Over();
  Result<MathNode> Sum();
  Result<MathNode> Product();
  Result<MathNode> MixedNumber(MathNode whole);
  Result<MathNode> Unary();
  Result<MathNode> Power();
  Result<MathNode> Postfix(MathNode node);
  MathNode Degrees(MathNode node);
  Result<MathNode> Exponent(MathNode base);
  Result<MathNode> Primary();
  Result<MathNode> Symbol();
  Result<MathNode> Text();
  Result<MathNode> Brackets();
  Result<MathNode> Braces(std::string_view close);
  Result<MathNode> SetBuilder();
  Result<MathNode> Enclosed(std::string_view close, std::string_view function);
  Result<MathNode> Command();
  Result<MathNode> FractionPart();
  Result<MathNode> Function(const std::string& name);
  Result<MathNode> FunctionArgument();
  Result<MathNode> Matrix();
  Result<std::vector<MathNode>> Items();
  Result<MathNode> WithUnit(MathNode node);
  Result<MathNode> WithSmallerUnit(MathNode node);
  std::string Unit();
  std::string UnitPower(int power);

  const MathToken& Peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }

  bool IsMark(std::string_view mark, std::size_t ahead = 0) const {
    return Peek(ahead).kind == MathTokenKind::kMark && Peek(ahead).text == mark;
  }

  bool IsConjunction() const {
    return Peek().kind == MathTokenKind::kWord && (Peek().text == "and" || Peek().text == "or");
  }

  bool IsWord(std::string_view word) const {
    return Peek().kind == MathTokenKind::kWord && Peek().text == word;
  }

  bool IsDegree() const;
  bool IsUnionLetter() const;
  bool IsTo() const;
  bool IsSetBuilder() const;
  bool BeginsFactor() const;
  bool SkipSeparators();
  bool Skip(std::string_view mark);
  Status Unexpected() const;

  std::vector<MathToken> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace buttress
