#include "lib/policy/stop_set.h"

#include <algorithm>
#include <string>

namespace buttress {

Status DecideStops(const ModelConfig& model, SamplingParams& sampling) {
  std::vector<std::int32_t>& ids = sampling.stop_token_ids;
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < model.vocab_size) continue;
    return InvalidArgument("stop_token_ids: " + std::to_string(id) +
                           " is not a token of the model; expected 0 to " +
                           std::to_string(model.vocab_size - 1));
  }
  ids.insert(ids.end(), model.eos_token_ids.begin(), model.eos_token_ids.end());
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return OkStatus();
}

}  // namespace buttress
