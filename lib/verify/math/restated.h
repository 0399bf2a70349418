// Answers that leave the computation to the verifier: 123 * 456 for 56088.
#pragma once

#include <string_view>

namespace buttress {

// Returns whether `given` is a sum, difference or product of numerals where the reference is one
// numeral, or a quotient where it is an integer. 1.2 * 10^3 is a notation, not a computation, and
// so is 1/2 for 0.5.
bool LeavesComputation(std::string_view given, std::string_view gold);

// Returns whether `given` is an expression without free symbols that the prompt contains, and the
// reference is a shorter one: the response repeats the question. Blanks, dollars, braces and the
// signs for multiplication and division do not matter. False if the reference is in the prompt too.
bool RepeatsQuestion(std::string_view given, std::string_view gold, std::string_view prompt);

}  // namespace buttress
