// The two sides of a sentence around a value, which assertion.cc reads.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

#include "lib/verify/math/words.h"
#include "lib/verify/prose/assertion.h"
#include "lib/verify/prose/prose.h"
#include "lib/verify/prose/prose_words.h"

namespace buttress {

using ProseSpan = std::span<const ProseToken>;

inline bool IsWord(const ProseToken& token, std::string_view word) {
  return token.kind == ProseToken::Kind::kWord && token.text == word;
}

inline bool IsSign(const ProseToken& token, std::string_view sign) {
  return token.kind == ProseToken::Kind::kSign && token.text == sign;
}

inline bool OneOf(const ProseToken& token, std::initializer_list<std::string_view> words) {
  return token.kind == ProseToken::Kind::kWord &&
         std::ranges::find(words, token.text) != words.end();
}

inline unsigned ClassesOf(const ProseToken& token) {
  return token.kind == ProseToken::Kind::kWord ? ProseClasses(token.text) : 0;
}

inline bool Has(const ProseToken& token, unsigned classes) {
  return (ClassesOf(token) & classes) != 0;
}

inline bool IsValue(const ProseToken& token) {
  return token.kind == ProseToken::Kind::kNumber || IsSign(token, "≡") ||
         (token.kind == ProseToken::Kind::kWord && token.text != "one" &&
          NumberWord(token.text).has_value());
}

// Returns whether the token at `i` denies: not the "no" of "no doubt" or the "not" of "not only".
bool Denies(ProseSpan tokens, std::size_t i);

// Returns whether the token at `i` doubts: "maybe", and "either" if "or" follows, as it does not in
// "in either case".
bool Hedges(ProseSpan tokens, std::size_t i);

// Returns whether the tokens end with the equals sign of a computation: "6 x 7 =".
bool IsComputed(ProseSpan tokens);

// Returns whether a clause up to the verb by which a value is the answer lets it be: its subject is
// one of which a value is said, and no other verb governs it ("we see that", but not "I believe").
// `bare`: no unit stands behind the value, so that the subject of "is" has to name a quantity.
Assertion ReadFrame(ProseSpan clause, bool bare);

// Returns whether the words name a value or draw a conclusion, as a label before a colon has to:
// "Total cost", "Final tally", "x", but not "Assumption" or "Upper bound".
bool NamesValue(ProseSpan words);

// Returns whether the condition gives an unknown a value: "when $x = 5$", "suppose that x is 5".
bool GivesValue(ProseSpan condition);

// Returns whether what stands before the clause leaves it as it is: "So,", "After the sale,", "If
// we add both,", but not "If he pays 5,", "When x = 5,", "Unless I am wrong,", "Before tax," or
// "Assumption:".
bool Introduces(ProseSpan intro);

// Returns whether a part of what stands before the verb or the equals sign is computed with and has
// no number: "x + 5 =", "twice the cost is", "the cost divided by 4 is". `words`: a verb
// follows, before which words compute as signs do.
bool LeavesOperand(ProseSpan side, bool words);

// Returns whether a clause in `words` is what is to be found or shown: "we want to show that".
bool IsGoal(ProseSpan words);

// Reads leftwards from the value to the word that makes it the answer. `counts`: the unit behind it
// counts or measures, so that "in 5 ways" may be the answer. `bare`: no word that could be a unit
// stands there. `equation`: as in ReadAssertion.
Assertion ReadLeft(ProseSpan tokens, bool counts, bool bare, bool equation);

// Whether the value is the subject of its clause: "5 is wrong", "the answer 5 is wrong".
enum class Subject { kNo, kAlone, kNamed };

// Reads rightwards from the value. `computed`: the value is the result of a computation, of which
// the words behind it may say anything: "42 were not sold".
Assertion ReadRight(ProseSpan tokens, bool computed, Subject subject);

}  // namespace buttress
