#include <algorithm>

#include "lib/verify/prose/clause.h"

namespace buttress {
namespace {

constexpr unsigned kChainWord = kPassiveWord | kSoWord | kModalWord;

bool IsLetter(const ProseToken& token) {
  return token.kind == ProseToken::Kind::kWord && token.text.size() == 1 &&
         (token.text != "a" || token.capital) && (token.text != "i" || !token.capital);
}

bool IsPronoun(const ProseToken& token) {
  return OneOf(token, {"it", "they", "he", "she", "we", "i", "you", "there", "everyone", "which",
                       "who", "what"}) &&
         !IsLetter(token);
}

// The first word of a noun phrase.
bool IsDeterminer(const ProseToken& token) {
  if (IsLetter(token)) return false;
  return OneOf(token, {"the", "a", "an", "his", "her", "its", "their", "my", "our", "your", "this",
                       "that", "these", "those", "each", "every", "all", "both", "another"}) ||
         token.text.ends_with("'s") || (token.kind == ProseToken::Kind::kWord && token.capital);
}

bool IsPreposition(const ProseToken& token) {
  return OneOf(token,
               {"of",     "for",    "in",      "on",      "at",      "from",     "to",    "with",
                "by",     "per",    "and",     "or",      "than",    "as",       "into",  "after",
                "before", "during", "within",  "among",   "between", "out",      "about", "around",
                "beyond", "under",  "over",    "above",   "below",   "near",     "along", "across",
                "behind", "inside", "outside", "through", "via",     "including"});
}

bool IsRelative(const ProseToken& token) {
  return OneOf(token, {"who", "which", "whose", "whom", "where", "what"});
}

// Words before a subject that leave its clause as it is.
bool Leads(const ProseToken& token) {
  if (token.kind != ProseToken::Kind::kWord) return true;
  return Has(token, kChainWord | kPhraseWord | kContrastWord) || token.text.ends_with("ing") ||
         token.text.ends_with("ly") ||
         OneOf(token, {"and",   "all",      "day",       "days",      "week",    "weeks",
                       "month", "year",     "years",     "time",      "hour",    "together",
                       "today", "tomorrow", "yesterday", "night",     "morning", "evening",
                       "hours", "minutes",  "months",    "meanwhile", "end"});
}

// Whether the word names a quantity or several: "cost", "solutions".
bool NamesQuantity(const ProseToken& token) {
  if (Has(token, kMeasureWord | kQuantityWord)) return true;
  if (token.kind != ProseToken::Kind::kWord || !token.text.ends_with('s')) return false;
  const std::string_view singular = std::string_view(token.text).substr(0, token.text.size() - 1);
  return (ProseClasses(singular) & (kMeasureWord | kQuantityWord)) != 0;
}

// Whether the word is a verb; "cost" and "total" are taken as nouns.
bool IsVerb(const ProseToken& token) {
  return Has(token, kVerbWord | kModalWord) && !Has(token, kMeasureWord);
}

// Verbs and adjectives whose clause behind "that" is so: "we see that", "it follows that".
bool Finds(const ProseToken& token) {
  return OneOf(
      token,
      {"find",      "finds",       "found",      "see",       "sees",       "seen",    "know",
       "knows",     "known",       "show",       "shows",     "shown",      "mean",    "means",
       "meaning",   "conclude",    "concludes",  "concluded", "follow",     "follows", "get",
       "gets",      "have",        "obtain",     "deduce",    "deduced",    "infer",   "implies",
       "imply",     "implying",    "gives",      "give",      "giving",     "confirm", "confirms",
       "confirmed", "prove",       "proves",     "proved",    "verified",   "verify",  "out",
       "sure",      "confident",   "certain",    "clear",     "true",       "so",      "is",
       "and",       "calculate",   "calculated", "determine", "determined", "learn",   "doubt",
       "deny",      "probability", "chance",     "realize",   "observe",    "notice",  "indicates",
       "tells",     "but",         "evident",    "obvious",   "apparent"});
}

// Reads a clause from its last word, the verb by which the value is the answer, to its first one.
class FrameReader {
 public:
  FrameReader(ProseSpan clause, bool bare) : clause_(clause), at_(clause.size()), bare_(bare) {}

