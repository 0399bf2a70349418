// gpg: rewards relative to the mean of their group, scaled up for the groups that teach nothing.
#include <algorithm>

#include "lib/rl/advantage/estimators.h"
#include "lib/rl/statistics.h"

namespace buttress {
namespace {

// N / rewards that are not 0. Without such a reward there is no advantage to scale.
double VerlFactor(const AdvantageInput& input) {
  const auto zeros = static_cast<std::size_t>(std::ranges::count(input.rewards, 0.0));
  const std::size_t nonzero = input.rewards.size() - zeros;
  return nonzero == 0 ? 0.0
                      : static_cast<double>(input.rewards.size()) / static_cast<double>(nonzero);
}

// 1 / (share of mixed groups + 1e-5), of the drawn groups with two rewards or more.
double OfficialFactor(const AdvantageInput& input) {
  double groups = static_cast<double>(input.left_out.constant() + input.left_out.mixed);
  auto mixed = static_cast<double>(input.left_out.mixed);
  for (std::size_t k = 0; k < input.groups(); ++k) {
    groups += input.group_rewards(k).size() >= 2 ? 1 : 0;
    mixed += AllEqual(input.group_rewards(k)) ? 0 : 1;
  }
  return groups == 0 ? 0.0 : 1.0 / (mixed / groups + 1e-5);
}

}  // namespace

Status Gpg(const AdvantageInput& input, const AlgorithmConfig& options, AdvantageOutput& out) {
  const double factor =
      options.gpg.form == GpgForm::kVerl ? VerlFactor(input) : OfficialFactor(input);
  BUTTRESS_RETURN_IF_ERROR(DrGrpo(input, options, out));
  for (double& advantage : out.advantages) advantage *= factor;  // (r_i - mean) * factor
  return OkStatus();
}

}  // namespace buttress
