// What becomes of completions while the weights change (run.async).
#pragma once

#include <cstdint>

#include "lib/config/choice.h"
#include "lib/config/limits.h"

namespace buttress {

// What a worker does with unfinished completions when new weights arrive.
enum class InFlight : std::uint8_t { kRecompute, kKeepKv, kDrain, kAbort };

template <>
inline constexpr ChoiceRow<InFlight> kChoices<InFlight>[] = {
    {InFlight::kRecompute, "recompute",
     "they continue, behind keys and values that the new weights have computed again"},
    {InFlight::kKeepKv, "keep_kv", "they continue behind the keys and values of the old weights"},
    {InFlight::kDrain, "drain", "the new weights wait for their end; none starts meanwhile"},
    {InFlight::kAbort, "abort", "they start again from their prompts"},
};

struct AsyncConfig {
  InFlight in_flight = InFlight::kRecompute;

  void Visit(auto& v) {
    v("in_flight", in_flight, "unfinished completions when new weights arrive", MayChange());
  }
};

}  // namespace buttress
