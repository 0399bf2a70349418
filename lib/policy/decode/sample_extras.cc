#include "lib/policy/decode/sample_extras.h"

#include <unordered_map>

namespace buttress {

void Penalize(const Penalties& penalties, std::span<const std::int32_t> prompt,
              std::span<const std::int32_t> completion, std::vector<float>& logits) {
  std::unordered_map<std::int32_t, int> counts;  // in the completion
  if (penalties.repetition != 1) {
    for (const std::int32_t token : prompt) counts.emplace(token, 0);
  }
  for (const std::int32_t token : completion) ++counts[token];
  for (const auto& [token, count] : counts) {
    float& logit = logits[static_cast<std::size_t>(token)];
    auto value = static_cast<double>(logit);
    value = value > 0 ? value / penalties.repetition : value * penalties.repetition;
    if (count > 0) value -= penalties.presence + penalties.frequency * count;
    logit = static_cast<float>(value);
  }
}

}  // namespace buttress
