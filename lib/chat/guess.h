// What the policy hears in the guessing game (run.env.name: guess).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace buttress {

// Returns what the game says to a guess; empty for the right one.
constexpr std::string_view GuessHint(std::optional<std::int64_t> guess, std::int64_t number) {
  if (!guess) return "not a number";
  return *guess < number ? "higher" : *guess > number ? "lower" : "";
}

}  // namespace buttress
