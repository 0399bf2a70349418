#include "lib/policy/context_heads.h"

#include <algorithm>
#include <string>

namespace buttress {
namespace {

bool Divides(const AttentionSpec& spec, std::int64_t size) {
  return spec.H % size == 0 && (spec.K % size == 0 || size % spec.K == 0);
}

bool DividesAll(const ModelConfig& model, std::int64_t size) {
  return std::ranges::all_of(
      model.blocks, [size](const BlockSpec& block) { return Divides(block.attention, size); });
}

}  // namespace

Status CheckContext(const ModelConfig& model, std::int64_t size, std::int64_t ranks) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const auto undivided = std::ranges::find_if(
      model.blocks, [size](const BlockSpec& block) { return !Divides(block.attention, size); });
  if (undivided != model.blocks.end()) {
    const AttentionSpec& spec = undivided->attention;
    std::string possible;
    for (std::int64_t other = 1; other <= spec.H; ++other)
      if (DividesAll(model, other)) possible += (possible.empty() ? "" : ", ") + text(other);
    return InvalidArgument(text(size) + " ranks cannot divide the " + text(spec.H) +
                           " attention heads and " + text(spec.K) +
                           " key-value heads of the model equally; set one of " + possible);
  }
  if (ranks % size == 0) return OkStatus();
  return InvalidArgument(text(ranks) + " ranks cannot form groups of " + text(size) +
                         "; start a multiple of " + text(size) +
                         " ranks (local.launch.learner_ranks, mpirun -np)");
}

}  // namespace buttress
