// Relations about names, and sets of real numbers. Two sets are equal if they contain the same of
// all bounds that either names and of the gaps between these.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/verify/math/equal.h"
#include "lib/verify/math/evaluate.h"

namespace buttress {
namespace {

bool IsSymbol(const MathNode& node) { return node.kind == MathKind::kSymbol; }

MathNode IntervalOf(MathNode low, char open, MathNode high, char close) {
  if (open == '(' && close == ')')
    return MakeNode(MathKind::kTuple, {std::move(low), std::move(high)});
  return MakeNode(MathKind::kInterval, {std::move(low), std::move(high)}, {open, close});
}

constexpr std::size_t kMaxBounds = 64;
constexpr long kBits = 768;

// Returns whether the relation is about `variable`. If `variable` is empty, sets it to the
// relation's name.
bool Names(const MathNode& relation, std::string& variable) {
  for (const MathNode& part : relation.parts) {
    if (!IsMathName(part)) continue;
    if (variable.empty()) variable = ToText(part);
    return ToText(part) == variable;
  }
  return false;
}

// Rewrites relations in `variable` as intervals. Returns nullopt if `node` is not a set of real
// numbers. A list of relations is their union.
std::optional<MathNode> AsIntervals(const MathNode& node, bool relations, std::string& variable) {
  switch (node.kind) {
    case MathKind::kInterval: {  // [-∞, 1) is not an interval
      const bool open = (node.text[0] == '(' || !IsInfinite(node.parts[0])) &&
                        (node.text[1] == ')' || !IsInfinite(node.parts[1]));
      return open ? std::optional(node) : std::nullopt;
    }
    case MathKind::kSet:
      return node;
    case MathKind::kTuple:
      return node.parts.size() == 2 ? std::optional(node) : std::nullopt;
    case MathKind::kRelation:
      if (!relations || !Names(node, variable)) return std::nullopt;
      if (node.text == "e") return AsIntervals(node.parts[1], relations, variable);
      if (node.text == "!" && node.parts.size() == 2)
        return MakeNode(MathKind::kDifference,
                        {RealLine(), MakeNode(MathKind::kSet, {node.parts[1]})});
      if (IsDefinition(node)) return MakeNode(MathKind::kSet, {node.parts[1]});
      return ToInterval(node);
    case MathKind::kList:
    case MathKind::kUnion:
    case MathKind::kIntersection:
    case MathKind::kDifference: {
      const bool list = node.kind == MathKind::kList;
      if (list && !relations) return std::nullopt;
      MathNode set = MakeNode(list ? MathKind::kUnion : node.kind, {});
      for (const MathNode& part : node.parts) {
        if (list && part.kind != MathKind::kRelation) return std::nullopt;
        auto inside =
            AsIntervals(part, relations || node.kind == MathKind::kIntersection, variable);
        if (!inside) return std::nullopt;
        set.parts.push_back(*std::move(inside));
      }
      return set;
    }
    default:
      return std::nullopt;
  }
}

// Collects finite bounds and members. Returns false if there are too many or one of them is not a
// known number.
bool CollectBounds(const MathNode& set, std::vector<const MathNode*>& bounds) {
  const bool leaf =
      set.kind == MathKind::kSet || set.kind == MathKind::kInterval || set.kind == MathKind::kTuple;
  for (const MathNode& part : set.parts) {
    if (!leaf) {
      if (!CollectBounds(part, bounds)) return false;
    } else if (!IsInfinite(part) || set.kind == MathKind::kSet) {
      if (HasFreeSymbols(part) || bounds.size() == kMaxBounds) return false;
      bounds.push_back(&part);
    }
  }
  return true;
}

// Returns -1, 0 or 1, or nullopt if one is not a real number or the order cannot be decided.
std::optional<int> Order(const MathNode& a, const MathNode& b, MathComparison& how) {
  if (--how.steps_left < 0) return std::nullopt;
  const auto exact_a = RationalValue(a);
  const auto exact_b = RationalValue(b);
  if (exact_a && exact_b) return *exact_a < *exact_b ? -1 : *exact_a > *exact_b ? 1 : 0;
  const auto ball_a = Evaluate(a, {0, kBits, &how.steps_left});
  const auto ball_b = Evaluate(b, {0, kBits, &how.steps_left});
  if (!ball_a || !ball_b || acb_is_real(ball_a->get()) == 0 || acb_is_real(ball_b->get()) == 0)
    return std::nullopt;
  if (arb_lt(acb_realref(ball_a->get()), acb_realref(ball_b->get())) != 0) return -1;
  if (arb_gt(acb_realref(ball_a->get()), acb_realref(ball_b->get())) != 0) return 1;
  return CompareScalars(a, b, how) == Sameness::kSame ? std::optional(0) : std::nullopt;
}

// The distinct bounds in order. Place 2i + 1 is bound i, and place 2i is the gap before it.
class Places {
 public:
  static std::optional<Places> Of(const std::vector<const MathNode*>& bounds, MathComparison& how) {
    Places places;
    for (const MathNode* bound : bounds) {
      std::size_t at = 0;
      std::optional<int> order = 1;
      for (; at < places.sorted_.size(); ++at) {
        order = Order(*bound, *places.sorted_[at], how);
        if (!order) return std::nullopt;
        if (*order <= 0) break;
      }
      const bool known = at < places.sorted_.size() && *order == 0;
      if (!known)
        places.sorted_.insert(places.sorted_.begin() + static_cast<std::ptrdiff_t>(at), bound);
      places.equal_[bound] = places.sorted_[at];
    }
    return places;
  }

