#include "lib/verify/math/equal.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/verify/math/evaluate.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxUnordered = 64;  // members of a list or set that are matched

Sameness FromBool(bool same) { return same ? Sameness::kSame : Sameness::kDifferent; }

bool IsUnordered(const MathNode& node) {
  return node.kind == MathKind::kList || node.kind == MathKind::kSet;
}

bool IsSymbol(const MathNode& node) { return node.kind == MathKind::kSymbol; }

// x or f(x): what an equation may define.
bool IsName(const MathNode& node) {
  if (IsSymbol(node)) return true;
  return node.kind == MathKind::kProduct && node.parts.size() == 2 && IsSymbol(node.parts[0]) &&
         IsSymbol(node.parts[1]) &&
         std::string_view("fghPQ").find(node.parts[0].text[0]) != std::string_view::npos;
}

bool IsDefinition(const MathNode& node) {
  return node.kind == MathKind::kRelation && node.text == "=" && IsName(node.parts[0]);
}

// `node` with every ± read as its first or its second sign.
MathNode WithSign(MathNode node, std::size_t which) {
  for (MathNode& part : node.parts) part = WithSign(std::move(part), which);
  if (node.kind != MathKind::kPlusMinus) return node;
  MathNode last = std::move(node.parts.back());
  node.parts.pop_back();
  if (node.text[which] == '-') last = MakeNode(MathKind::kNegate, {std::move(last)});
  if (node.parts.empty()) return last;
  return MakeNode(MathKind::kSum, {std::move(node.parts.front()), std::move(last)});
}

// Members of a list or set, those with ± twice.
std::vector<MathNode> Members(const MathNode& node) {
  std::vector<MathNode> members;
  for (const MathNode& part : node.parts) {
    if (Contains(part, MathKind::kPlusMinus)) {
      members.push_back(WithSign(part, 0));
      members.push_back(WithSign(part, 1));
    } else {
      members.push_back(part);
    }
  }
  return members;
}

// a > b as b < a, so that < and ≤ are left, with = and the rest as they are.
MathNode Ascending(const MathNode& relation) {
  const auto descends = [](char letter) { return letter == '>' || letter == 'g'; };
  if (!std::all_of(relation.text.begin(), relation.text.end(), descends)) return relation;
  MathNode reversed = relation;
  std::reverse(reversed.parts.begin(), reversed.parts.end());
  std::reverse(reversed.text.begin(), reversed.text.end());
  for (char& letter : reversed.text) letter = letter == '>' ? '<' : 'l';
  return reversed;
}

MathNode IntervalOf(MathNode low, char open, MathNode high, char close) {
  if (open == '(' && close == ')')
    return MakeNode(MathKind::kTuple, {std::move(low), std::move(high)});
  return MakeNode(MathKind::kInterval, {std::move(low), std::move(high)}, {open, close});
}

// The interval of an inequality in one symbol: x < 3, 1 ≤ x < 3.
std::optional<MathNode> ToInterval(const MathNode& node) {
  if (node.kind != MathKind::kRelation || node.text.find_first_not_of("<>lg") != std::string::npos)
    return std::nullopt;
  const MathNode relation = Ascending(node);
  if (relation.text.find_first_of(">g") != std::string::npos) return std::nullopt;
  const auto low_bracket = [&](std::size_t i) { return relation.text[i] == '<' ? '(' : '['; };
  const auto high_bracket = [&](std::size_t i) { return relation.text[i] == '<' ? ')' : ']'; };
  const std::vector<MathNode>& parts = relation.parts;
  const MathNode infinity = MakeSymbol("infinity");
  if (parts.size() == 3 && IsName(parts[1]))
    return IntervalOf(parts[0], low_bracket(0), parts[2], high_bracket(1));
  if (parts.size() != 2) return std::nullopt;
  if (IsName(parts[0]))
    return IntervalOf(MakeNode(MathKind::kNegate, {infinity}), '(', parts[1], high_bracket(0));
  if (IsName(parts[1])) return IntervalOf(parts[0], low_bracket(0), infinity, ')');
  return std::nullopt;
}

