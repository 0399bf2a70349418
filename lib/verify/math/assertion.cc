#include "lib/verify/math/assertion.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "lib/verify/math/prose.h"
#include "lib/verify/math/prose_words.h"
#include "lib/verify/math/words.h"

namespace buttress {
namespace {

using ProseSpan = std::span<const ProseToken>;

bool IsWord(const ProseToken& token, std::string_view word) {
  return token.kind == ProseToken::Kind::kWord && token.text == word;
}

bool IsSign(const ProseToken& token, std::string_view sign) {
  return token.kind == ProseToken::Kind::kSign && token.text == sign;
}

bool OneOf(const ProseToken& token, std::initializer_list<std::string_view> words) {
  return token.kind == ProseToken::Kind::kWord &&
         std::ranges::find(words, token.text) != words.end();
}

unsigned ClassesOf(const ProseToken& token) {
  return token.kind == ProseToken::Kind::kWord ? ProseClasses(token.text) : 0;
}

bool Has(const ProseToken& token, unsigned classes) { return (ClassesOf(token) & classes) != 0; }

bool IsValue(const ProseToken& token) {
  return token.kind == ProseToken::Kind::kNumber ||
         (token.kind == ProseToken::Kind::kWord && token.text != "one" &&
          NumberWord(token.text).has_value());
}

// Returns whether the token at `i` denies: not the "no" of "no doubt" or the "not" of "not only".
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

// Returns whether the tokens end with the equals sign of a computation: "6 x 7 =".
bool IsComputed(ProseSpan tokens) {
  if (tokens.empty() || !IsSign(tokens.back(), "=")) return false;
  const std::size_t reach = std::min<std::size_t>(tokens.size(), 4);
  const ProseSpan last = tokens.last(reach);
  return std::ranges::any_of(
      last, [](const ProseToken& token) { return token.kind == ProseToken::Kind::kNumber; });
}

// Reads leftwards from the value to the word that makes it the answer.
class LeftReader {
 public:
  // `counts`: the unit behind the value counts or measures, so that "in 5 ways" may be the answer.
  LeftReader(ProseSpan tokens, bool counts)
      : tokens_(tokens), at_(tokens.size()), counts_(counts) {}

  // Returns whether the clause that ends before `end` leaves what it says as it is.
  Assertion Clause(std::size_t end) const {
    const bool computed = IsComputed(tokens_.first(std::min(end + 1, tokens_.size())));
    for (std::size_t i = end; i > 0; --i) {
      const ProseToken& token = tokens_[i - 1];
      if (IsSign(token, ",") || IsSign(token, ":") || IsWord(token, "but")) break;
      if (i < end && Has(token, kSoWord)) break;
      if (!computed && IsSign(token, "=")) return Assertion::kNone;  // "= 40 to fill 240"
      if (Denies(tokens_, i - 1) && !DescribesSubject(i - 1, end, computed))
        return Assertion::kDenied;
      if (Has(token, kHedgeWord) || IsOneOfSeveral(i - 1)) return Assertion::kOpen;
      const bool condition =
          Has(token, kConditionWord) || OneOf(token, {"since", "because", "bound"});
      if (condition && !computed) return Assertion::kNone;
      if (Has(token, kModalWord) && DoubtsBehind(i, end)) return Assertion::kOpen;
    }
    return Stated();
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
    if (token.text == ":" || token.text == "|") return Clause(at_ - 1);
    if (token.text == ",") return BehindComma();
    if (token.text == "≠") return Assertion::kDenied;
    if (token.text == "<" && at_ == 1) return Stated();                  // a quote in Markdown
    return at_ == 1 && token.text == "*" ? Stated() : Assertion::kNone;  // an item of a list
  }

