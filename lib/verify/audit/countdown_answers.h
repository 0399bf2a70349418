// Right and spoiled expressions for countdown problems, whose rows hold a task and no answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/verify/countdown.h"

namespace buttress {

// Returns an expression that solves the problem, the shortest where not all numbers must be used.
// Searches exactly, through fractions and negative values, and gives up after a bounded number of
// operations (20 ms): enough for all that four numbers can give, and for most problems of six.
// Nullopt where none was found; of up to four numbers there is then none without a unary minus.
std::optional<std::string> SolveCountdown(const CountdownProblem& problem, NumberUse use);

// Returns `solution` with another operator, so that its value is not the target, or with a number
// that the problem does not have and the right value. `turn` chooses among several.
std::string SpoiledCountdown(const CountdownProblem& problem, const std::string& solution,
                             std::uint64_t turn);

}  // namespace buttress
