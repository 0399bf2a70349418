// The grammar of factors; commands are those with arguments: \frac, \sqrt, \binom, functions,
// matrices.
//
//   unary    = { "-" | "+" | "±" } power
//   power    = primary { "^" exponent | "!" | "%" | "°" | "_" primary }
//   primary  = number | symbol ["_" primary] | text | "(" items ")" | "{" items "}" | "|" sum "|" |
//              command
#include <algorithm>
#include <utility>

#include "lib/verify/math/syntax/parser.h"
#include "lib/verify/math/words.h"

namespace buttress {
namespace {

constexpr std::string_view kMatrices[] = {"pmatrix", "bmatrix", "matrix", "smallmatrix",
                                          "Bmatrix", "array",   "cases"};

bool IsMinusOne(const MathNode& node) {
  return node.kind == MathKind::kNegate && node.parts[0].kind == MathKind::kNumber &&
         node.parts[0].value == 1;
}

// Returns the rows of cases, whose order does not matter, each with its condition.
MathNode ListOfCases(MathNode matrix) {
  MathNode list = MakeNode(MathKind::kList, {});
  for (std::size_t i = 0; i < matrix.parts.size(); i += matrix.columns) {
    const auto row = matrix.parts.begin() + static_cast<std::ptrdiff_t>(i);
    list.parts.push_back(
        matrix.columns == 1
            ? *row
            : MakeNode(MathKind::kTuple, {row, row + static_cast<std::ptrdiff_t>(matrix.columns)}));
  }
  return list;
}

std::string Subscript(const MathNode& node) {
  std::string text = ToText(node);
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  return text;
}

// Returns whether `base` is a number above every digit of `number`.
bool IsNumeralOf(const MathNode& number, const MathNode& base) {
  const std::string digits = ToText(number);
  return base.kind == MathKind::kNumber && base.value >= 2 &&
         std::all_of(digits.begin(), digits.end(),
                     [&](char c) { return c < '0' || base.value > c - '0'; });
}

}  // namespace

Result<MathNode> MathParser::Unary() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxMathDepth) return InvalidArgument("nested too deeply");
  if (Skip("+")) return Unary();
  if (Skip("-")) {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode operand, Unary());
    return Negated(std::move(operand));
  }
  if (IsMark("±") || IsMark("∓")) {
    const bool plus_first = IsMark("±");
    ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode operand, Unary());
    return MakeNode(MathKind::kPlusMinus, {std::move(operand)}, plus_first ? "+-" : "-+");
  }
  return Power();
}

Result<MathNode> MathParser::Power() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxMathDepth) return InvalidArgument("nested too deeply");
  BUTTRESS_ASSIGN_OR_RETURN(MathNode node, Primary());
  return Postfix(std::move(node));
}

bool MathParser::IsDegree() const {
  return (IsMark("^") && IsMark("°", 1)) ||
         (IsMark("^") && IsMark("{", 1) && IsMark("°", 2) && IsMark("}", 3));
}

// Distinguishes the units of 20 °C and 20 °F from the angle 20 °.
MathNode MathParser::Degrees(MathNode node) {
  const bool celsius = Peek().kind == MathTokenKind::kSymbol && Peek().text == "C";
  const bool fahrenheit = Peek().kind == MathTokenKind::kSymbol && Peek().text == "F";
  if (!celsius && !fahrenheit) return MakeNode(MathKind::kDegree, {std::move(node)});
  ++at_;
  return MakeNode(MathKind::kUnit, {std::move(node)}, celsius ? "celsius" : "fahrenheit");
}

Result<MathNode> MathParser::Postfix(MathNode node) {
  for (int count = 0; count < kMaxMathDepth; ++count) {
    if (IsDegree()) {
      at_ += IsMark("°", 1) ? 2 : 4;
      node = Degrees(std::move(node));
    } else if (Skip("°")) {
      node = Degrees(std::move(node));
    } else if (Skip("%")) {
      node = MakeNode(MathKind::kPercent, {std::move(node)});
    } else if (Skip("!")) {
      node = MakeNode(MathKind::kFunction, {std::move(node)}, "factorial");
    } else if (Skip("^")) {
      BUTTRESS_ASSIGN_OR_RETURN(node, Exponent(std::move(node)));
    } else if (node.kind == MathKind::kNumber && Skip("_")) {
      BUTTRESS_ASSIGN_OR_RETURN(MathNode base, Primary());
      if (!IsNumeralOf(node, base)) return InvalidArgument("a digit that its base does not have");
      node = MakeNode(MathKind::kBased, {std::move(base)}, ToText(node));
    } else {
      return node;
    }
  }
  return InvalidArgument("too many signs behind one factor");
}

// Powers associate to the right: the exponent may be a power.
Result<MathNode> MathParser::Exponent(MathNode base) {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode exponent, IsMark("-") || IsMark("+") ? Unary() : Power());
  return MakeNode(MathKind::kPower, {std::move(base), std::move(exponent)});
}

