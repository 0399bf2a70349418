#include "lib/verify/math/equal.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/verify/math/chain.h"
#include "lib/verify/math/evaluate.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxUnordered = 64;  // largest list or set whose members are matched

std::int64_t Nodes(const MathNode& node) {
  std::int64_t nodes = 1;
  for (const MathNode& part : node.parts) nodes += Nodes(part);
  return nodes;
}

bool IsUnordered(const MathNode& node) {
  return node.kind == MathKind::kList || node.kind == MathKind::kSet;
}

// Returns `node` with every ± replaced by its first or its second sign.
MathNode WithSign(MathNode node, std::size_t which) {
  for (MathNode& part : node.parts) part = WithSign(std::move(part), which);
  if (node.kind != MathKind::kPlusMinus) return node;
  MathNode last = std::move(node.parts.back());
  node.parts.pop_back();
  if (node.text[which] == '-') last = MakeNode(MathKind::kNegate, {std::move(last)});
  if (node.parts.empty()) return last;
  return MakeNode(MathKind::kSum, {std::move(node.parts.front()), std::move(last)});
}

// Returns the members of a list or set. A member with ± appears with both signs.
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

// Rewrites (x, y) = (1, 2) as x = 1, y = 2.
std::optional<MathNode> AsDefinitions(const MathNode& node) {
  if (node.kind != MathKind::kRelation || node.text != "=") return std::nullopt;
  const MathNode& names = node.parts[0];
  const MathNode& values = node.parts[1];
  const bool tuples = names.kind == MathKind::kTuple && values.kind == MathKind::kTuple;
  if (!tuples || names.parts.size() != values.parts.size() ||
      !std::all_of(names.parts.begin(), names.parts.end(), IsMathName))
    return std::nullopt;
  MathNode list = MakeNode(MathKind::kList, {});
  for (std::size_t i = 0; i < names.parts.size(); ++i)
    list.parts.push_back(MakeNode(MathKind::kRelation, {names.parts[i], values.parts[i]}, "="));
  return list;
}

// Returns the set that a text names, or the text itself if it names none.
MathNode MeaningOf(MathNode text) {
  constexpr std::string_view kEmpty[] = {"no solution",       "no solutions", "no real solution",
                                         "no real solutions", "empty set",    "the empty set"};
  constexpr std::string_view kReals[] = {"all real numbers", "all reals", "all real",
                                         "real numbers", "the real numbers"};
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), text.text) != std::end(names);
  };
  if (among(kEmpty)) return MakeNode(MathKind::kSet, {});
  if (among(kReals)) return RealLine();
  return text;
}

// Returns the final statement of a relation: 5 for 2 + 3 = 5, x = b for x = a = b, 2/3 for
// 2/3 ≈ 0.67. Returns other relations, such as 2 + 3 = 6, unchanged.
MathNode EndOf(MathNode node, MathComparison& how) {
  if (const std::size_t near = node.text.find('~'); near != std::string::npos) {
    if (near == 0 && IsMathName(node.parts[0]) && HasFreeSymbols(node.parts[0])) {
      node.text[0] = '=';
      return EndOf(std::move(node), how);
    }
    if (!IsNear(node.parts[near], node.parts[near + 1], how)) return node;
    node.parts.resize(near + 1);
    node.text.resize(near);
    if (near == 0) return MathNode(node.parts.front());
    return EndOf(std::move(node), how);
  }
  const bool equations = node.text.find_first_not_of('=') == std::string::npos;
  if (!equations) return node;
  if (IsMathName(node.parts[0])) {
    if (node.parts.size() == 2 || Contradicts(node, how)) return node;
    return MakeNode(MathKind::kRelation, {std::move(node.parts[0]), std::move(node.parts.back())},
                    "=");
  }
  const auto closed = [](const MathNode& part) { return !HasFreeSymbols(part); };
  const auto same = [&](const MathNode& part) {
    return closed(part) && CompareMath(part, node.parts.back(), how) == Sameness::kSame;
  };
  if (std::all_of(node.parts.begin(), node.parts.end() - 1, same))
    return MathNode(node.parts.back());
  if (node.parts.size() == 2 && IsMathName(node.parts[1])) std::swap(node.parts[0], node.parts[1]);
  return node;
}

// Rewrites |x| < a as -a < x < a, and |x| > a as x < -a or x > a.
std::optional<MathNode> WithoutMagnitude(const MathNode& node) {
  const MathNode relation = Ascending(node);
  if (relation.text != "<" && relation.text != "l") return std::nullopt;
  const auto inside = [&](std::size_t i) {
    const MathNode& part = relation.parts[i];
    const bool names = part.kind == MathKind::kFunction && part.text == "abs" &&
                       part.parts[0].kind == MathKind::kSymbol;
    return names ? &part.parts[0] : nullptr;
  };
  const std::string& sign = relation.text;
  if (const MathNode* x = inside(0)) {
    const MathNode& bound = relation.parts[1];
    return MakeNode(MathKind::kRelation, {MakeNode(MathKind::kNegate, {bound}), *x, bound},
                    sign + sign);
  }
  if (const MathNode* x = inside(1)) {
    const MathNode& bound = relation.parts[0];
    return MakeNode(MathKind::kList, {MakeNode(MathKind::kRelation,
                                               {*x, MakeNode(MathKind::kNegate, {bound})}, sign),
                                      MakeNode(MathKind::kRelation, {bound, *x}, sign)});
  }
  return std::nullopt;
}