  Assertion Read() {
    if (clause_.empty()) return Assertion::kStated;
    if (Assumes() || Numbers()) return Assertion::kNone;
    if (IsOther(clause_.size())) return Assertion::kOpen;
    const bool noun = clause_.size() > 1 && NamesQuantity(clause_.back()) &&
                      (IsDeterminer(clause_.end()[-2]) || Has(clause_.end()[-2], kMeasureWord) ||
                       IsValue(clause_.end()[-2]));
    if (!Has(clause_.back(), kVerbWord | kToWord) || noun) return Assertion::kStated;
    if (!ReadChain()) return Assertion::kNone;
    if (at_ == 0) return Assertion::kStated;
    if (LeavesOperand(clause_.first(at_), /*words=*/true)) return Assertion::kNone;
    if (IsOther(at_)) return Assertion::kOpen;
    if (IsVerb(clause_[at_ - 1])) return Assertion::kStated;  // "the amount he pays is"
    if (bare_ && Has(clause_.back(), kCopulaWord) && !NamesSubject()) return Assertion::kNone;
    return ReadSubject();
  }

 private:
  // Whether the noun phrase that ends before `end` is an answer among others: "a good answer", "the
  // second value", "my earlier result".
  bool IsOther(std::size_t end) const {
    if (end == 0 || !OneOf(clause_[end - 1], {"answer", "value", "result", "solution"}))
      return false;
    bool other = false;
    for (std::size_t i = end - 1; i > 0; --i) {
      const ProseToken& token = clause_[i - 1];
      if (token.kind != ProseToken::Kind::kWord || IsPreposition(token) || IsVerb(token))
        return false;
      other = other || token.text.ends_with("'s") ||
              OneOf(token,
                    {"a", "an", "another", "one", "earlier", "previous", "old", "former", "usual",
                     "common", "second", "third", "next", "other", "alternative", "first"});
    }
    return other;
  }

  // "Answer 2:", "case 1:": a label that counts.
  bool Numbers() const {
    return clause_.size() == 2 && IsValue(clause_[1]) &&
           clause_[0].kind == ProseToken::Kind::kWord && !Has(clause_[0], kVerbWord | kSoWord);
  }

  // "Let x be 5", "when x is 5", "were it 5".
  bool Assumes() const {
    const ProseToken& first = clause_[0];
    if (OneOf(first, {"let",     "let's",      "imagine",    "say",       "when", "whenever",
                      "while",   "although",   "though",     "given",     "once", "first",
                      "firstly", "formerly",   "originally", "initially", "put",  "set",
                      "plug",    "substitute", "consider",   "fix"}))
      return true;
    if (clause_.size() > 1 && ((IsWord(first, "in") && IsWord(clause_[1], "case")) ||
                               (IsWord(first, "at") && IsWord(clause_[1], "first"))))
      return true;
    return clause_.size() > 1 && OneOf(first, {"were", "had", "should"});
  }

  // "we divide 6 by 2 to get 3"
  bool Computes() const {
    return OneOf(clause_[0], {"we", "you", "to", "i"}) ||
           std::ranges::any_of(clause_, [](const ProseToken& token) { return IsValue(token); });
  }

  bool Found() const {
    return std::ranges::any_of(clause_.first(at_ - 1), [](const ProseToken& token) {
      return OneOf(token, {"find", "found", "get", "compute", "computed", "confirmed", "see",
                           "calculate", "calculated", "determine", "determined", "know", "known"});
    });
  }

  // Moves to the first word of "is found to be". Returns false for an infinitive that says no fact
  // ("is supposed to be", "apples to make") and for "would have been".
  bool ReadChain() {
    const bool finite = Has(clause_.back(), kCopulaWord);
    for (--at_; at_ > 0; --at_) {
      const ProseToken& token = clause_[at_ - 1];
      if (IsWord(token, "to")) {
        if (at_ < 2) return true;
        const bool found = IsWord(clause_.back(), "be") && Found();  // "we get the sum to be"
        if (found ||
            (OneOf(clause_.back(), {"get", "obtain", "find", "give", "yield"}) && Computes())) {
          at_ = 0;
          return true;
        }
        if (!OneOf(clause_[at_ - 2], {"need", "needs", "needed", "have", "has", "had", "going",
                                      "out", "found", "known", "shown", "calculated", "computed",
                                      "determined", "happens", "able", "required", "having"}))
          return false;
      } else if (!finite && OneOf(token, {"have", "has", "had"})) {
        if (at_ > 1 && OneOf(clause_[at_ - 2], {"would", "should", "could", "might"})) return false;
      } else if (!(finite ? Has(token, kPassiveWord) && !IsDeterminer(token)
                          : OneOf(token, {"will",  "would", "should", "must",  "be",   "been",
                                          "is",    "are",   "was",    "were",  "do",   "does",
                                          "did",   "going", "out",    "up",    "able", "found",
                                          "turns", "need",  "needs",  "needed"}) ||
                                (Has(token, kChainWord) && !IsDeterminer(token))) &&
                 !OneOf(token, {"each", "all", "both"}) && !token.text.ends_with("ly")) {
        break;
      }
    }
    return true;
  }

