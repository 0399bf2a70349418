#include <optional>

#include "lib/verify/prose/clause.h"

namespace buttress {
namespace {

// Reads leftwards from the value to the word that makes it the answer.
class LeftReader {
 public:
  // `counts`: the unit behind the value counts or measures, so that "in 5 ways" may be the answer.
  // `bare`: there is none.
  LeftReader(ProseSpan tokens, bool counts, bool bare)
      : tokens_(tokens), at_(tokens.size()), counts_(counts), bare_(bare) {}

  // Returns whether the clause that ends before `end` leaves what it says as it is.
  Assertion Clause(std::size_t end) const {
    const bool computed = IsComputed(tokens_.first(std::min(end + 1, tokens_.size())));
    std::size_t begin = end;
    bool joined = false;
    bool clauses = false;  // "5 was wrong and the answer is"
    for (std::size_t i = end; i > 0; --i) {
      const ProseToken& token = tokens_[i - 1];
      if (IsSign(token, ",") || IsSign(token, ":") || IsSign(token, "|") || IsWord(token, "but")) {
        if (!computed && !IsSign(token, "|") && !Introduces(tokens_.first(i)))
          return Assertion::kNone;
        break;
      }
      if (i < end && Has(token, kSoWord) && !(IsWord(token, "then") && IsCase(i - 1))) {
        if (IsWord(token, "which")) {
          begin = i - 1;
          if (!computed && i > 1 && IsSign(tokens_[i - 2], ",") &&
              !Introduces(tokens_.first(i - 1)))
            return Assertion::kNone;
        }
        break;
      }
      begin = i - 1;
      if (IsWord(token, "and")) {
        joined = true;
        clauses = clauses || (i < end && Has(tokens_[i], kPassiveWord));
      }
      if (!computed && IsSign(token, "=")) {
        if (joined) break;        // "so x = 3 and the sum is 5"
        return Assertion::kNone;  // "= 40 to fill 240"
      }
      if (!clauses && Denies(tokens_, i - 1) && !DescribesSubject(i - 1, end, computed))
        return Assertion::kDenied;
      if (Hedges(tokens_, i - 1) || IsOneOfSeveral(i - 1)) return Assertion::kOpen;
      const bool condition =
          Has(token, kConditionWord) || OneOf(token, {"since", "because", "bound"});
      const bool premise = i == 1 && OneOf(token, {"since", "because"}) && IsSign(tokens_[i], "≡");
      if (condition && !computed && !premise && !IsOurs(i - 1, end)) return Assertion::kNone;
      if (!computed && OneOf(token, {"may", "might"}) && !token.capital) return Assertion::kOpen;
      if (!computed && Has(token, kModalWord) && DoubtsBehind(i, end)) return Assertion::kOpen;
    }
    const ProseSpan clause = tokens_.subspan(begin, end - begin);
    if (end < tokens_.size() && IsSign(tokens_[end], "=") && LeavesOperand(clause, /*words=*/false))
      return Assertion::kNone;
    if (IsGoal(clause)) return Assertion::kNone;
    const Assertion frame = computed ? Assertion::kStated : ReadFrame(clause, bare_);
    return frame == Assertion::kStated ? Stated() : frame;
  }

  Assertion Read() {
    while (at_ > 0) {
      const ProseToken& token = tokens_[at_ - 1];
      if (token.kind == ProseToken::Kind::kNumber) return Assertion::kNone;
      const auto found = token.kind == ProseToken::Kind::kSign ? ReadSign(token) : ReadWord(token);
      if (found) return *found;
    }
    return Stated();
  }

 private:
  bool Before(std::size_t back, unsigned classes) const {
    return at_ > back && Has(tokens_[at_ - 1 - back], classes);
  }

  Assertion Stated() const { return near_ ? Assertion::kNear : Assertion::kStated; }