// Expands ± and unwraps a list of one. In lenient mode also evaluates relations and texts.
MathNode Settled(MathNode node, MathComparison& how) {
  if (Contains(node, MathKind::kPlusMinus) && !IsUnordered(node)) {
    MathNode list = MakeNode(MathKind::kList, {});
    list.parts.push_back(WithSign(node, 0));
    list.parts.push_back(WithSign(std::move(node), 1));
    return list;
  }
  const bool one = node.parts.size() == 1;
  if (one && (node.kind == MathKind::kList || (node.kind == MathKind::kSet && how.lenient())))
    return Settled(MathNode(node.parts.front()), how);
  if (auto definitions = AsDefinitions(node)) return *std::move(definitions);
  if (!how.lenient()) return node;
  if (node.kind == MathKind::kText) return MeaningOf(std::move(node));
  if (node.kind != MathKind::kRelation) return node;
  if (auto unfolded = WithoutMagnitude(node)) return *std::move(unfolded);
  MathNode end = EndOf(std::move(node), how);
  return end.kind == MathKind::kRelation ? end : Settled(std::move(end), how);
}

Sameness CompareOrdered(const std::vector<MathNode>& given, const std::vector<MathNode>& gold,
                        MathComparison& how) {
  if (given.size() != gold.size()) return Sameness::kDifferent;
  Sameness all = Sameness::kSame;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    const Sameness one = CompareMath(given[i], gold[i], how);
    if (one == Sameness::kDifferent) return one;
    if (one == Sameness::kUndecided) all = one;
  }
  return all;
}

Sameness CompareUnordered(std::vector<MathNode> given, const std::vector<MathNode>& gold,
                          MathComparison& how) {
  if (given.size() != gold.size()) return Sameness::kDifferent;
  if (gold.size() > kMaxUnordered) return Sameness::kUndecided;
  for (const MathNode& member : gold) {
    const auto at = std::find_if(given.begin(), given.end(), [&](const MathNode& other) {
      return CompareMath(other, member, how) == Sameness::kSame;
    });
    if (at == given.end()) return Sameness::kDifferent;
    given.erase(at);
  }
  return Sameness::kSame;
}

// Removes duplicate members of a set.
std::vector<MathNode> Distinct(std::vector<MathNode> members, MathComparison& how) {
  if (members.size() > kMaxUnordered) return members;
  std::vector<MathNode> kept;
  for (MathNode& member : members) {
    const auto same = [&](const MathNode& other) {
      return CompareMath(member, other, how) == Sameness::kSame;
    };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(member));
  }
  return kept;
}

MathNode Difference(const MathNode& relation) {
  return MakeNode(MathKind::kSum,
                  {relation.parts[0], MakeNode(MathKind::kNegate, {relation.parts[1]})});
}

Sameness CompareRelations(const MathNode& given_as_is, const MathNode& gold_as_is,
                          MathComparison& how) {
  const MathNode given = Ascending(given_as_is);
  const MathNode gold = Ascending(gold_as_is);
  if (given.text != gold.text) return Sameness::kDifferent;
  if (CompareOrdered(given.parts, gold.parts, how) == Sameness::kSame) return Sameness::kSame;
  if (given.text == "=" || given.text == "<" || given.text == "l") {
    int sign = 0;
    if (CompareMultiples(Difference(given), Difference(gold), sign, how) == Sameness::kSame)
      return FromBool(given.text == "=" || sign > 0);
  }
  return Sameness::kDifferent;
}

// Compares the ratios a : b and c : d.
Sameness CompareRatios(const MathNode& given, const MathNode& gold, MathComparison& how) {
  if (given.parts.size() != gold.parts.size()) return Sameness::kDifferent;
  if (CompareOrdered(given.parts, gold.parts, how) == Sameness::kSame) return Sameness::kSame;
  const bool ranges = !given.text.empty() && !gold.text.empty();  // 1 to 2 is not 10 to 20
  if (ranges || Contains(gold, MathKind::kUnit) || Contains(given, MathKind::kUnit))
    return Sameness::kDifferent;
  for (const MathNode& part : gold.parts) {
    if (CompareMath(part, MakeNumber(0), how) != Sameness::kDifferent) return Sameness::kDifferent;
  }
  for (std::size_t i = 1; i < gold.parts.size(); ++i) {
    const MathNode left = MakeNode(MathKind::kProduct, {given.parts[i], gold.parts[0]});
    const MathNode right = MakeNode(MathKind::kProduct, {gold.parts[i], given.parts[0]});
    if (CompareScalars(left, right, how) != Sameness::kSame) return Sameness::kDifferent;
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
    case MathKind::kIntersection:
    case MathKind::kDifference:
    case MathKind::kRelation:
    case MathKind::kMatrix:
    case MathKind::kRatio:
    case MathKind::kChoice:
      return true;
    default:
      return false;
  }
}