  // Whether a quantity is named among the words before the verb, as its subject or part of it.
  bool NamesSubject() const {
    if (at_ == 1 && clause_[0].capital) return true;  // "Tom is"
    return std::ranges::any_of(clause_.first(at_), [&](const ProseToken& token) {
      return NamesQuantity(token) || IsLetter(token) || IsPronoun(token) || IsValue(token) ||
             (token.capital && &token != clause_.data()) || token.kind != ProseToken::Kind::kWord ||
             token.text.ends_with("est") || token.text.ends_with("ing") ||
             OneOf(token, {"that", "this", "these", "those", "each", "other", "others", "one",
                           "ones", "both", "rest", "all", "half", "maximum", "minimum"});
    });
  }

  // Reads the subject that ends before `at_`, and what governs its clause.
  Assertion ReadSubject() const {
    const std::size_t end = at_;
    if (IsWord(clause_[end - 1], "and")) return Assertion::kStated;  // "we divide by 3 and get"
    std::size_t begin = end;
    while (begin > 0) {
      const ProseToken& token = clause_[begin - 1];
      if (begin == end && OneOf(token, {"that", "who"})) return Relates(begin - 1);
      if (IsWord(token, "that")) break;
      if (OneOf(token, {"when", "whenever", "while", "until"}))
        return Followed(begin) ? Assertion::kStated : Assertion::kNone;  // "when x is 5"
      --begin;
      if (IsWord(token, "which")) return Assertion::kStated;
      if (IsPronoun(token)) {
        if (begin + 1 == end || (begin > 0 && IsWord(clause_[begin - 1], "that"))) break;
        const bool relative =  // "the ratio we seek is", "the cost when it is high is"
            begin > 0 &&
            (!Leads(clause_[begin - 1]) || OneOf(clause_[begin - 1], {"when", "as", "where"}));
        return relative ? Assertion::kStated : Assertion::kOpen;  // "I believe apples cost"
      }
      if (!IsDeterminer(token) || clause_[begin + 1].kind == ProseToken::Kind::kSign) continue;
      while (begin > 0 && IsDeterminer(clause_[begin - 1]) && !IsWord(clause_[begin - 1], "that"))
        --begin;
      if (begin == 0 || !IsPreposition(clause_[begin - 1])) break;
    }
    if (begin == 0)
      return Quantified(clause_[0]) || IsOfOthers() ? Assertion::kOpen : Assertion::kStated;
    const ProseToken& governor = clause_[begin - 1];
    if (OneOf(governor, {"when", "whenever", "while", "until"})) return Assertion::kNone;
    if (IsWord(governor, "that")) {
      const std::size_t person = begin > 2 && Has(clause_[begin - 2], kPersonWord) ? 1 : 0;
      if (begin == 1 || Finds(clause_[begin - 2 - person])) return Assertion::kStated;
    } else if (Leads(governor) || IsRelative(governor) || Finds(governor) ||
               IsPreposition(clause_[0]) || clause_[0].text.ends_with("ing")) {
      return Assertion::kStated;
    }
    return HasRelative(begin) || HasAdverbial(begin) ? Assertion::kStated : Assertion::kOpen;
  }

  // Whether the subject is one whose answer this is not: "my friend got", "a student obtains".
  bool IsOfOthers() const {
    if (!bare_) return false;
    const ProseSpan subject = clause_.first(at_);
    if (std::ranges::any_of(subject, [](const ProseToken& token) { return IsWord(token, "my"); }))
      return std::ranges::none_of(subject,
                                  [](const ProseToken& token) { return NamesQuantity(token); });
    return OneOf(subject[0], {"a", "an"}) &&
           OneOf(clause_.back(),
                 {"get", "gets", "got", "obtain", "obtains", "obtained", "find", "finds", "found"});
  }

  // "a box that holds 5" says nothing of 5, "and that makes 5" does.
  Assertion Relates(std::size_t that) const {
    if (that == 0 || clause_[that - 1].kind != ProseToken::Kind::kWord) return Assertion::kStated;
    const ProseToken& before = clause_[that - 1];  // "double that is 5"
    return Finds(before) || Has(before, kPassiveWord | kConclusionWord) ||
                   OneOf(before, {"double", "twice", "half"})
               ? Assertion::kStated
               : Assertion::kNone;
  }

