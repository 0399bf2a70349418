// The grammar from answers to products:
//
//   answer   = relation { sep relation }            sep = "," | ";" | "and" | "or", one or more
//   relation = union { ("=" | "<" | "≤" | "∈" | ...) union }
//   union    = intersection { "∪" intersection }
//   intersection = ratio { ("∩" | "∖") ratio }
//   ratio    = over { (":" | "to") over }           "to" between two numbers
//   over     = sum [ "over" sum ]
//   sum      = product { ("+" | "-" | "±") product }
//   product  = unary { ["*" | "/"] unary } [unit]   without an operator: multiplication, or a mixed
//                                                   number; 7 "out of" 10, 5 June; after a unit a
//                                                   smaller one may follow: 2 hours 30 minutes
#include "lib/verify/math/syntax/parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/verify/math/words.h"

namespace buttress {
namespace {

constexpr std::array<std::string_view, 9> kRelationMarks = {"=", "<", ">", "≤", "≥",
                                                            "≠", "≈", "∈", "≡"};

// Returns the operator's letter in the text of a kRelation; '\0' if the token is not a relation.
char RelationLetter(const MathToken& token) {
  if (token.kind != MathTokenKind::kMark) return '\0';
  for (std::size_t i = 0; i < kRelationMarks.size(); ++i) {
    if (token.text == kRelationMarks[i]) return kRelationLetters[i];
  }
  return '\0';
}

bool IsInteger(const MathNode& node) {
  return node.kind == MathKind::kNumber && node.decimals < 0 && node.value.get_den() == 1;
}

// Returns whether `node` may be the fraction of a mixed number: p/q with 0 < p < q.
bool IsProperFraction(const MathNode& node) {
  return node.kind == MathKind::kQuotient && IsInteger(node.parts[0]) && IsInteger(node.parts[1]) &&
         node.parts[0].value > 0 && node.parts[0].value < node.parts[1].value;
}

// Returns the integer that `node` or its negative is.
bool IsSignedInteger(const MathNode& node) {
  return IsInteger(node) || (node.kind == MathKind::kNegate && IsInteger(node.parts[0]));
}

// Combines -1 and 1/4 to -(1 + 1/4).
MathNode Mixed(MathNode whole, MathNode fraction) {
  if (whole.kind == MathKind::kNegate)
    return MakeNode(MathKind::kNegate, {Mixed(std::move(whole.parts[0]), std::move(fraction))});
  return MakeNode(MathKind::kSum, {std::move(whole), std::move(fraction)});
}

}  // namespace

Result<MathNode> ParseMath(std::string_view text, CommaReading commas) {
  if (text.size() > kMaxAnswerBytes)
    return InvalidArgument("longer than " + std::to_string(kMaxAnswerBytes) + " bytes");
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<MathToken> tokens, LexMath(text, commas));
  return MathParser(std::move(tokens)).Answer();
}

Status MathParser::Unexpected() const {
  if (Peek().kind == MathTokenKind::kEnd) return InvalidArgument("ends too early");
  return InvalidArgument("unexpected '" + Peek().text + "'");
}

bool MathParser::Skip(std::string_view mark) {
  if (!IsMark(mark)) return false;
  ++at_;
  return true;
}

bool MathParser::SkipSeparators() {
  bool skipped = false;
  while (IsMark(",") || IsMark(";") || IsConjunction()) {
    ++at_;
    skipped = true;
  }
  return skipped;
}

Result<MathNode> MathParser::Answer() {
  std::vector<MathNode> items;
  do {
    if (Peek().kind == MathTokenKind::kEnd && !items.empty()) break;  // "1, 2,"
    BUTTRESS_ASSIGN_OR_RETURN(MathNode item, Relation());
    items.push_back(std::move(item));
  } while (SkipSeparators());
  if (Peek().kind != MathTokenKind::kEnd) return Unexpected();
  if (items.size() == 1) return std::move(items.front());
  return MakeNode(MathKind::kList, std::move(items));
}

