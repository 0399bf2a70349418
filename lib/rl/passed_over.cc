#include "lib/rl/passed_over.h"

namespace buttress {

std::optional<SkipReason> PassedOver(const SelectionConfig& selection, std::uint64_t seed,
                                     const PromptPlace& place, const PromptRecord& record,
                                     const GresoBases& bases) {
  if (selection.mode == SelectionMode::kSpeed) {
    const bool rests = SpeedSkips(record, place.pass, selection.speed.rest);
    return rests ? std::optional(SkipReason::kConstant) : std::nullopt;
  }
  if (selection.mode != SelectionMode::kGreso) return std::nullopt;
  const RandomKey key{MixSeed(seed, HashText("prompt skip")), place.pass};
  return GresoSkips(record, bases, UniformAt(key, place.row));
}

}  // namespace buttress
