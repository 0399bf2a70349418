// The decision to draw a prompt or to pass it over, by its history alone.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/config/data_config.h"
#include "lib/rl/prompt_selection.h"

namespace buttress {

// Where a prompt comes up.
struct PromptPlace {
  std::uint64_t pass = 0;  // over the dataset
  std::uint64_t row = 0;
};

// Returns why run.data.selection passes a prompt with this record over, or nullopt if it is drawn.
// The modes none and mopps never do: mopps compares a prompt with others. The same arguments give
// the same answer; `seed` is that of the run.
std::optional<SkipReason> PassedOver(const SelectionConfig& selection, std::uint64_t seed,
                                     const PromptPlace& place, const PromptRecord& record,
                                     const GresoBases& bases);

}  // namespace buttress