Result<MathNode> MathParser::Relation() {
  const Deeper deeper(depth_);
  if (depth_ > kMaxMathDepth) return InvalidArgument("nested too deeply");
  BUTTRESS_ASSIGN_OR_RETURN(MathNode first, Union());
  std::vector<MathNode> parts;
  std::string letters;
  parts.push_back(std::move(first));
  for (char letter = RelationLetter(Peek()); letter != '\0'; letter = RelationLetter(Peek())) {
    ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode next, Union());
    letters.push_back(letter);
    parts.push_back(std::move(next));
  }
  if (parts.size() == 1) return std::move(parts.front());
  return MakeNode(MathKind::kRelation, std::move(parts), std::move(letters));
}

Result<MathNode> MathParser::Union() {
  std::vector<MathNode> parts;
  do {
    if (IsUnionLetter()) ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode part, Intersection());
    parts.push_back(std::move(part));
  } while (Skip("∪") || IsUnionLetter());
  if (parts.size() == 1) return std::move(parts.front());
  return MakeNode(MathKind::kUnion, std::move(parts));
}

// Recognises the U in "(0, 1) U (2, 3)".
bool MathParser::IsUnionLetter() const {
  if (at_ == 0 || Peek().kind != MathTokenKind::kSymbol || Peek().text != "U") return false;
  const MathToken& before = tokens_[at_ - 1];
  const bool closes = before.kind == MathTokenKind::kMark &&
                      (before.text == ")" || before.text == "]" || before.text == "\\}");
  return closes && (IsMark("(", 1) || IsMark("[", 1) || IsMark("\\{", 1));
}

Result<MathNode> MathParser::Intersection() {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode set, Ratio());
  for (int count = 0; IsMark("∩") || IsMark("∖"); ++count) {
    if (count > kMaxMathDepth) return InvalidArgument("too many intersections");
    const MathKind kind = IsMark("∩") ? MathKind::kIntersection : MathKind::kDifference;
    ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode next, Ratio());
    set = MakeNode(kind, {std::move(set), std::move(next)});
  }
  return set;
}

Result<MathNode> MathParser::Ratio() {
  std::vector<MathNode> parts;
  bool words = false;
  do {
    if (IsTo()) ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode part, Over());
    parts.push_back(std::move(part));
    words = words || IsTo();
  } while (Skip(":") || IsTo());
  if (parts.size() == 1) return std::move(parts.front());
  return MakeNode(MathKind::kRatio, std::move(parts), words ? "to" : "");
}

// Recognises the "to" in "4 to 3".
bool MathParser::IsTo() const {
  const auto is_number = [](const MathToken& token) {
    return token.kind == MathTokenKind::kNumber ||
           (token.kind == MathTokenKind::kWord && NumberWord(token.text));
  };
  return at_ > 0 && IsWord("to") && is_number(tokens_[at_ - 1]) && is_number(Peek(1));
}

Result<MathNode> MathParser::Over() {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode upper, Sum());
  if (!IsWord("over")) return upper;
  ++at_;
  BUTTRESS_ASSIGN_OR_RETURN(MathNode lower, Sum());
  return MakeNode(MathKind::kQuotient, {std::move(upper), std::move(lower)});
}

Result<MathNode> MathParser::Sum() {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode first, Product());
  std::vector<MathNode> terms;
  terms.push_back(std::move(first));
  const auto sum = [&] {
    return terms.size() == 1 ? std::move(terms.front())
                             : MakeNode(MathKind::kSum, std::move(terms));
  };
  // The unit after the last term applies to all terms: 2 + 3 cm.
  const auto with_unit = [](MathNode node) {
    if (node.kind != MathKind::kSum || node.parts.back().kind != MathKind::kUnit) return node;
    const auto bare = [](const MathNode& part) { return !Contains(part, MathKind::kUnit); };
    if (!std::all_of(node.parts.begin(), node.parts.end() - 1, bare)) return node;
    std::string unit = std::move(node.parts.back().text);
    node.parts.back() = MathNode(node.parts.back().parts[0]);
    return MakeNode(MathKind::kUnit, {std::move(node)}, std::move(unit));
  };
  int signs = 0;
  while (IsMark("+") || IsMark("-") || IsMark("±") || IsMark("∓")) {
    const std::string mark = Peek().text;
    ++at_;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode term, Product());
    if (mark == "+") {
      terms.push_back(std::move(term));
    } else if (mark == "-") {
      terms.push_back(Negated(std::move(term)));
    } else {
      if (++signs > 4) return InvalidArgument("more than four signs ±");
      MathNode both =
          MakeNode(MathKind::kPlusMinus, {sum(), std::move(term)}, mark == "±" ? "+-" : "-+");
      terms.clear();
      terms.push_back(std::move(both));
    }
  }
  return with_unit(sum());
}

