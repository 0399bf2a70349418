// The words and signs of the sentence around a value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace buttress {

// A word in lower case, a number, or a sign. Signs are given by their meaning:
//
//   = equality, an arrow     ≈     ≠     < any bound     / * ^ any operator   , : ends of clauses
//   ≡ an equation or inequality between dollars, a value
//   | the border of a cell, or a dash between blanks      \ any other mathematics, an operand
//
// Brackets, dollars, quotes and what only typesets are left out.
struct ProseToken {
  enum class Kind { kWord, kNumber, kSign };

  Kind kind = Kind::kSign;
  std::string text;
  bool capital = false;  // the word is a letter or a name, as "Ann"; not a label, as ABC
};

struct ProseAround {
  std::vector<ProseToken> left;
  std::vector<ProseToken> right;
  bool asks = false;  // the sentence is a question
};

// What is a value, and so a token of kind kNumber: numerals, or the letters of multiple choice. A
// numeral is a word where letters are values.
enum class ProseValues { kNumbers, kLetters };

// Returns whether a letter of multiple choice, A to J, stands alone at `at`: not the article of "A
// good choice" or the pronoun of "I am".
bool IsOptionLetter(std::string_view text, std::size_t at);

// Returns the words and signs of the text, without GSM8K's annotations <<2+3=5>>.
std::vector<ProseToken> ReadProse(std::string_view text,
                                  ProseValues values = ProseValues::kNumbers);

// Returns the end of the sentence that goes on at `at`, behind its full stop or line.
std::size_t SentenceEnd(std::string_view text, std::size_t at);

// Returns the begin of the sentence that `at` is in, at most 200 bytes before it.
std::size_t SentenceBegin(std::string_view text, std::size_t at);

// Returns the sentence around `span`, which lies in `text`; at most 200 bytes on either side.
ProseAround SentenceAround(std::string_view text, std::string_view span,
                           ProseValues values = ProseValues::kNumbers);

}  // namespace buttress