// What a relation says at the end: 2 + 3 = 5 is 5 (2 + 3 = 6 is none), x = a = b is x = b, 2/3 ≈
// 0.67 is 2/3, x ∈ S is S.
MathNode Settled(MathNode node) {
  if (Contains(node, MathKind::kPlusMinus) && !IsUnordered(node)) {
    MathNode list = MakeNode(MathKind::kList, {});
    list.parts.push_back(WithSign(node, 0));
    list.parts.push_back(WithSign(std::move(node), 1));
    return list;
  }
  if (IsUnordered(node) && node.parts.size() == 1) return Settled(std::move(node.parts.front()));
  if (node.kind != MathKind::kRelation) return node;
  if (const std::size_t near = node.text.find('~'); near != std::string::npos) {
    if (near == 0 && IsName(node.parts[0])) {
      node.text[0] = '=';
      return Settled(std::move(node));
    }
    node.parts.resize(near + 1);
    node.text.resize(near);
    if (near == 0) return Settled(MathNode(node.parts.front()));
    return Settled(std::move(node));
  }
  if (node.text == "e" && IsName(node.parts[0])) return Settled(MathNode(node.parts[1]));
  const bool equations = node.text.find_first_not_of('=') == std::string::npos;
  if (!equations) return node;
  if (IsName(node.parts[0])) {
    if (node.parts.size() == 2) return node;
    return MakeNode(
        MathKind::kRelation, {std::move(node.parts[0]), std::move(node.parts.back())}, "=");
  }
  const auto closed = [](const MathNode& part) { return !HasFreeSymbols(part); };
  const auto same = [&](const MathNode& part) {
    return closed(part) && CompareMath(part, node.parts.back()) == Sameness::kSame;
  };
  if (std::all_of(node.parts.begin(), node.parts.end() - 1, same))
    return MathNode(node.parts.back());
  if (node.parts.size() == 2 && IsName(node.parts[1])) std::swap(node.parts[0], node.parts[1]);
  return node;
}

Sameness CompareOrdered(const std::vector<MathNode>& given, const std::vector<MathNode>& gold) {
  if (given.size() != gold.size()) return Sameness::kDifferent;
  Sameness all = Sameness::kSame;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    const Sameness one = CompareMath(given[i], gold[i]);
    if (one == Sameness::kDifferent) return one;
    if (one == Sameness::kUndecided) all = one;
  }
  return all;
}

Sameness CompareUnordered(std::vector<MathNode> given, const std::vector<MathNode>& gold) {
  if (given.size() != gold.size()) return Sameness::kDifferent;
  if (gold.size() > kMaxUnordered) return Sameness::kUndecided;
  for (const MathNode& member : gold) {
    const auto at = std::find_if(given.begin(), given.end(), [&](const MathNode& other) {
      return CompareMath(other, member) == Sameness::kSame;
    });
    if (at == given.end()) return Sameness::kDifferent;
    given.erase(at);
  }
  return Sameness::kSame;
}

MathNode Difference(const MathNode& relation) {
  return MakeNode(MathKind::kSum,
                  {relation.parts[0], MakeNode(MathKind::kNegate, {relation.parts[1]})});
}

Sameness CompareRelations(const MathNode& given_as_is, const MathNode& gold_as_is) {
  const MathNode given = Ascending(given_as_is);
  const MathNode gold = Ascending(gold_as_is);
  if (given.text != gold.text) return Sameness::kDifferent;
  if (CompareOrdered(given.parts, gold.parts) == Sameness::kSame) return Sameness::kSame;
  if (given.text == "=" || given.text == "<" || given.text == "l") {
    int sign = 0;
    if (CompareMultiples(Difference(given), Difference(gold), sign) == Sameness::kSame)
      return FromBool(given.text == "=" || sign > 0);
  }
  return Sameness::kDifferent;
}

// a : b = c : d.
Sameness CompareRatios(const MathNode& given, const MathNode& gold) {
  if (given.parts.size() != gold.parts.size()) return Sameness::kDifferent;
  if (CompareOrdered(given.parts, gold.parts) == Sameness::kSame) return Sameness::kSame;
  if (Contains(gold, MathKind::kUnit) || Contains(given, MathKind::kUnit))
    return Sameness::kDifferent;
  for (const MathNode& part : gold.parts) {
    if (CompareMath(part, MakeNumber(0)) != Sameness::kDifferent) return Sameness::kDifferent;
  }
  for (std::size_t i = 1; i < gold.parts.size(); ++i) {
    const MathNode left = MakeNode(MathKind::kProduct, {given.parts[i], gold.parts[0]});
    const MathNode right = MakeNode(MathKind::kProduct, {gold.parts[i], given.parts[0]});
    if (CompareScalars(left, right) != Sameness::kSame) return Sameness::kDifferent;
  }
  return Sameness::kSame;
}