  int count() const { return 2 * static_cast<int>(sorted_.size()) + 1; }

  // Returns -1 for -∞ and count() for ∞. REQUIRES: `bound` is one of the bounds or infinite.
  int Of(const MathNode& bound) const {
    if (IsInfinite(bound)) return bound.kind == MathKind::kNegate ? -1 : count();
    const auto at = std::find(sorted_.begin(), sorted_.end(), equal_.at(&bound));
    return 2 * static_cast<int>(at - sorted_.begin()) + 1;
  }

 private:
  std::vector<const MathNode*> sorted_;
  std::map<const MathNode*, const MathNode*> equal_;  // bound -> the equal one in sorted_
};

// Returns which places a set contains.
std::vector<bool> Held(const MathNode& set, const Places& places) {
  std::vector<bool> held(static_cast<std::size_t>(places.count()), false);
  if (set.kind == MathKind::kSet) {
    for (const MathNode& member : set.parts)
      held[static_cast<std::size_t>(places.Of(member))] = true;
    return held;
  }
  if (set.kind == MathKind::kTuple || set.kind == MathKind::kInterval) {
    const bool closed_low = set.kind == MathKind::kInterval && set.text[0] == '[';
    const bool closed_high = set.kind == MathKind::kInterval && set.text[1] == ']';
    const int low = places.Of(set.parts[0]) + (closed_low ? 0 : 1);
    const int high = places.Of(set.parts[1]) - (closed_high ? 0 : 1);
    for (int i = std::max(low, 0); i <= std::min(high, places.count() - 1); ++i)
      held[static_cast<std::size_t>(i)] = true;
    return held;
  }
  held = Held(set.parts[0], places);
  for (std::size_t part = 1; part < set.parts.size(); ++part) {
    const std::vector<bool> other = Held(set.parts[part], places);
    for (std::size_t i = 0; i < held.size(); ++i)
      held[i] = set.kind == MathKind::kUnion          ? held[i] || other[i]
                : set.kind == MathKind::kIntersection ? held[i] && other[i]
                                                      : held[i] && !other[i];
  }
  return held;
}

}  // namespace

bool IsMathName(const MathNode& node) {
  if (IsSymbol(node)) return true;
  return node.kind == MathKind::kProduct && node.parts.size() == 2 && IsSymbol(node.parts[0]) &&
         IsSymbol(node.parts[1]) &&
         std::string_view("fghPQ").find(node.parts[0].text[0]) != std::string_view::npos;
}

bool IsDefinition(const MathNode& node) {
  return node.kind == MathKind::kRelation && (node.text == "=" || node.text == "e") &&
         IsMathName(node.parts[0]);
}

bool IsInfinite(const MathNode& node) {
  if (node.kind == MathKind::kNegate) return IsInfinite(node.parts[0]);
  return IsSymbol(node) && node.text == "infinity";
}

MathNode Ascending(const MathNode& relation) {
  const auto descends = [](char letter) { return letter == '>' || letter == 'g'; };
  if (!std::all_of(relation.text.begin(), relation.text.end(), descends)) return relation;
  MathNode reversed = relation;
  std::reverse(reversed.parts.begin(), reversed.parts.end());
  std::reverse(reversed.text.begin(), reversed.text.end());
  for (char& letter : reversed.text) letter = letter == '>' ? '<' : 'l';
  return reversed;
}

std::optional<MathNode> ToInterval(const MathNode& node) {
  if (node.kind != MathKind::kRelation || node.text.find_first_not_of("<>lg") != std::string::npos)
    return std::nullopt;
  const MathNode relation = Ascending(node);
  if (relation.text.find_first_of(">g") != std::string::npos) return std::nullopt;
  const auto low_bracket = [&](std::size_t i) { return relation.text[i] == '<' ? '(' : '['; };
  const auto high_bracket = [&](std::size_t i) { return relation.text[i] == '<' ? ')' : ']'; };
  const std::vector<MathNode>& parts = relation.parts;
  const MathNode infinity = MakeSymbol("infinity");
  if (parts.size() == 3 && IsMathName(parts[1]))
    return IntervalOf(parts[0], low_bracket(0), parts[2], high_bracket(1));
  if (parts.size() != 2) return std::nullopt;
  if (IsMathName(parts[0]))
    return IntervalOf(MakeNode(MathKind::kNegate, {infinity}), '(', parts[1], high_bracket(0));
  if (IsMathName(parts[1])) return IntervalOf(parts[0], low_bracket(0), infinity, ')');
  return std::nullopt;
}

std::optional<bool> SameRealSet(const MathNode& given, const MathNode& gold, MathComparison& how) {
  std::string given_variable;
  std::string gold_variable;
  const auto a = AsIntervals(given, how.lenient(), given_variable);
  const auto b = AsIntervals(gold, how.lenient(), gold_variable);
  std::vector<const MathNode*> bounds;
  if (!a || !b || !CollectBounds(*a, bounds) || !CollectBounds(*b, bounds)) return std::nullopt;
  const bool both_named = !given_variable.empty() && !gold_variable.empty();
  if (both_named && given_variable != gold_variable) return false;
  const auto places = Places::Of(bounds, how);
  if (!places) return std::nullopt;
  return Held(*a, *places) == Held(*b, *places);
}

}  // namespace buttress