  // Whether the word before `begin`, or another verb before the value's, belongs to a clause or an
  // infinitive that describes the subject: "the boys who like the film are", "the number of ways to
  // seat the boys is".
  bool HasRelative(std::size_t begin) const {
    if (begin > 1 && IsWord(clause_[begin - 2], "to") && IsDeterminer(clause_[0])) return true;
    if (Followed(begin)) return true;
    if (begin > 2 && IsPronoun(clause_[begin - 2]) && !IsWord(clause_[begin - 1], "that") &&
        !Leads(clause_[begin - 3]))
      return true;
    for (std::size_t i = 0; i < begin; ++i) {
      if (IsRelative(clause_[i])) return true;
      if (i == 0 || !IsWord(clause_[i], "that")) continue;
      const ProseToken& next = clause_[i + 1];
      const bool subject = (IsDeterminer(next) || IsPronoun(next) || IsLetter(next)) &&
                           !Has(clause_[i - 1], kMeasureWord);
      if (!subject || i + 3 < begin) return true;
    }
    return false;
  }

  // Whether another verb than the value's stands behind `begin`.
  bool Followed(std::size_t begin) const {
    return std::ranges::any_of(clause_.subspan(begin, at_ - begin), IsVerb);
  }

  // "in a yard there are"
  bool HasAdverbial(std::size_t begin) const {
    constexpr std::size_t kReach = 5;
    const auto before = clause_.first(begin).last(std::min(begin, kReach));
    return IsWord(clause_[begin], "there") && std::ranges::any_of(before, IsPreposition);
  }

  static bool Quantified(const ProseToken& token) {
    return OneOf(token, {"some", "others", "many", "most", "several", "someone", "somebody",
                         "anyone", "people", "another", "either"});
  }

