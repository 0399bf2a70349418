// Responses that audit a verifier: near misses, which look almost like a given answer and must be
// judged wrong, and format variants, which give the same answer and must be judged alike.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

struct NearMiss {
  std::string_view rule;  // sign, digit, order, bracket, operator, point, entry, unit or letter
  std::string text;
};

// Returns at most `most` near misses of an answer in LaTeX without an anchor such as \boxed. The
// rules take turns:
//   sign      adds or removes the sign of the whole; not for zero, ±a and values without a sign
//   digit     changes, adds or removes a digit
//   order     swaps adjacent digits, entries of a tuple or interval, numerator and denominator
//   bracket   swaps round and square brackets; removes a pair around a sum
//   operator  swaps + and -, · and +, < and >, ∪ and ∩; removes a root; adds a number
//   point     moves or adds a decimal point
//   entry     adds or removes an entry of a list or tuple
//   unit      changes the unit, if there is one
//   letter    changes a variable, or a letter in a text
std::vector<NearMiss> NearMisses(std::string_view answer, std::size_t most);

struct FormatVariant {
  std::string_view name;
  std::string response;
};

// Returns responses with `answer`, which is in LaTeX and without an anchor such as \boxed.
std::vector<FormatVariant> FormatVariants(std::string_view answer);

}  // namespace buttress
