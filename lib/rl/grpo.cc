// grpo, dr_grpo: rewards relative to their group's mean.
#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"

namespace buttress {
namespace {

void NormalizeBatch(const AdvantageInput& input, StdKind kind, double eps, AdvantageOutput& out) {
  for (std::size_t k = 0; k < out.decisions.size(); ++k) {
    NormalizeGroup(GroupRows(input.rewards, input.group_offsets, k), kind, eps,
                   GroupRows(std::span<double>(out.advantages), input.group_offsets, k));
  }
}

}  // namespace

Status Grpo(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  BUTTRESS_ASSIGN_OR_RETURN(const StdKind kind, ParseStdKind(options.std));
  NormalizeBatch(input, kind, options.eps, out);
  return OkStatus();
}

Status DrGrpo(const AdvantageInput& input, const AlgorithmConfig&, AdvantageOutput& out) {
  NormalizeBatch(input, StdKind::kNone, 0.0, out);
  return OkStatus();
}

}  // namespace buttress
