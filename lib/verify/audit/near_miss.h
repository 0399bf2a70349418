// Answers that are written almost like an answer and mean something else: what a verifier must not
// take for it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

struct NearMiss {
  std::string_view rule;  // sign, digit, order, bracket, operator, unit or letter
  std::string text;
};

// At most `most` misses of an answer in LaTeX, without what would announce it, the rules in turn. Rules:
//   sign      a sign before the whole, or none; not of zero, ±a and what no minus changes
//   digit     another one, one more, one less
//   order     neighbouring digits, entries of a tuple or interval, numerator and denominator
//   bracket   round for square and the other way round; a pair around a sum left out
//   operator  + and -, · and +, < and >, ∪ and ∩, a root left out, + 1
//   unit      another one, where there is one
//   letter    another variable; another letter in a text
std::vector<NearMiss> NearMisses(std::string_view answer, std::size_t most);

}  // namespace buttress