  // Words that open a clause: "as seen, 5". Not the members of a list, nor "not 6, 5".
  Assertion BehindComma() {
    if (at_ > 1 && (tokens_[at_ - 2].kind != ProseToken::Kind::kWord || IsValue(tokens_[at_ - 2])))
      return Assertion::kNone;
    for (std::size_t i = at_ - 1; i > 0; --i) {
      if (IsWord(tokens_[i - 1], "but")) break;
      if (Denies(tokens_, i - 1)) return Assertion::kDenied;
    }
    return Stated();
  }

  std::optional<Assertion> ReadWord(const ProseToken& token) {
    const unsigned classes = ClassesOf(token);
    if (token.text == "or") return Assertion::kOpen;
    if (token.text == "but") return BehindBut();
    if (token.text == "to") return ReadTo();
    if (token.text == "of") return ReadOf();
    if (token.text == "that") return Clause(at_ - 1);
    if (IsMonth(token.text)) return Assertion::kNone;
    if (Denies(tokens_, at_ - 1)) return Assertion::kDenied;
    if ((classes & kHedgeWord) != 0) return Assertion::kOpen;
    if ((classes & (kConditionWord | kComparisonWord | kOperationWord)) != 0)
      return Assertion::kNone;
    if ((classes & kNearWord) != 0) return SkipAs(near_);
    if (OrdersOrDescribes(token)) return Assertion::kNone;
    if ((classes & (kVerbWord | kSoWord)) != 0) return Clause(at_);
    if ((classes & kMeasureWord) != 0) return SkipAs(measure_);
    if ((classes & kPassiveWord) != 0) return Skip();
    const bool person = (classes & kPersonWord) != 0 || token.capital;
    if (person && Before(1, kVerbWord)) return Skip();
    if (token.text == "with" && (measure_ || Before(1, kVerbWord) || Before(2, kVerbWord)))
      return Clause(at_ - 1);
    if (token.text == "up" && Before(1, kVerbWord)) return Skip();
    if (token.text == "at" && at_ > 1 && OneOf(tokens_[at_ - 2], {"arrive", "arrived", "out"}))
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
    return measure_ && at_ == 1 ? std::optional(Stated()) : Assertion::kNone;
  }

  // "Add 5 to both sides", "the answer has 5 digits".
  bool OrdersOrDescribes(const ProseToken& verb) const {
    if (at_ == 1) return OneOf(verb, {"add", "take", "use", "find", "compute", "calculate"});
    return OneOf(verb, {"has", "have"}) && OneOf(tokens_[at_ - 2], {"answer", "result"});
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
    near_ = near_ || Before(2, kNearWord);  // "roughly equal to 5"
    if (Before(1 + (out ? 1 : 0), kToWord) || Before(1, kMeasureWord)) return Clause(at_ - 1);
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
    if (OneOf(tokens_[i], {"thought", "feeling", "estimate"})) return true;
    return i > 0 && OneOf(tokens_[i], {"possibility", "candidate", "possible", "option"}) &&
           OneOf(tokens_[i - 1], {"a", "one", "another"});
  }

  // Whether the modal before `i` doubts: "could be 5", "might well equal 5", but not "could buy".
  bool DoubtsBehind(std::size_t i, std::size_t end) const {
    const bool can = IsWord(tokens_[i - 1], "can");
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
    if (!relates(1) && !relates(2)) return false;
    return computed ||
           std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       tokens_.begin() + static_cast<std::ptrdiff_t>(end) - 1,
                       [](const ProseToken& token) { return Has(token, kCopulaWord); }) ||
           (end > i + 1 && Has(tokens_[end - 1], kCopulaWord));
  }

  ProseSpan tokens_;
  std::size_t at_;  // the words from here on are read
  bool counts_;
  bool near_ = false;
  bool measure_ = false;
};

// Reads rightwards from the value.
class RightReader {
 public:
  // `computed`: the value is the result of a computation, of which the words behind it may say
  // anything: "42 were not sold".
  RightReader(ProseSpan tokens, bool computed) : tokens_(tokens), computed_(computed) {}