  std::optional<Assertion> ReadSign(const ProseToken& token) {
    if (token.text == "=") return Clause(at_ - 1);
    if (token.text == "≈") {
      near_ = true;
      --at_;
      return at_ == 0 || tokens_[at_ - 1].kind == ProseToken::Kind::kSign
                 ? std::nullopt
                 : std::optional(Clause(at_));
    }
    if (token.text == ":" || token.text == "|")
      return Introduces(tokens_.first(at_)) ? Clause(at_ - 1) : Assertion::kNone;
    if (token.text == ",") return BehindComma();
    if (token.text == "≠") return Assertion::kDenied;
    return at_ == 1 && token.text == "*" ? Stated() : Assertion::kNone;  // an item of a list
  }

  // Words that open a clause: "as seen, 5". Not the members of a list, nor "not 6, 5".
  Assertion BehindComma() {
    if (at_ == 3 && IsWord(tokens_[0], "not") && IsValue(tokens_[1])) return Stated();
    if (at_ > 1 && (tokens_[at_ - 2].kind != ProseToken::Kind::kWord || IsValue(tokens_[at_ - 2])))
      return Assertion::kNone;
    std::size_t begin = at_ - 1;
    for (; begin > 0; --begin) {
      const ProseToken& token = tokens_[begin - 1];
      if (IsSign(token, ",") || IsSign(token, ":") || IsWord(token, "but")) break;
      if (Has(token, kConditionWord)) return Assertion::kNone;
    }
    const ProseToken& first = tokens_[begin];
    if (first.text == "i" || first.text == "say") return Assertion::kOpen;  // "it is, I think, 5"
    for (std::size_t i = at_ - 1; i > 0; --i) {
      if (IsWord(tokens_[i - 1], "but")) break;
      if (Denies(tokens_, i - 1)) return Assertion::kDenied;
    }
    return Stated();
  }

  std::optional<Assertion> ReadWord(const ProseToken& token) {
    const unsigned classes = ClassesOf(token);
    if (token.text == "or") return BehindOr();
    if (token.text == "but") return BehindBut();
    if (token.text == "to") return ReadTo();
    if (token.text == "of") return ReadOf();
    if (token.text == "that") return Clause(at_ - 1);
    if (IsMonth(token.text)) return Assertion::kNone;
    if (Denies(tokens_, at_ - 1)) return Assertion::kDenied;
    if ((classes & kHedgeWord) != 0) return Assertion::kOpen;
    if (measure_ && OneOf(token, {"minimum", "maximum"})) return Skip();  // "a minimum value of"
    if ((classes & (kConditionWord | kComparisonWord | kOperationWord)) != 0)
      return Assertion::kNone;
    if ((classes & kNearWord) != 0) return SkipAs(near_);
    if (OrdersOrDescribes(token)) return Assertion::kNone;
    if (at_ == 1 && tokens_.size() > 1 && OneOf(token, {"were", "had", "should"}))
      return Assertion::kNone;  // "Were it 5, ..."
    if ((classes & (kVerbWord | kSoWord)) != 0) return Clause(at_);
    if ((classes & kMeasureWord) != 0) return SkipAs(measure_);
    article_ = article_ || token.text == "the";
    if (token.text == "the" && tokens_.size() == 1) return Assertion::kNone;  // "The 5 boys"
    if ((classes & kPassiveWord) != 0) return Skip();
    const bool person = (classes & kPersonWord) != 0 || token.capital;
    if (person && Before(1, kVerbWord)) return Skip();
    if (person && at_ > 1 &&
        (OneOf(tokens_[at_ - 2], {"mr", "mrs", "ms", "dr"}) || tokens_[at_ - 2].capital))
      return Skip();
    if (OneOf(token, {"mr", "mrs", "ms", "dr"}) && Before(1, kVerbWord)) return Skip();
    if (person && at_ > 3 && IsWord(tokens_[at_ - 2], "of") &&
        OneOf(tokens_[at_ - 3], {"each", "both", "all"}) && Before(3, kVerbWord))
      return Clause(at_ - 3);
    if (token.text == "with" && (measure_ || Before(1, kVerbWord) || Before(2, kVerbWord)))
      return Clause(at_ - 1);
    if (token.text == "up" && Before(1, kVerbWord)) return Skip();
    if (token.text == "by" && at_ > 1 &&
        OneOf(tokens_[at_ - 2], {"increased", "decreased", "rose", "fell", "grew", "dropped"}))
      return Clause(at_ - 1);
    if (OneOf(token, {"at", "in"}) && at_ > 1 &&
        OneOf(tokens_[at_ - 2], {"arrive", "arrived", "out", "results", "resulting"}))
      return Clause(at_ - 1);
    if (at_ > 2 && OneOf(tokens_[at_ - 2], {"the", "his", "her"}) &&
        OneOf(tokens_[at_ - 3], {"take", "takes", "took", "cost", "costs", "leaves", "gives"}))
      return Clause(at_ - 2);  // "takes the pump 5 hours"
    if (token.text == "as" && at_ > 1 && (IsParticiple(tokens_[at_ - 2]) || Before(2, kToWord)))
      return Clause(at_ - 1);
    if (token.text == "in" || token.text == "for" || token.text == "at")
      return measure_ || (counts_ && std::none_of(tokens_.begin(), tokens_.end(), IsValue))
                 ? Clause(at_ - 1)
                 : Assertion::kNone;
    return measure_ && at_ == 1 && !article_ ? std::optional(Stated()) : Assertion::kNone;
  }

