// gpg: rewards relative to their group's mean, scaled up for the groups that teach nothing.
#include <algorithm>

#include "lib/rl/estimators.h"
#include "lib/rl/group_offsets.h"
#include "lib/rl/group_stats.h"

namespace buttress {
namespace {

constexpr double kShareEps = 1e-5;

double VerlFactor(const AdvantageInput& input) {
  const auto nonzero = std::ranges::count_if(input.rewards, [](double reward) { return reward != 0; });
  // Without a reward there is no advantage to scale.
  return nonzero == 0 ? 0.0 : static_cast<double>(input.rewards.size()) / static_cast<double>(nonzero);
}

double OfficialFactor(const AdvantageInput& input) {
  std::int64_t groups = 0;
  std::int64_t mixed = 0;
  for (std::size_t k = 0; k + 1 < input.group_offsets.size(); ++k) {
    const auto rewards = GroupRows(input.rewards, input.group_offsets, k);
    if (rewards.size() < 2) continue;
    ++groups;
    mixed += ComputeGroupStats(rewards).constant() ? 0 : 1;
  }
  return groups == 0 ? 0.0 : 1.0 / (static_cast<double>(mixed) / static_cast<double>(groups) + kShareEps);
}

}  // namespace

Status Gpg(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const std::string& form = options.gpg.form;
  if (form != "verl" && form != "official") {
    return InvalidArgument("algorithm.gpg.form = '" + form + "' is not known; choose one of: verl, official");
  }
  BUTTRESS_RETURN_IF_ERROR(DrGrpo(input, options, out));
  const double factor = form == "verl" ? VerlFactor(input) : OfficialFactor(input);
  for (double& advantage : out.advantages) advantage *= factor;
  return OkStatus();
}

}  // namespace buttress
