// Bounds of tokens that follow from several settings.
#pragma once

#include <cstdint>

#include "lib/config/run_config.h"

namespace buttress {

// Returns the tokens that follow a prompt at most: those of a completion, or of a conversation
// behind its first prompt.
inline std::int64_t MostBehindPrompt(const RunSettings& run) {
  return run.env.on() ? run.env.max_tokens : run.sampling.max_tokens;
}

}  // namespace buttress
