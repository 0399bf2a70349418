// Controls: responses whose verdict is known, made from the reference answer of a row. A verifier
// that judges them differently is broken, whatever the policy does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/config/sections/reward_config.h"

namespace buttress {

// Returns "\boxed{answer}".
std::string Boxed(std::string_view answer);

// Returns the answer in LaTeX without the solution around it, or "" if it holds none.
std::string BareAnswer(const std::string& answer);

// Whether the verifier of this name searches a text for an answer (math, number). Others compare
// the whole response.
bool SearchesText(std::string_view verifier);

// Returns the reference answer as a response that the verifier of this name must call correct, of
// countdown a solution that SolveCountdown finds. Nullopt where none can be made: of other
// verifiers whose reference is no answer but a task (code, json_schema), a server or a function, or
// nothing at all, and of answers that hold no answer. `config` is run.reward. Pure.
std::optional<std::string> GoldResponse(std::string_view verifier, const std::string& answer,
                                        const RewardConfig& config);

// Returns a spoiled answer that the verifier must call wrong: another digit, sign, letter, word,
// operator or number. `turn` chooses among several. Nullopt where none can be made, and where
// GoldResponse makes none. Pure.
std::optional<std::string> SpoiledResponse(std::string_view verifier, const std::string& answer,
                                           const RewardConfig& config, std::uint64_t turn);

}  // namespace buttress