  Assertion Read() {
    constexpr std::size_t kMaxUnitWords = 6;
    for (std::size_t words = 0; at_ < tokens_.size() && words <= kMaxUnitWords; ++at_, ++words) {
      const auto found = tokens_[at_].kind == ProseToken::Kind::kWord ? ReadWord() : ReadSign();
      if (found) return *found;
    }
    return Assertion::kStated;
  }

 private:
  bool Next(std::size_t ahead, unsigned classes) const {
    return at_ + ahead < tokens_.size() && Has(tokens_[at_ + ahead], classes);
  }

  bool NextIs(std::size_t ahead, std::string_view word) const {
    return at_ + ahead < tokens_.size() && IsWord(tokens_[at_ + ahead], word);
  }

  // Returns whether a value follows, with at most `words` words before it.
  bool ValueFollows(std::size_t words) const {
    for (std::size_t i = at_ + 1; i < tokens_.size() && i <= at_ + 1 + words; ++i) {
      if (IsValue(tokens_[i])) return true;
      if (IsSign(tokens_[i], ",")) return false;
    }
    return false;
  }

  // "5, sorry, I meant 6"
  bool Retracts(std::size_t i) const {
    return i < tokens_.size() && OneOf(tokens_[i], {"sorry", "wait", "oops"});
  }

  // Returns whether the value behind the comma is the subject of a clause: "5, 6 is wrong".
  bool ClauseFollows() const {
    return at_ + 2 < tokens_.size() &&
           (OneOf(tokens_[at_ + 2], {"is", "was"}) || Modal(tokens_[at_ + 2]));
  }

  std::optional<Assertion> ReadSign() {
    const ProseToken& token = tokens_[at_];
    if (token.kind == ProseToken::Kind::kNumber) return Assertion::kNone;
    if (token.text == "%") return std::nullopt;
    if (token.text == "/")
      return at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind == ProseToken::Kind::kWord
                 ? std::nullopt
                 : std::optional(Assertion::kNone);  // 5 miles/hour
    if (token.text == ",")
      return Retracts(at_ + 1)                     ? Assertion::kDenied
             : ValueFollows(0) && !ClauseFollows() ? Assertion::kOpen
                                                   : Assertion::kStated;
    const bool ends = token.text == ":" || token.text == "|";
    return ends && !ValueFollows(0) ? Assertion::kStated : Assertion::kNone;
  }

  std::optional<Assertion> ReadWord() {
    const ProseToken& token = tokens_[at_];
    const unsigned classes = ClassesOf(token);
    if (token.text == "or") return BehindOr();
    if (token.text == "and")
      return ValueFollows(1) && !NextIs(1, "not") ? Assertion::kOpen : Assertion::kStated;
    if (OneOf(token, {"not", "never"}) && !ValueFollows(2) && !computed_) return Assertion::kDenied;
    if ((at_ == 0 && OneOf(token, {"fail", "fails", "failed"})) || Retracts(at_))
      return Assertion::kDenied;
    if ((classes & kContrastWord) != 0) return Assertion::kStated;
    const bool operates = (token.text == "to" && NextIs(1, "the") && NextIs(2, "power")) ||
                          (token.text == "per" && NextIs(1, "cent") && ValueFollows(2));
    if (operates) return Assertion::kNone;
    if (token.text == "to") return ValueFollows(0) ? Assertion::kNone : Assertion::kStated;
    if (token.text == "at" && at_ + 1 < tokens_.size() &&
        OneOf(tokens_[at_ + 1], {"most", "least", "best", "worst", "minimum", "maximum"}))
      return Assertion::kNone;
    if (token.text == "of" || token.text == "out")
      return ValueFollows(3) && !(computed_ && at_ > 0) ? Assertion::kNone : Assertion::kStated;
    if (token.text == "give" && NextIs(1, "or")) return Assertion::kNear;
    if ((classes & kComparisonWord) != 0) return ReadComparison();
    if ((classes & kConditionWord) != 0) return computed_ ? Assertion::kStated : Assertion::kNone;
    if ((classes & kOperationWord) != 0) return Assertion::kNone;
    if (token.text == "times" && (ValueFollows(1) || NextIs(1, "as") || Next(1, kComparisonWord)))
      return Assertion::kNone;
    if ((classes & kHedgeWord) != 0) return Assertion::kOpen;
    if ((classes & kNearWord) != 0) return Assertion::kNear;
    if ((classes & kCopulaWord) != 0 || (classes & kModalWord) != 0 || Modal(token))
      return Predicate();
    if (DeniesBefore(at_)) return Assertion::kDenied;
    if (token.text == "in" && at_ == 0 && ValueFollows(0) && tokens_.size() == 2)
      return Assertion::kNone;  // 1 in 6
    return (classes & kPhraseWord) != 0 ? std::optional(Assertion::kStated) : std::nullopt;
  }