bool MathParser::BeginsFactor() const {
  const MathToken& token = Peek();
  if (token.kind == MathTokenKind::kSymbol) return !IsUnionLetter();
  if (token.kind == MathTokenKind::kCommand) return !token.text.starts_with("end:");
  return IsMark("(") || IsMark("[") || IsMark("{") || IsMark("⌊") || IsMark("⌈");
}

Result<MathNode> MathParser::MixedNumber(MathNode whole) {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode numerator, Primary());
  ++at_;
  BUTTRESS_ASSIGN_OR_RETURN(MathNode denominator, Primary());
  MathNode fraction = MakeNode(MathKind::kQuotient, {std::move(numerator), std::move(denominator)});
  if (!IsProperFraction(fraction)) return InvalidArgument("two numbers without a sign between");
  return Mixed(std::move(whole), std::move(fraction));
}

Result<MathNode> MathParser::Product() {
  BUTTRESS_ASSIGN_OR_RETURN(MathNode product, Unary());
  bool joined = false;  // the last factor is part of `product`
  int quotients = 0;
  const auto multiply = [&](MathNode factor) {
    if (product.kind == MathKind::kProduct && joined) {
      product.parts.push_back(std::move(factor));
    } else {
      product = MakeNode(MathKind::kProduct, {std::move(product), std::move(factor)});
    }
    joined = true;
  };
  while (true) {
    if (Skip("*")) {
      BUTTRESS_ASSIGN_OR_RETURN(MathNode factor, Unary());
      multiply(std::move(factor));
    } else if (Skip("/")) {
      if (++quotients > kMaxMathDepth) return InvalidArgument("too many quotients");
      BUTTRESS_ASSIGN_OR_RETURN(MathNode divisor, Unary());
      product = MakeNode(MathKind::kQuotient, {std::move(product), std::move(divisor)});
      joined = false;
    } else if (IsSignedInteger(product) && Peek().kind == MathTokenKind::kNumber && Peek().spaced &&
               IsMark("/", 1) && Peek(2).kind == MathTokenKind::kNumber) {
      BUTTRESS_ASSIGN_OR_RETURN(product, MixedNumber(std::move(product)));
    } else if (BeginsFactor()) {
      const bool mixed = IsSignedInteger(product) && Peek().kind == MathTokenKind::kCommand;
      BUTTRESS_ASSIGN_OR_RETURN(MathNode factor, Power());
      const bool wraps = factor.kind == MathKind::kPercent || factor.kind == MathKind::kDegree;
      if (mixed && wraps && IsProperFraction(factor.parts[0])) {  // 33\frac13\%
        factor.parts[0] = Mixed(std::move(product), std::move(factor.parts[0]));
        product = std::move(factor);
        joined = false;
      } else if (mixed && IsProperFraction(factor)) {
        product = Mixed(std::move(product), std::move(factor));
      } else {
        multiply(std::move(factor));
      }
    } else {
      return WithUnit(std::move(product));
    }
  }
}

