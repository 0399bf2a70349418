// The answer that a response states outside of a box. All functions are linear in the text.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "lib/verify/math/syntax/lexer.h"

namespace buttress {

// Returns the text up to the end of the line or sentence. Leading line ends are skipped.
std::string_view Sentence(std::string_view text);

// Returns the first number at or after `from` that is in no word, including its sign, denominator
// and percent sign; the next one may be looked for from `behind` on.
std::optional<std::string_view> NumberAt(std::string_view text, std::size_t from,
                                         std::size_t& behind,
                                         CommaReading commas = CommaReading::kThousands);

// Returns the number of a text that states one and nothing else: "7", "$7", "7 apples", but not
// "7 of 9", "7 = x" or "x + 7".
std::optional<std::string_view> PlainNumber(std::string_view text);

// Returns what the verb of the last sentence says of its subject if that is one to three words and
// no number: "odd" of "So the function is odd.", "Tom" of "The winner must be Tom". Whether the
// sentence states it is for assertion.h to say.
std::optional<std::string_view> LastComplement(std::string_view text);

}  // namespace buttress