bool IsComposite(const MathNode& node) {
  switch (node.kind) {
    case MathKind::kTuple:
    case MathKind::kInterval:
    case MathKind::kSet:
    case MathKind::kList:
    case MathKind::kUnion:
    case MathKind::kRelation:
    case MathKind::kMatrix:
    case MathKind::kRatio:
      return true;
    default:
      return false;
  }
}

// x < 1 or x > 2, a list of inequalities, as a union of intervals.
MathNode AsSet(const MathNode& node) {
  if (const auto interval = ToInterval(node)) return *interval;
  if (node.kind != MathKind::kList) return node;
  MathNode all = MakeNode(MathKind::kUnion, {});
  for (const MathNode& part : node.parts) {
    const auto interval = ToInterval(part);
    if (!interval) return node;
    all.parts.push_back(*interval);
  }
  return all;
}

// x = 1, y = 2 as (1, 2): values in the order of their names.
std::optional<MathNode> AsTuple(const MathNode& list) {
  if (list.kind != MathKind::kList ||
      !std::all_of(list.parts.begin(), list.parts.end(), IsDefinition))
    return std::nullopt;
  std::vector<MathNode> sorted = list.parts;
  std::sort(sorted.begin(), sorted.end(), [](const MathNode& a, const MathNode& b) {
    return ToText(a.parts[0]) < ToText(b.parts[0]);
  });
  MathNode tuple = MakeNode(MathKind::kTuple, {});
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && ToText(sorted[i].parts[0]) == ToText(sorted[i - 1].parts[0])) return std::nullopt;
    tuple.parts.push_back(sorted[i].parts[1]);
  }
  return tuple;
}

Sameness CompareDifferentKinds(const MathNode& given, const MathNode& gold) {
  if (IsDefinition(given) && !IsComposite(given.parts[1])) return CompareMath(given.parts[1], gold);
  if (IsDefinition(gold)) return CompareMath(given, gold.parts[1]);
  if (IsDefinition(given)) return CompareMath(given.parts[1], gold);
  const MathNode given_set = AsSet(given);
  const MathNode gold_set = AsSet(gold);
  if (given_set.kind != given.kind || gold_set.kind != gold.kind) {
    if (given_set.kind == gold_set.kind) return CompareMath(given_set, gold_set);
    return Sameness::kDifferent;
  }
  if (const auto tuple = AsTuple(given)) return CompareMath(*tuple, gold);
  if (const auto tuple = AsTuple(gold)) return CompareMath(given, *tuple);
  if (IsComposite(given) || IsComposite(gold)) return Sameness::kDifferent;
  return CompareScalars(given, gold);
}

}  // namespace

Sameness CompareMath(const MathNode& given_as_is, const MathNode& gold_as_is) {
  const MathNode given = Settled(given_as_is);
  const MathNode gold = Settled(gold_as_is);
  if (IsUnordered(given) && IsUnordered(gold))
    return CompareUnordered(Members(given), Members(gold));
  if (given.kind != gold.kind) return CompareDifferentKinds(given, gold);
  switch (gold.kind) {
    case MathKind::kRelation:
      return CompareRelations(given, gold);
    case MathKind::kRatio:
      return CompareRatios(given, gold);
    case MathKind::kTuple:
      return CompareOrdered(given.parts, gold.parts);
    case MathKind::kUnion:
      return CompareUnordered(given.parts, gold.parts);
    case MathKind::kInterval:
      return given.text == gold.text ? CompareOrdered(given.parts, gold.parts)
                                     : Sameness::kDifferent;
    case MathKind::kMatrix:
      return given.columns == gold.columns ? CompareOrdered(given.parts, gold.parts)
                                           : Sameness::kDifferent;
    case MathKind::kText:
      return FromBool(given.text == gold.text);
    default:
      return CompareScalars(given, gold);
  }
}

}  // namespace buttress
