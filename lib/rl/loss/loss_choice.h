// A row of a table of named choices, for settings and for docs/losses.md.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "lib/base/status.h"

namespace buttress {

struct LossChoice {
  std::string_view name;
  std::string_view formula;
  std::string_view note;
};

// Position of `name` in `choices`. kInvalidArgument: "algorithm.<key> = 'k4' is not known; choose
// one of: k1, ...".
Result<std::size_t> FindChoice(std::span<const LossChoice> choices, std::string_view key,
                               std::string_view name);

}  // namespace buttress
