// What becomes of unfinished completions when weights change and when workers leave (run.async).
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

// What becomes of tokens that are older than the lease of their group allows.
enum class OldTokens : std::uint8_t { kDrop, kMask, kTrain };

template <>
inline constexpr ChoiceRow<OldTokens> kChoices<OldTokens>[] = {
    {OldTokens::kDrop, "drop", "they are sampled again"},
    {OldTokens::kMask, "mask", "they stay in front of their completions and are not trained"},
    {OldTokens::kTrain, "train", "they are trained, with the weight that the loss gives them"},
};

struct AsyncConfig {
  InFlight in_flight = InFlight::kRecompute;
  OldTokens old_tokens = OldTokens::kDrop;
  std::int64_t partial_ms = 10000;

  void Visit(auto& v) {
    v("in_flight", in_flight, "unfinished completions when new weights arrive", MayChange());
    v("old_tokens", old_tokens,
      "tokens of unfinished groups that are older than batch.max_age allows", MayChange());
    v("partial_ms", partial_ms,
      "time after which workers report the tokens of unfinished groups, which continue at another "
      "worker where a lease ends; 0 = never, and they are sampled again",
      MayChange(Between(0, kDayMs)));
  }
};

}  // namespace buttress
