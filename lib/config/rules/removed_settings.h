// Keys that files of earlier versions may have.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace buttress {

struct RemovedSetting {
  std::string_view key;
  std::string_view mend;  // why there is none, and what to do
};

inline constexpr std::array kRemovedSettings = {
    RemovedSetting{"local.learner.logprob_chunk_tokens",
                   "logits are computed in blocks of the vocabulary; remove the line"},
    RemovedSetting{"local.worker.batch_invariant",
                   "the CPU engine is always batch invariant; remove the line"},
};

// Returns nullptr for a key that there never was.
constexpr const RemovedSetting* FindRemoved(std::string_view key) {
  const auto* const found = std::ranges::find(kRemovedSettings, key, &RemovedSetting::key);
  return found == kRemovedSettings.end() ? nullptr : found;
}

}  // namespace buttress