  ProseSpan clause_;
  std::size_t at_;  // the words from here on are read
  bool bare_;
};

// Returns whether the token at `i` computes with what stands on both sides; "/" before a word is
// part of a unit.
bool Operates(ProseSpan tokens, std::size_t i, bool words) {
  const ProseToken& token = tokens[i];
  if (i + 1 == tokens.size()) return false;
  const ProseToken& next = tokens[i + 1];
  if (IsSign(token, "/")) return next.kind != ProseToken::Kind::kWord;
  if (words && OneOf(token, {"divided", "multiplied", "increased", "decreased", "reduced"}))
    return IsWord(next, "by");
  if (IsWord(token, "times"))
    return IsValue(next) || IsDeterminer(next) || IsPronoun(next) || IsLetter(next);
  return IsSign(token, "*") || IsSign(token, "^") || OneOf(token, {"plus", "minus"});
}

// Returns whether the token at `i` computes with the one value behind it.
bool OperatesAlone(ProseSpan tokens, std::size_t i) {
  if (OneOf(tokens[i], {"half", "twice", "double", "triple", "thrice", "doubled", "tripled",
                        "halved", "cubed", "squared"}))
    return i + 1 == tokens.size() || !OneOf(tokens[i + 1], {"that", "this"});  // a value before
  return OneOf(tokens[i], {"square", "cube", "root"}) && i + 1 < tokens.size() &&
         IsWord(tokens[i + 1], "of");
}

}  // namespace

bool GivesValue(ProseSpan condition) {
  if (condition.size() > 2 && IsWord(condition[1], "that")) condition = condition.subspan(1);
  if (condition.size() > 1 && IsSign(condition[1], "≡")) return true;
  return condition.size() > 3 && IsLetter(condition[1]) && IsValue(condition[3]) &&
         (IsSign(condition[2], "=") || Has(condition[2], kCopulaWord));
}

bool LeavesOperand(ProseSpan side, bool words) {
  const auto other = [](const ProseToken& token) {
    return IsSign(token, "=") || IsSign(token, "\\") || IsRelative(token) || IsWord(token, "that");
  };
  if (std::ranges::any_of(side, other)) return false;
  for (std::size_t i = side.size(); i > 0; --i) {
    if (!IsVerb(side[i - 1]) && !IsSign(side[i - 1], "<")) continue;
    side = side.subspan(i);
    break;
  }
  // Letters are operands beside an operator that is a word, or before an equals sign.
  bool letters = !words;
  for (std::size_t i = 1; i < side.size(); ++i)
    letters = letters || (side[i].kind == ProseToken::Kind::kWord && Operates(side, i, words));
  bool with = false, without = false, number = false, named = false, single = false;
  bool multiple = false;  // 2x
  bool unknown = false;   // a letter among the factors: 2x
  std::size_t operators = 0;
  for (std::size_t i = 0; i < side.size(); ++i) {
    single = single || OperatesAlone(side, i);
    if (i > 0 && Operates(side, i, words)) {
      ++operators;
      if (number || named) (number && !unknown ? with : without) = true;
      number = named = unknown = false;
      continue;
    }
    number = number || IsValue(side[i]);
    const bool times = IsWord(side[i], "x") && i > 0 && i + 1 < side.size() && IsValue(side[i + 1]);
    const bool factor = letters && i > 0 && IsValue(side[i - 1]) && IsLetter(side[i]) && !times &&
                        !side[i].capital && !CanonicalUnit(side[i].text);
    multiple = multiple || (factor && i + 1 == side.size());
    unknown = unknown || (letters && IsLetter(side[i]) && !side[i].capital && !times &&
                          !CanonicalUnit(side[i].text));
    named = named || (side[i].kind == ProseToken::Kind::kWord && (letters || !IsLetter(side[i])));
  }
  if (number || named) (number && !unknown ? with : without) = true;
  return multiple || (operators > 0 && with && without) || (words && single && !with);
}

bool IsGoal(ProseSpan words) {
  const auto shows = [](const ProseToken& token) {
    return OneOf(token, {"show", "prove", "confirm", "verify", "check"});
  };
  for (std::size_t i = 1; i < words.size(); ++i) {
    const ProseToken& verb = words[i - 1];
    if (IsWord(words[i], "that")) {
      const bool closed = i + 1 < words.size() && IsSign(words[i + 1], "≡");  // "such that $x = 2$"
      if (IsWord(verb, "such") && !closed) return true;
      if (shows(verb) &&
          (i == 1 || OneOf(words[i - 2], {"to", "please", "must", "should", "will"})))
        return true;
    }
    // "we want to find the number which"
    if (i > 1 && OneOf(words[i], {"which", "that"}) && NamesQuantity(verb) &&
        std::ranges::any_of(words.first(i),
                            [](const ProseToken& token) { return IsWord(token, "find"); }))
      return true;
  }
  return false;
}

Assertion ReadFrame(ProseSpan clause, bool bare) { return FrameReader(clause, bare).Read(); }

bool NamesValue(ProseSpan words) {
  if (words.empty() || (words.size() == 1 && (IsLetter(words[0]) || IsPronoun(words[0]))))
    return true;
  const bool verb = IsVerb(words.back()) && std::ranges::any_of(words, IsPronoun);
  return verb || std::ranges::any_of(words, [](const ProseToken& token) {
           return NamesQuantity(token) || Has(token, kConclusionWord | kSoWord) ||
                  OneOf(token, {"step", "it", "no", "yes", "actually", "correction"});
         });
}

bool Introduces(ProseSpan intro) {
  for (std::size_t begin = 0; begin < intro.size();) {
    std::size_t end = begin;
    while (end < intro.size() && !IsSign(intro[end], ",") && !IsSign(intro[end], ":") &&
           !IsWord(intro[end], "but"))
      ++end;
    ProseSpan part = intro.subspan(begin, end - begin);
    begin = end + 1;
    if (part.empty()) continue;
    if (end < intro.size() && IsWord(intro[end], "but")) continue;
    if (end < intro.size() && IsSign(intro[end], ":")) {
      if (!NamesValue(part)) return false;
      continue;
    }
    if (end == intro.size() && IsSign(part.back(), "|")) {
      while (!part.empty() && IsSign(part.back(), "|")) part = part.first(part.size() - 1);
      return NamesValue(part);
    }
    const auto ours = [](const ProseToken& token) {
      return OneOf(token, {"we", "you", "each", "every"});
    };
    const bool premise = OneOf(part[0], {"since", "because"});
    if (IsWord(part[0], "when") && GivesValue(part)) return false;
    if (IsWord(part[0], "if")) {
      if (std::ranges::none_of(part, ours)) return false;
    } else if ((!premise &&
                std::ranges::any_of(
                    part, [](const ProseToken& token) { return Has(token, kConditionWord); })) ||
               OneOf(part[0], {"before", "without", "had", "were", "should", "formerly", "first",
                               "originally", "initially", "ignoring"})) {
      return false;
    }
  }
  return true;
}

}  // namespace buttress