  // "Add 5 to both sides", "she wants to reach 5", "the answer has 5 digits".
  bool OrdersOrDescribes(const ProseToken& verb) const {
    if (at_ > 2 && OneOf(tokens_[at_ - 3], {"wants", "wanted", "hopes", "plans", "aims"}))
      return IsWord(tokens_[at_ - 2], "to");
    if (at_ == 1) return OneOf(verb, {"add", "take", "use", "find", "compute", "calculate"});
    if (!OneOf(verb, {"has", "have"})) return false;
    for (std::size_t i = at_ - 1; i > 0 && tokens_[i - 1].kind == ProseToken::Kind::kWord; --i) {
      if (OneOf(tokens_[i - 1], {"answer", "result", "number", "value", "sum", "product", "amount",
                                 "cost", "price", "weight", "area", "age", "average", "total"}))
        return true;
    }
    return false;
  }

  // Reads on before the word.
  std::optional<Assertion> Skip() {
    --at_;
    return std::nullopt;
  }

  std::optional<Assertion> SkipAs(bool& seen) {
    seen = true;
    return Skip();
  }

  static bool IsParticiple(const ProseToken& token) {
    return token.kind == ProseToken::Kind::kWord &&
           (token.text.ends_with("ed") || token.text == "written");
  }

  // "it is 5 or 6" offers 6, "pizzas with one or two toppings" does not.
  Assertion BehindOr() {
    if (at_ < 3 || !(IsValue(tokens_[at_ - 2]) || IsWord(tokens_[at_ - 2], "one")))
      return Assertion::kOpen;
    at_ -= 2;
    return Read() == Assertion::kNone ? Assertion::kNone : Assertion::kOpen;
  }

  Assertion BehindBut() {
    if (at_ > 1 && IsWord(tokens_[at_ - 2], "anything")) return Assertion::kDenied;
    for (std::size_t i = 0; i + 1 < at_; ++i) {
      if (Denies(tokens_, i)) return Stated();
    }
    return Assertion::kNone;
  }