// Reads the words after a value: a multiplier, a unit, which is kept, or a noun for the counted
// things, which is dropped.
Result<MathNode> MathParser::WithUnit(MathNode node) {
  const bool out_of = IsWord("out") && Peek(1).text == "of";
  if (IsInteger(node) && (out_of || (IsWord("in") && node.value == 1)) &&
      (Peek(out_of ? 2 : 1).kind == MathTokenKind::kNumber ||
       NumberWord(Peek(out_of ? 2 : 1).text))) {  // 7 out of 10, 1 in 6
    at_ += out_of ? 2 : 1;
    BUTTRESS_ASSIGN_OR_RETURN(MathNode all, Primary());
    return MakeNode(MathKind::kQuotient, {std::move(node), std::move(all)});
  }
  if (IsInteger(node) && Peek().kind == MathTokenKind::kWord && IsMonth(Peek().text))
    return MakeNode(MathKind::kText, {}, tokens_[at_++].text + " " + ToText(node));
  while (Peek().kind == MathTokenKind::kWord) {
    const auto multiplier = MultiplierWord(Peek().text);
    if (!multiplier) break;
    ++at_;
    MathNode& bare = node.kind == MathKind::kUnit ? node.parts[0] : node;
    bare = MakeNode(MathKind::kProduct, {std::move(bare), MakeNumber(*multiplier)});
  }
  const std::string unit = Unit();
  if (Peek().kind == MathTokenKind::kWord && IsOperatorWord(Peek().text) && !IsWord("over") &&
      !IsTo())
    return InvalidArgument("'" + Peek().text + "' behind a value");
  if (unit.empty() || (node.kind == MathKind::kUnit && node.text == unit)) return node;
  if (unit == "percent") return MakeNode(MathKind::kPercent, {std::move(node)});
  if (unit == "degree") return MakeNode(MathKind::kDegree, {std::move(node)});
  return WithSmallerUnit(MakeNode(MathKind::kUnit, {std::move(node)}, unit));
}

// Reads on behind a value with a unit: 2 hours 30 minutes, 3 dollars and 50 cents.
Result<MathNode> MathParser::WithSmallerUnit(MathNode node) {
  const std::size_t joint = IsWord("and") ? 1 : 0;
  const auto size = SizeOf(node.text);
  const auto unit = CanonicalUnit(Peek(joint + 1).text);
  const auto smaller = unit ? SizeOf(*unit) : std::nullopt;
  if (Peek(joint).kind != MathTokenKind::kNumber || !size || !smaller ||
      size->dimension != smaller->dimension || size->size <= smaller->size)
    return node;
  at_ += joint;
  MathNode rest = MakeNumber(Peek().value, Peek().decimals);
  at_ += 2;
  MathNode whole =
      MakeNode(MathKind::kProduct, {std::move(node.parts[0]), MakeNumber(size->To(*smaller))});
  return WithSmallerUnit(MakeNode(MathKind::kUnit,
                                  {MakeNode(MathKind::kSum, {std::move(whole), std::move(rest)})},
                                  std::string(*unit)));
}

// Returns the unit that the words name ("cm^2", "km/hour"), or "" if they only name the counted
// things. Of several units the first counts. The denominator of a currency is ignored ("dollars per
// student").
std::string MathParser::Unit() {
  std::string unit;
  std::string divisor;
  int power = 1;
  bool divides = false;
  while (true) {
    const bool slash = IsMark("/") && !unit.empty() && CanonicalUnit(Peek(1).text).has_value();
    if (slash) ++at_;
    if (!slash &&
        (Peek().kind != MathTokenKind::kWord || IsConjunction() || IsOperatorWord(Peek().text)))
      break;
    const std::string word = Peek().text;
    ++at_;
    divides = divides || slash || word == "per";
    if (word == "square" || word == "sq") power = 2;
    if (word == "cubic" || word == "cu") power = 3;
    const auto canonical = CanonicalUnit(word);
    if (!canonical) continue;
    if (unit == "degree" && (*canonical == "celsius" || *canonical == "fahrenheit")) unit.clear();
    std::string& part = divides ? divisor : unit;
    const std::string raised = UnitPower(power);
    power = 1;
    if (part.empty()) part = std::string(*canonical) + raised;
  }
  if (unit.empty() || divisor.empty() || IsCurrency(unit)) return unit;
  return unit + "/" + divisor;
}

// Returns "^2" for the words before the unit or the exponent after it.
std::string MathParser::UnitPower(int power) {
  const std::size_t brace = IsMark("^") && IsMark("{", 1) ? 1 : 0;
  const MathToken& exponent = Peek(1 + brace);
  if (IsMark("^") && exponent.kind == MathTokenKind::kNumber && (brace == 0 || IsMark("}", 3)) &&
      (exponent.value == 2 || exponent.value == 3)) {
    power = exponent.value == 2 ? 2 : 3;
    at_ += 2 + 2 * brace;
  }
  return power == 1 ? "" : "^" + std::to_string(power);
}

}  // namespace buttress
