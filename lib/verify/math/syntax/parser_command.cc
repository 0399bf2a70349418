// Parses commands with arguments: \frac, \sqrt, \binom, functions, matrices.
#include <algorithm>
#include <utility>

#include "lib/verify/math/syntax/math_parser.h"

namespace buttress {
namespace {

constexpr std::string_view kMatrices[] = {"pmatrix",     "bmatrix", "matrix",
                                          "smallmatrix", "Bmatrix", "array"};

bool IsMinusOne(const MathNode& node) {
  return node.kind == MathKind::kNegate && node.parts[0].kind == MathKind::kNumber &&
         node.parts[0].value == 1;
}

}  // namespace

Result<MathNode> MathParser::Command() {
  const std::string name = Peek().text;
  if (name.starts_with("begin:")) return Matrix();
  if (name.starts_with("end:") || name == "overline") return Unexpected();
  ++at_;
  if (name == "frac" || name == "binom") {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode upper, FractionPart());
    BUTTRESS_ASSIGN_OR_RETURN(MathNode lower, FractionPart());
    std::vector<MathNode> parts;
    parts.push_back(std::move(upper));
    parts.push_back(std::move(lower));
    if (name == "frac") return MakeNode(MathKind::kQuotient, std::move(parts));
    return MakeNode(MathKind::kFunction, std::move(parts), name);
  }
  if (name == "sqrt") {
    MathNode index = MakeNumber(2);
    if (Skip("[")) {
      BUTTRESS_ASSIGN_OR_RETURN(index, Sum());
      if (!Skip("]")) return Unexpected();
    }
    BUTTRESS_ASSIGN_OR_RETURN(MathNode radicand, Primary());
    return MakeNode(MathKind::kRoot, {std::move(radicand), std::move(index)});
  }
  return Function(name);
}

// Without braces, TeX reads one digit as an argument: \frac12 is one half.
Result<MathNode> MathParser::FractionPart() {
  MathToken& token = tokens_[at_];
  if (token.kind != MathTokenKind::kNumber || token.decimals >= 0 || token.text.size() < 2)
    return Primary();
  const int digit = token.text.front() - '0';
  token.text.erase(0, 1);
  token.value = *ParseDecimal(token.text);
  return MakeNumber(digit);
}

Result<MathNode> MathParser::Function(const std::string& name) {
  std::vector<MathNode> bases;
  std::vector<MathNode> powers;
  while (IsMark("_") || IsMark("^")) {
    const bool base = IsMark("_");
    ++at_;
    if (!base && IsMark("-")) {
      BUTTRESS_ASSIGN_OR_RETURN(MathNode power, Unary());
      powers.push_back(std::move(power));
      continue;
    }
    BUTTRESS_ASSIGN_OR_RETURN(MathNode part, Primary());
    (base ? bases : powers).push_back(std::move(part));
  }
  if (bases.size() > 1 || powers.size() > 1) return Unexpected();
  BUTTRESS_ASSIGN_OR_RETURN(MathNode argument, FunctionArgument());
  std::vector<MathNode> parts;
  parts.push_back(std::move(argument));
  if (!bases.empty()) parts.push_back(std::move(bases.front()));
  if (powers.empty()) return MakeNode(MathKind::kFunction, std::move(parts), name);
  if (IsMinusOne(powers.front()))
    return MakeNode(MathKind::kFunction, std::move(parts), "arc" + name);
  MathNode function = MakeNode(MathKind::kFunction, std::move(parts), name);
  return MakeNode(MathKind::kPower, {std::move(function), std::move(powers.front())});
}

// Parses "(x)" alone, or factors up to the next sign: \sin 2x.
Result<MathNode> MathParser::FunctionArgument() {
  if (IsMark("(") || IsMark("{")) return Primary();
  BUTTRESS_ASSIGN_OR_RETURN(MathNode argument, IsMark("-") ? Unary() : Power());
  while (Peek().kind == MathTokenKind::kSymbol ||
         (Peek().kind == MathTokenKind::kCommand &&
          (Peek().text == "frac" || Peek().text == "sqrt"))) {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode factor, Power());
    if (argument.kind == MathKind::kProduct) {
      argument.parts.push_back(std::move(factor));
    } else {
      argument = MakeNode(MathKind::kProduct, {std::move(argument), std::move(factor)});
    }
  }
  return argument;
}

Result<MathNode> MathParser::Matrix() {
  const std::string name = Peek().text.substr(std::string_view("begin:").size());
  if (std::find(std::begin(kMatrices), std::end(kMatrices), name) == std::end(kMatrices))
    return InvalidArgument("no matrix: " + name);
  ++at_;
  MathNode matrix = MakeNode(MathKind::kMatrix, {});
  const auto at_end = [&] {
    return Peek().kind == MathTokenKind::kCommand && Peek().text == "end:" + name;
  };
  std::size_t column = 0;
  while (!at_end()) {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode entry, Relation());
    matrix.parts.push_back(std::move(entry));
    ++column;
    if (Skip("&")) continue;
    if (!Skip("\\\\") && !at_end()) return Unexpected();
    if (matrix.columns != 0 && column != matrix.columns)
      return InvalidArgument("rows of different lengths");
    matrix.columns = column;
    column = 0;
  }
  if (matrix.parts.empty() || column != 0) return InvalidArgument("a matrix with an open row");
  ++at_;
  return matrix;
}

}  // namespace buttress