  // Whether the word at `i` denies the value before it.
  bool DeniesBefore(std::size_t i) const {
    return tokens_[i].text.ends_with("n't") ||
           OneOf(tokens_[i], {"not", "never", "wrong", "false", "incorrect", "impossible",
                              "mistaken", "excluded", "neither", "nor", "cannot", "rejected"});
  }

  static bool Modal(const ProseToken& token) {
    return token.text == "would" || token.text == "should" || token.text == "must" ||
           token.text == "will" || token.text == "isn't" || token.text == "cannot" ||
           token.text.ends_with("n't");
  }

  Assertion BehindOr() const {
    if (NextIs(1, "so") || NextIs(1, "thereabouts")) return Assertion::kNear;
    return ValueFollows(4) || Next(1, kHedgeWord) ? Assertion::kOpen : Assertion::kNone;
  }

  // "5 more than 3" is no answer; "5 more apples than Tom" is.
  std::optional<Assertion> ReadComparison() {
    if (NextIs(1, "or")) return Assertion::kNear;  // more or less
    for (std::size_t i = at_; i + 1 < tokens_.size(); ++i) {
      if (!IsWord(tokens_[i], "than")) continue;
      const ProseToken& other = tokens_[i + 1];
      const bool value = IsValue(other) || other.text.size() == 1 || other.text.ends_with("'s") ||
                         OneOf(other, {"twice", "half", "double", "triple"});
      return value ? Assertion::kNone : Assertion::kStated;
    }
    return at_ + 1 == tokens_.size() && OneOf(tokens_[at_], {"less", "fewer"}) && at_ == 0
               ? std::optional(Assertion::kNone)
               : std::nullopt;
  }

  // "is the answer", "are left", "will come"; not "is wrong", "is even", "would be too many".
  Assertion Predicate() const {
    if (computed_ && at_ > 0) return Assertion::kStated;
    const ProseToken& verb = tokens_[at_];
    const bool singular =
        verb.text == "is" || verb.text == "was" || verb.text == "must" || verb.text == "should";
    const bool plural = verb.text == "are" || verb.text == "were" || verb.text == "will" ||
                        (verb.text == "can" && at_ > 0);
    bool answers = false;
    for (std::size_t i = at_; i < tokens_.size(); ++i) {
      const ProseToken& token = tokens_[i];
      if (IsSign(token, ",")) break;
      if (DeniesBefore(i)) return Assertion::kDenied;
      if (IsWord(token, "too") || IsValue(token)) return Assertion::kNone;
      if (Has(token, kHedgeWord)) return Assertion::kOpen;
      answers = answers || Has(token, kMeasureWord) || IsWord(token, "correct") ||
                IsWord(token, "right") || IsWord(token, "left") || IsWord(token, "what") ||
                IsWord(token, "it") || IsWord(token, "how");
    }
    return plural || (singular && answers) ? Assertion::kStated : Assertion::kNone;
  }