Result<MathNode> MathParser::Primary() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxMathDepth) return InvalidArgument("nested too deeply");
  switch (Peek().kind) {
    case MathTokenKind::kNumber: {
      const MathToken& token = Peek();
      ++at_;
      return MakeNumber(token.value, token.decimals);
    }
    case MathTokenKind::kSymbol:
      return Symbol();
    case MathTokenKind::kWord:
      return Text();
    case MathTokenKind::kCommand:
      return Command();
    case MathTokenKind::kMark:
      break;
    case MathTokenKind::kEnd:
      return Unexpected();
  }
  if (IsMark("(") || IsMark("[")) return Brackets();
  if (Skip("{")) return Braces("}");
  if (Skip("\\{")) return Braces("\\}");
  if (Skip("|")) return Enclosed("|", "abs");
  if (Skip("⌊")) return Enclosed("⌋", "floor");
  if (Skip("⌈")) return Enclosed("⌉", "ceil");
  if (Skip("∅")) return MakeNode(MathKind::kSet, {});
  if (Skip("$")) {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode amount, Unary());
    return MakeNode(MathKind::kUnit, {std::move(amount)}, "dollar");
  }
  return Unexpected();
}

Result<MathNode> MathParser::Symbol() {
  std::string name = Peek().text;
  ++at_;
  if (name == "reals") return RealLine();
  while (Skip("'")) name += "'";
  if (Skip("_")) {
    BUTTRESS_ASSIGN_OR_RETURN(const MathNode subscript, Primary());
    name += "_" + Subscript(subscript);
  }
  return MakeSymbol(std::move(name));
}

Result<MathNode> MathParser::Text() {
  if (const auto number = NumberWord(Peek().text)) {
    ++at_;
    const std::size_t hyphen = IsMark("-") ? 1 : 0;
    const MathToken& next = Peek(hyphen);
    const auto digit = next.kind == MathTokenKind::kWord ? NumberWord(next.text) : std::nullopt;
    if (*number < 20 || !digit || *digit < 1 || *digit > 9) return MakeNumber(*number);
    at_ += hyphen + 1;
    return MakeNumber(*number + *digit);
  }
  const auto unit = CanonicalUnit(Peek().text);
  if (unit && IsCurrency(*unit) && Peek(1).kind == MathTokenKind::kNumber) {
    ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode amount, Unary());
    return MakeNode(MathKind::kUnit, {std::move(amount)}, std::string(*unit));
  }
  std::string text;
  const auto continues = [&] {
    const MathTokenKind kind = Peek().kind;
    return kind == MathTokenKind::kNumber || kind == MathTokenKind::kSymbol ||
           (kind == MathTokenKind::kWord && !IsConjunction());
  };
  if (IsConjunction()) return Unexpected();
  while (continues()) {
    if (!text.empty()) text += " ";
    text += Peek().text;
    ++at_;
  }
  return MakeNode(MathKind::kText, {}, std::move(text));
}

Result<std::vector<MathNode>> MathParser::Items() {
  std::vector<MathNode> items;
  do {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode item, Relation());
    items.push_back(std::move(item));
  } while (SkipSeparators());
  return items;
}

Result<MathNode> MathParser::Brackets() {
  const bool round = IsMark("(");
  ++at_;
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<MathNode> items, Items());
  if (!IsMark(")") && !IsMark("]")) return Unexpected();
  const bool round_close = IsMark(")");
  ++at_;
  if (items.size() == 2 && !(round && round_close)) {
    const std::string brackets = {round ? '(' : '[', round_close ? ')' : ']'};
    return MakeNode(MathKind::kInterval, std::move(items), brackets);
  }
  if (round != round_close) return InvalidArgument("brackets do not match");
  if (items.size() == 1) return std::move(items.front());
  return MakeNode(MathKind::kTuple, std::move(items));
}

Result<MathNode> MathParser::Braces(std::string_view close) {
  if (Skip(close)) return MakeNode(MathKind::kSet, {});
  if (IsSetBuilder()) {
    BUTTRESS_ASSIGN_OR_RETURN(MathNode set, SetBuilder());
    if (!Skip(close)) return Unexpected();
    return set;
  }
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<MathNode> items, Items());
  if (!Skip(close)) return Unexpected();
  if (close == "}" && items.size() == 1) return std::move(items.front());
  return MakeNode(MathKind::kSet, std::move(items));
}

// Recognises "x | ..." and "x ∈ R | ...", or a colon instead of the bar.
bool MathParser::IsSetBuilder() const {
  if (Peek().kind != MathTokenKind::kSymbol) return false;
  const bool real =
      IsMark("∈", 1) && Peek(2).kind == MathTokenKind::kSymbol && Peek(2).text == "reals";
  const std::size_t bar = real ? 3 : 1;
  return IsMark("|", bar) || IsMark(":", bar);
}

// Parses the conditions after the bar, all of which must hold.
Result<MathNode> MathParser::SetBuilder() {
  at_ += IsMark("∈", 1) ? 4 : 2;
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<MathNode> conditions, Items());
  return MakeNode(MathKind::kIntersection, std::move(conditions));
}

Result<MathNode> MathParser::Enclosed(std::string_view close, std::string_view function) {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode inside, Sum());
  if (!Skip(close)) return Unexpected();
  return MakeNode(MathKind::kFunction, {std::move(inside)}, std::string(function));
}

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
  const bool cases = name == "cases";
  std::size_t column = 0;
  while (!at_end()) {
    while (cases && (IsWord("if") || IsWord("for") || IsWord("when"))) ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode entry, Relation());
    matrix.parts.push_back(std::move(entry));
    ++column;
    if (cases) Skip(",");
    if (Skip("&")) continue;
    if (!Skip("\\\\") && !at_end()) return Unexpected();
    if (matrix.columns != 0 && column != matrix.columns)
      return InvalidArgument("rows of different lengths");
    matrix.columns = column;
    column = 0;
  }
  if (matrix.parts.empty() || column != 0) return InvalidArgument("a matrix with an open row");
  ++at_;
  return cases ? ListOfCases(std::move(matrix)) : matrix;
}

}  // namespace buttress
