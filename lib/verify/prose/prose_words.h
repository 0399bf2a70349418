// The classes of English words by which assertion.cc reads a sentence around a value.
#pragma once

#include <string_view>

namespace buttress {

// A word may have several classes.
enum ProseWord : unsigned {
  kVerbWord = 1U << 0,         // its object may be the answer: "is", "makes", "paid"
  kMeasureWord = 1U << 1,      // names a value: "total", "answer", "number"
  kPassiveWord = 1U << 2,      // leaves the value behind it as it is: "exactly", "a", "therefore"
  kSoWord = 1U << 3,           // begins a conclusion: "so", "hence"
  kToWord = 1U << 4,           // its object stands behind "to": "equal", "simplifies"
  kPersonWord = 1U << 5,       // stands between a verb and its object: "gives us 5"
  kDenialWord = 1U << 6,       // "not", "never", "wrong"
  kHedgeWord = 1U << 7,        // "maybe", "guess", "unsure"
  kModalWord = 1U << 8,        // doubts before "be" and "equal": "might", "could"
  kConditionWord = 1U << 9,    // "if", "unless"
  kNearWord = 1U << 10,        // "about", "roughly"
  kComparisonWord = 1U << 11,  // has an operand behind "than": "more", "fewer"
  kOperationWord = 1U << 12,   // behind a value makes it an operand or a bound: "times", "plus"
  kCopulaWord = 1U << 13,      // "is", "was"
  kContrastWord = 1U << 14,    // separates the answer from what it is not: "but", "not", "instead"
  kPhraseWord = 1U << 15,      // begins a phrase behind a value: "because", "in", "per"
  kQuantityWord = 1U << 16,    // names a quantity besides: "radius", "temperature"
  kConclusionWord = 1U << 17,  // says that a value is the answer: "so", "the answer", "in total"
  kAnswerWord = 1U << 18,      // says so outright: "answer"
};

// Returns the classes of the word, which is in lower case; 0 if it has none.
unsigned ProseClasses(std::string_view word);

}  // namespace buttress
