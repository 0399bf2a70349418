#include <optional>

#include "lib/verify/prose/clause.h"
#include "lib/verify/prose/sequel.h"

namespace buttress {
namespace {

// Reads rightwards from the value.
class RightReader {
 public:
  RightReader(ProseSpan tokens, bool computed, Subject subject)
      : tokens_(tokens),
        computed_(computed),
        subject_(subject == Subject::kAlone),
        named_(subject == Subject::kNamed) {}

  Assertion Read() {
    if (tokens_.size() == 2 && IsWord(tokens_[0], "it") && IsWord(tokens_[1], "is"))
      return Assertion::kStated;  // "5 it is."
    if (const auto found = ReadRest()) return *found;
    if (subject_ && IsOneOfSeveral()) return Assertion::kOpen;
    if (subject_ && (IsVerbOfSubject() || !EndsAsNoun())) return Assertion::kNone;
    if (named_) {
      for (std::size_t i = 0; i < tokens_.size() && !IsSign(tokens_[i], ","); ++i) {
        if (Has(tokens_[i], kCopulaWord)) return at_ = i, Predicate();  // "the answer 5 is wrong"
      }
    }
    constexpr std::size_t kMaxUnitWords = 6;
    for (std::size_t words = 0; at_ < tokens_.size() && words <= kMaxUnitWords; ++at_, ++words) {
      const auto found = tokens_[at_].kind == ProseToken::Kind::kWord ? ReadWord() : ReadSign();
      if (found) return *found;
    }
    return Assertion::kStated;
  }

 private:
  // What the rest of the sentence makes of the value, wherever it stands.
  std::optional<Assertion> ReadRest() const {
    if (computed_) return std::nullopt;
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
      const ProseToken& token = tokens_[i];
      const ProseToken& next = tokens_[i + 1];
      if (Bounds(i)) return Assertion::kNone;
      if (IsWord(token, "i") && token.capital &&
          !OneOf(next, {"get", "find", "have", "conclude", "obtain", "got"}))
        return Assertion::kOpen;  // "5, I think"
      if (i > 0 && OneOf(token, {"if", "unless", "provided", "assuming"})) return Assertion::kNone;
      if (IsWord(token, "long") && i > 0 && IsWord(tokens_[i - 1], "as") && IsWord(next, "as"))
        return Assertion::kNone;
      if (i > 0 && IsWord(token, "and") && IsValue(next) && !AnyVerbOrValue(i))
        return Assertion::kOpen;
      if (GoesOn(i)) return Assertion::kNone;
    }
    return std::nullopt;
  }

  // "5 were sold on Monday and 6 on Tuesday"
  bool IsOneOfSeveral() const {
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (IsWord(tokens_[i], "and") && IsValue(tokens_[i + 1])) return !computed_;
    }
    return false;
  }

  // "5 cups of tea or fewer"; "more or less" is near.
  bool Bounds(std::size_t i) const {
    const ProseToken& next = tokens_[i + 1];
    if (IsWord(tokens_[i], "and")) return i < 5 && OneOf(next, {"more", "above", "up"});
    if (!IsWord(tokens_[i], "or") || (i > 0 && Has(tokens_[i - 1], kComparisonWord))) return false;
    return Has(next, kComparisonWord) || OneOf(next, {"above", "below", "over", "under"});
  }

  bool AnyVerbOrValue(std::size_t end) const {
    return std::ranges::any_of(tokens_.first(end), [](const ProseToken& token) {
      return IsValue(token) || Has(token, kVerbWord | kCopulaWord) || IsSign(token, ",");
    });
  }

  // Whether a clause begins at `i` for which the value is a premise, or which qualifies it: "5, but
  // the fee is due", "5, so we multiply", "5, then lost some".
  bool GoesOn(std::size_t i) const {
    const ProseToken& token = tokens_[i];
    const ProseToken& next = tokens_[i + 1];
    const bool behind_comma = i > 0 && IsSign(tokens_[i - 1], ",");
    if (IsWord(token, "and") && OneOf(next, {"need", "must", "want"})) return true;
    if (IsWord(token, "but")) return !Denies(tokens_, i + 1) && !IsValue(next);
    if (!behind_comma) return false;
    if (IsWord(token, "we")) return true;
    if (OneOf(token, {"then", "yet", "though", "although", "however"})) return true;
    const bool person = OneOf(next, {"we", "you", "next", "then", "now", "still", "must"});
    const bool done = i + 2 < tokens_.size() && Has(tokens_[i + 2], kCopulaWord);
    if (OneOf(token, {"so", "and", "which"}) && person && !done) return true;
    return IsWord(token, "which") && Has(next, kCopulaWord) && i + 2 < tokens_.size() &&
           OneOf(tokens_[i + 2], {"a", "an", "wrong", "too"});
  }

  // Whether a few words without a verb or preposition are the noun that the value counts, and so a
  // sentence: "5 red apples", "5 apples left"; not "5 looks plausible".
  bool EndsAsNoun() const {
    if (tokens_.empty() || std::ranges::any_of(tokens_, [](const ProseToken& token) {
          return token.kind != ProseToken::Kind::kWord || IsWord(token, "of") ||
                 Has(token, kVerbWord | kPhraseWord | kContrastWord | kModalWord | kMeasureWord);
        }))
      return true;
    const ProseToken& last = tokens_.back();
    return (last.text.ends_with('s') && !last.text.ends_with("ss")) || last.text.ends_with("ed") ||
           last.text.ends_with("ing") || last.text.ends_with("ly") || tokens_.size() == 1 ||
           CanonicalUnit(last.text) || Has(last, kPassiveWord | kComparisonWord) ||
           OneOf(last, {"people", "children", "men", "women", "more", "each"});
  }