  // "equal to 5", "comes out to 5"; "close to 5" is near.
  std::optional<Assertion> ReadTo() {
    if (at_ > 1 && IsWord(tokens_[at_ - 2], "close")) {
      near_ = true;
      at_ -= 2;
      return std::nullopt;
    }
    const bool out =
        at_ > 1 && (IsWord(tokens_[at_ - 2], "up") || IsWord(tokens_[at_ - 2], "out") ||
                    IsWord(tokens_[at_ - 2], "down"));
    near_ = near_ || Before(2, kNearWord);                                   // "roughly equal to 5"
    if (at_ > 2 && IsWord(tokens_[at_ - 3], "or")) return Assertion::kNone;  // "less or equal to"
    const bool brings = std::ranges::any_of(tokens_.first(at_), [](const ProseToken& token) {
      return OneOf(token, {"bring", "brings", "brought", "bringing"});
    });
    if (Before(1 + (out ? 1 : 0), kToWord) || brings) return Clause(at_ - 1);
    return measure_ ? std::optional(Clause(at_ - 1)) : Assertion::kNone;
  }

  // "a total of 5"
  std::optional<Assertion> ReadOf() {
    if (!Before(1, kMeasureWord)) return Assertion::kNone;
    return Skip();
  }

  // "one possibility", "a possible answer", "I thought": not "the only possibility" or "the largest
  // possible value".
  bool IsOneOfSeveral(std::size_t i) const {
    if (OneOf(tokens_[i], {"thought", "thinks", "claims", "claimed", "believes", "argues",
                           "feeling", "estimate"}))
      return true;
    return i > 0 && OneOf(tokens_[i], {"possibility", "candidate", "possible", "option"}) &&
           OneOf(tokens_[i - 1], {"a", "one", "another"});
  }

  // Whether the "then" at `i` goes on behind a condition: "if x = 5, then".
  bool IsCase(std::size_t i) const {
    return std::ranges::any_of(tokens_.first(i), [](const ProseToken& token) {
      return OneOf(token, {"if", "when"});
    });
  }

  // "if we sum everything we obtain"
  bool IsOurs(std::size_t condition, std::size_t end) const {
    const auto ours = [](const ProseToken& token) { return OneOf(token, {"we", "you"}); };
    return IsWord(tokens_[condition], "if") && condition + 2 < end &&
           ours(tokens_[condition + 1]) &&
           std::ranges::any_of(tokens_.subspan(condition + 2, end - condition - 2), ours);
  }

  // Whether the modal before `i` doubts: "could be 5", "might well equal 5", but not "could buy".
  bool DoubtsBehind(std::size_t i, std::size_t end) const {
    const bool can = IsWord(tokens_[i - 1], "can");
    if (can && i < end && IsWord(tokens_[i], "only")) return false;
    while (i < end && (Has(tokens_[i], kPassiveWord) ||
                       OneOf(tokens_[i], {"as", "well", "very", "turn", "out", "to"})))
      ++i;
    if (i < end && OneOf(tokens_[i], {"think", "say", "expect", "believe"})) return true;
    if (i >= end || !OneOf(tokens_[i], {"be", "equal", "have"})) return false;
    const bool be = IsWord(tokens_[i], "be");
    for (++i; i < end && Has(tokens_[i], kPassiveWord | kMeasureWord | kNearWord); ++i) {
    }
    return be ? i >= end || IsValue(tokens_[i]) : !can && i < end && IsWord(tokens_[i], "been");
  }

  // Whether the denial at `i` belongs to a relative clause of the subject: "those that are not
  // eaten are".
  bool DescribesSubject(std::size_t i, std::size_t end, bool computed) const {
    const auto relates = [&](std::size_t back) {
      return i >= back && OneOf(tokens_[i - back], {"who", "that", "which"});
    };
    if (IsInRelative(i, end)) return true;
    if (!relates(1) && !relates(2)) {
      const ProseToken& next = tokens_[std::min(i + 1, end - 1)];
      return i > 0 && i + 2 < end && !Has(tokens_[i - 1], kVerbWord | kModalWord) &&
             (next.text.ends_with("ing") || next.text.ends_with("ed")) &&
             Has(tokens_[end - 1], kVerbWord);  // "the boxes not opened are"
    }
    constexpr std::size_t kFar = 4;  // "those that do not fit in the box give"
    return computed ||
           std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       tokens_.begin() + static_cast<std::ptrdiff_t>(end) - 1,
                       [](const ProseToken& token) { return Has(token, kCopulaWord); }) ||
           (end > i + 1 && Has(tokens_[end - 1], kCopulaWord)) ||
           (end > i + kFar && Has(tokens_[end - 1], kVerbWord));
  }