  ProseSpan tokens_;
  bool computed_;
  std::size_t at_ = 0;
};

// Words that doubt the whole sentence, wherever they stand: "maybe", "not sure", "cannot find",
// "a chance that". A clause that concedes is left out: "though 6 seems right, it is 5".
bool DoubtsAll(ProseSpan tokens) {
  std::size_t i = 0;
  if (!tokens.empty() && OneOf(tokens[0], {"though", "although", "even", "while"}))
    while (i < tokens.size() && !IsSign(tokens[i], ",")) ++i;
  for (; i < tokens.size(); ++i) {
    if (Has(tokens[i], kHedgeWord)) return true;
    if (OneOf(tokens[i], {"chance", "possibility", "possible"}) && i + 1 < tokens.size() &&
        OneOf(tokens[i + 1], {"that", "it", "it's"}))
      return true;
    if (i > 1 && IsWord(tokens[i - 1], "to") && IsWord(tokens[i - 2], "had") &&
        OneOf(tokens[i], {"pick", "choose", "bet"}))
      return true;
    const bool known = OneOf(tokens[i], {"sure", "certain", "idea", "clue", "find", "determine",
                                         "tell", "say", "know", "solve"});
    for (std::size_t back = 1; known && back <= std::min<std::size_t>(i, 3); ++back) {
      if (Denies(tokens, i - back)) return true;
    }
  }
  return false;
}

// Whether "or" stands between two values of the sentence; not in "half of 34, or 34/2 = 17".
bool OffersSeveral(const ProseAround& around) {
  const auto is_or = [](const ProseToken& token) { return IsWord(token, "or"); };
  const auto last = std::find_if(around.left.rbegin(), around.left.rend(), is_or);
  const bool restates = !around.left.empty() && IsSign(around.left.back(), "=") &&
                        around.left.size() > 1 &&
                        around.left.end()[-2].kind == ProseToken::Kind::kNumber;
  if (!restates && last != around.left.rend() && std::any_of(last, around.left.rend(), IsValue))
    return true;
  const auto first = std::ranges::find_if(around.right, is_or);
  return std::any_of(first, around.right.end(), IsValue);
}

bool Counts(ProseSpan right) {
  if (right.empty() || right[0].kind != ProseToken::Kind::kWord) return false;
  const std::string_view word = right[0].text;
  return word == "ways" || word == "way" || CanonicalUnit(word).has_value();
}

// Whether what stands behind a letter is the text of its option: "(B) $x^2$", "B: 12".
bool IsOptionText(std::string_view text, std::string_view letter, ProseSpan right) {
  std::string_view rest = text.substr(static_cast<std::size_t>(letter.data() - text.data()) + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of("*}"), rest.size()));
  if (rest.empty() || std::string_view("):.").find(rest[0]) == std::string_view::npos) return false;
  if (!right.empty() && IsSign(right[0], ":")) right = right.subspan(1);  // the mark itself
  if (right.empty()) return true;
  const ProseToken& next = right[0];
  constexpr unsigned kGoesOn =
      kCopulaWord | kContrastWord | kDenialWord | kHedgeWord | kModalWord | kPhraseWord;
  return !IsValue(next) && !IsSign(next, ",") && !IsSign(next, "/") && !Has(next, kGoesOn) &&
         !OneOf(next, {"and", "or"});
}

}  // namespace

Assertion ReadAssertion(std::string_view text, std::string_view span, bool equation,
                        ProseValues values) {
  ProseAround around = SentenceAround(text, span, values);
  if (values == ProseValues::kLetters && IsOptionText(text, span, around.right))
    around.right.clear();
  if (around.asks) return Assertion::kNone;
  LeftReader reader(around.left, Counts(around.right));
  const Assertion left = equation ? reader.Clause(around.left.size()) : reader.Read();
  if (left != Assertion::kStated && left != Assertion::kNear) return left;
  const Assertion right = RightReader(around.right, IsComputed(around.left)).Read();
  if (right != Assertion::kStated && right != Assertion::kNear) return right;
  if (OffersSeveral(around) || DoubtsAll(around.left) || DoubtsAll(around.right))
    return Assertion::kOpen;
  return left == Assertion::kNear ? left : right;
}

}  // namespace buttress