  // "5 leads to a contradiction"; not "5 apples", "5 hours to go".
  bool IsVerbOfSubject() const {
    if (tokens_.size() < 2 || tokens_[0].kind != ProseToken::Kind::kWord ||
        !tokens_[0].text.ends_with('s') || Has(tokens_[0], kCopulaWord))
      return false;
    const auto article = [&](std::size_t i) {
      return i < tokens_.size() &&
             OneOf(tokens_[i], {"the", "a", "an", "this", "that", "all", "our", "every", "both"});
    };
    return article(1) || (IsWord(tokens_[1], "to") && article(2));
  }

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
      if (IsSign(tokens_[i], ",") || OneOf(tokens_[i], {"because", "since"})) return false;
    }
    return false;
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
    if (token.text == ",") {
      if (TurnsAgainst(tokens_.subspan(at_ + 1))) return Assertion::kDenied;
      if (at_ == 0 && Next(1, kCopulaWord)) return ++at_, Predicate();  // "my answer, 5, is wrong"
      return ValueFollows(0) && !ClauseFollows() ? Assertion::kOpen : Assertion::kStated;
    }
    if (token.text == "|" && at_ + 1 < tokens_.size() && Denies(tokens_, at_ + 1))
      return Assertion::kDenied;  // the next cell
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
    if ((at_ == 0 && OneOf(token, {"fail", "fails", "failed"})) ||
        OneOf(token, {"sorry", "wait", "oops"}))
      return Assertion::kDenied;
    if ((classes & kContrastWord) != 0) return Assertion::kStated;
    const bool operates = (token.text == "to" && NextIs(1, "the") && NextIs(2, "power")) ||
                          (token.text == "per" && NextIs(1, "cent") && ValueFollows(2));
    if (operates) return Assertion::kNone;
    if (token.text == "to") return ValueFollows(0) ? Assertion::kNone : Assertion::kStated;
    if (token.text == "at" && at_ + 1 < tokens_.size() &&
        OneOf(tokens_[at_ + 1], {"most", "least", "best", "worst", "minimum", "maximum"}))
      return Assertion::kNone;
    if (token.text == "of" || token.text == "out") {
      if (ValueFollows(3) && !(computed_ && at_ > 0)) return Assertion::kNone;
      const bool unit = at_ == 1 && tokens_[0].kind == ProseToken::Kind::kWord;  // "cups of tea"
      return unit && !computed_ && token.text == "of" && std::ranges::none_of(tokens_, IsValue)
                 ? std::nullopt
                 : std::optional(Assertion::kStated);
    }
    if (token.text == "at" && NextIs(1, "first") && !computed_) return Assertion::kNone;
    if (token.text == "per" && ValueFollows(0) && !computed_) return Assertion::kNone;
    if (token.text == "give" && NextIs(1, "or")) return Assertion::kNear;
    if ((classes & kComparisonWord) != 0) return ReadComparison();
    if ((classes & kConditionWord) != 0) return computed_ ? Assertion::kStated : Assertion::kNone;
    if ((classes & kOperationWord) != 0) return Assertion::kNone;
    if (token.text == "times" && !computed_ &&
        (ValueFollows(1) || Next(1, kComparisonWord) ||
         (at_ + 1 < tokens_.size() &&
          OneOf(tokens_[at_ + 1], {"as", "the", "his", "her", "their", "its", "that", "what"}))))
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
    if (at_ == 0 && NextIs(1, "than") && !computed_) return Assertion::kNone;
    if (NextIs(1, "to") && !computed_) return Assertion::kNone;  // 5 more to fill the box
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
    std::size_t next = at_ + 1;
    while (next < tokens_.size() &&
           OneOf(tokens_[next], {"indeed", "then", "therefore", "thus", "also", "exactly"}))
      ++next;
    if (singular && next < tokens_.size() && OneOf(tokens_[next], {"a", "an"}))
      return Assertion::kNone;
    bool answers = false;
    for (std::size_t i = at_; i < tokens_.size(); ++i) {
      const ProseToken& token = tokens_[i];
      if (IsSign(token, ",")) break;
      if (DeniesBefore(i)) return Assertion::kDenied;
      if (OneOf(token, {"too", "without", "before", "first"}) || Has(token, kConditionWord) ||
          IsValue(token))
        return Assertion::kNone;
      if (Has(token, kHedgeWord)) return Assertion::kOpen;
      answers = answers || (!named_ && Has(token, kMeasureWord)) || IsWord(token, "correct") ||
                IsWord(token, "right") || IsWord(token, "left") || IsWord(token, "what") ||
                IsWord(token, "it") || IsWord(token, "how") ||
                (i == at_ + 2 && IsWord(tokens_[i - 1], "the") && token.text.ends_with("est"));
    }
    return plural || (singular && answers) ? Assertion::kStated : Assertion::kNone;
  }

  ProseSpan tokens_;
  bool computed_;
  bool subject_;
  bool named_;
  std::size_t at_ = 0;
};

}  // namespace

Assertion ReadRight(ProseSpan tokens, bool computed, Subject subject) {
  return RightReader(tokens, computed, subject).Read();
}

}  // namespace buttress
