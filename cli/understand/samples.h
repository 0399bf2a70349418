// The output of `buttress samples`: wrapped text for a terminal, or JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/samples/sample_reader.h"

namespace buttress {

struct SamplesLayout {
  std::size_t columns = 80;     // of the terminal
  std::size_t completions = 4;  // shown of a group; 0: all
};

// Returns `text` for a terminal: line feeds stay, and every other code point that could move the
// cursor, change colours or the direction of the line is written as its number.
std::string Printable(std::string_view text);

// Returns the lines of `text`, broken after at most `columns` code points, at a space where there
// is one. Each begins with `indent`, which counts.
std::string Wrapped(std::string_view text, std::string_view indent, std::size_t columns);

std::string SamplesText(const SampledGroup& group, const SamplesLayout& layout);

nlohmann::ordered_json SamplesJson(const SampledGroup& group);

}  // namespace buttress