  // "the probability it does not rain is", "the k for which there is no root is"
  bool IsInRelative(std::size_t i, std::size_t end) const {
    if (i + 1 >= end || !Has(tokens_[end - 1], kCopulaWord) || i == 0 ||
        Has(tokens_[i - 1], kCopulaWord))
      return false;
    for (std::size_t j = i; j > 1 && tokens_[j - 1].kind == ProseToken::Kind::kWord; --j) {
      const bool quantity = Has(tokens_[j - 2], kMeasureWord | kQuantityWord);
      if (OneOf(tokens_[j - 1], {"which", "who", "whose"}) ||
          (quantity && OneOf(tokens_[j - 1], {"that", "it", "he", "she", "they"})))
        return true;
    }
    return false;
  }

  ProseSpan tokens_;
  std::size_t at_;  // the words from here on are read
  bool counts_;
  bool bare_;
  bool near_ = false;
  bool measure_ = false;
  bool article_ = false;  // "the" stands between
};

}  // namespace

bool Denies(ProseSpan tokens, std::size_t i) {
  if (!Has(tokens[i], kDenialWord)) return false;
  const auto next = [&](std::size_t ahead, std::string_view word) {
    return i + ahead < tokens.size() && IsWord(tokens[i + ahead], word);
  };
  const auto before = [&](std::string_view word) { return i > 0 && IsWord(tokens[i - 1], word); };
  const std::string_view word = tokens[i].text;
  if (word == "no" || word == "without" || word == "not") {
    for (const std::string_view sure : {"doubt", "question", "wonder", "only", "surprise"}) {
      if (next(1, sure) || (word != "no" && next(2, sure))) return false;
    }
    return word != "no" || !(i + 1 < tokens.size() && IsSign(tokens[i + 1], ","));
  }
  if (word == "doubt") return !before("no") && !before("without") && !before("a");
  if (word == "rather") return false;
  if (word == "far") return next(1, "from");
  return !(word == "anything" && !next(1, "but"));
}

bool Hedges(ProseSpan tokens, std::size_t i) {
  const auto is_or = [](const ProseToken& token) { return IsWord(token, "or"); };
  return Has(tokens[i], kHedgeWord) &&
         (!IsWord(tokens[i], "either") || std::ranges::any_of(tokens.subspan(i), is_or));
}

bool IsComputed(ProseSpan tokens) {
  if (tokens.empty() || !IsSign(tokens.back(), "=")) return false;
  const std::size_t reach = std::min<std::size_t>(tokens.size(), 6);
  for (std::size_t back = 1; back <= reach; ++back) {
    const ProseToken& token = tokens[tokens.size() - back];
    if (token.kind == ProseToken::Kind::kNumber) return true;
    if (IsSign(token, ":") || Has(token, kConditionWord)) return false;
  }
  return false;
}

Assertion ReadLeft(ProseSpan tokens, bool counts, bool bare, bool equation) {
  LeftReader reader(tokens, counts, bare);
  if (equation && !tokens.empty() && IsWord(tokens.back(), "for")) return Assertion::kNone;
  const auto borders = [](const ProseToken& token) {  // "we get: \\begin{align*}"
    return IsSign(token, ":") || IsSign(token, "|");
  };
  while (equation && !tokens.empty() && borders(tokens.back()))
    tokens = tokens.first(tokens.size() - 1);
  return equation ? reader.Clause(tokens.size()) : reader.Read();
}

}  // namespace buttress