// Returns whether a node is compared as a set of real numbers: operations on sets and, in lenient
// mode, inequalities.
bool IsRealSet(const MathNode& node, const MathNode& other, const MathComparison& how) {
  if (node.kind == MathKind::kUnion || node.kind == MathKind::kIntersection ||
      node.kind == MathKind::kDifference)
    return true;
  const bool relations = node.kind == MathKind::kRelation || node.kind == MathKind::kList;
  return relations && how.lenient() && node.kind != other.kind;
}

// Rewrites x = 1, y = 2 as (1, 2), with values in the order of the names.
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

// Compares inequalities whose bounds are not numbers: x > a.
Sameness CompareIntervals(const MathNode& given, const MathNode& gold, MathComparison& how) {
  const auto given_interval = ToInterval(given);
  const auto gold_interval = ToInterval(gold);
  if (given_interval && !gold_interval && gold.kind == given_interval->kind)
    return CompareMath(*given_interval, gold, how);
  if (gold_interval && !given_interval && given.kind == gold_interval->kind)
    return CompareMath(given, *gold_interval, how);
  return Sameness::kDifferent;
}

bool IsChoiceLetter(const MathNode& node) {
  return node.kind == MathKind::kSymbol && node.text.size() == 1 && node.text[0] >= 'A' &&
         node.text[0] <= 'Z';
}

// Compares (C) 12 by its letter or its text, depending on the other side.
Sameness CompareChoice(const MathNode& choice, const MathNode& other, MathComparison& how) {
  if (IsChoiceLetter(other)) return FromBool(choice.text == other.text);
  return CompareMath(choice.parts[0], other, how);
}

Sameness CompareDifferentKinds(const MathNode& given, const MathNode& gold, MathComparison& how) {
  if (!how.lenient())
    return IsComposite(given) || IsComposite(gold) ? Sameness::kDifferent
                                                   : CompareScalars(given, gold, how);
  if (given.kind == MathKind::kChoice) return CompareChoice(given, gold, how);
  if (gold.kind == MathKind::kChoice) return CompareChoice(gold, given, how);
  if (IsDefinition(given) && !IsComposite(given.parts[1]))
    return CompareMath(given.parts[1], gold, how);
  if (IsDefinition(gold)) return CompareMath(given, gold.parts[1], how);
  if (IsDefinition(given)) return CompareMath(given.parts[1], gold, how);
  if (given.kind == MathKind::kRelation || gold.kind == MathKind::kRelation)
    return CompareIntervals(given, gold, how);
  if (const auto tuple = AsTuple(given)) return CompareMath(*tuple, gold, how);
  if (const auto tuple = AsTuple(gold)) return CompareMath(given, *tuple, how);
  if (IsComposite(given) || IsComposite(gold)) return Sameness::kDifferent;
  return CompareScalars(given, gold, how);
}

Sameness CompareSameKind(const MathNode& given, const MathNode& gold, MathComparison& how) {
  switch (gold.kind) {
    case MathKind::kRelation:
      return CompareRelations(given, gold, how);
    case MathKind::kRatio:
      return CompareRatios(given, gold, how);
    case MathKind::kTuple:
    case MathKind::kDifference:
      return CompareOrdered(given.parts, gold.parts, how);
    case MathKind::kUnion:
    case MathKind::kIntersection:
      return CompareUnordered(given.parts, gold.parts, how);
    case MathKind::kInterval:
    case MathKind::kChoice:
      return given.text == gold.text ? CompareOrdered(given.parts, gold.parts, how)
                                     : Sameness::kDifferent;
    case MathKind::kMatrix:
      return given.columns == gold.columns ? CompareOrdered(given.parts, gold.parts, how)
                                           : Sameness::kDifferent;
    case MathKind::kText:
      return FromBool(given.text == gold.text);
    default:
      return CompareScalars(given, gold, how);
  }
}

}  // namespace

Sameness CompareMath(const MathNode& given_as_is, const MathNode& gold_as_is, MathComparison& how) {
  how.steps_left -= Nodes(given_as_is) + Nodes(gold_as_is);
  if (how.steps_left < 0) return Sameness::kDifferent;
  const MathNode given = Settled(given_as_is, how);
  const MathNode gold = Settled(gold_as_is, how);
  if (IsRealSet(given, gold, how) || IsRealSet(gold, given, how)) {
    if (SameRealSet(given, gold, how) == true) return Sameness::kSame;
  }
  const bool alike = how.lenient() || given.kind == gold.kind;
  if (IsUnordered(given) && IsUnordered(gold) && alike) {
    if (given.kind == MathKind::kList && gold.kind == MathKind::kList)
      return CompareUnordered(Members(given), Members(gold), how);
    return CompareUnordered(Distinct(Members(given), how), Distinct(Members(gold), how), how);
  }
  return given.kind == gold.kind ? CompareSameKind(given, gold, how)
                                 : CompareDifferentKinds(given, gold, how);
}

}  // namespace buttress
